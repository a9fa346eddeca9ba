// Every view in both languages and themes: accessibility, reflow, and its picture compared with the committed one.

import {existsSync, readFileSync, writeFileSync} from 'node:fs'
import {createRequire} from 'node:module'
import path from 'node:path'
import {expect, test as base, type Page, type Request} from '@playwright/test'
import {serve, Shop} from '../fixtures/server.mjs'
import {populate, populateChallenges, populateRooms} from '../fixtures/shop.mjs'
import {moment, still} from '../fixtures/still.mjs'
import {views} from '../fixtures/views.mjs'
import {signIn} from './shop.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const rules = {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}
// The rules of these tags that compute colours. The dark theme changes nothing else: test/unit/tokens.test.ts.
const rulesOfColour = {type: 'rule', values: ['color-contrast', 'link-in-text-block']}
const phone = {width: 320, height: 640}
const wide = {width: 1024, height: 640}
const versionFile = path.resolve(import.meta.dirname, '../../screenshots/VERSION')

interface Desk {
  shop: Shop
  pages: Record<string, Page> // by locale
}

// A worker has one page for each language, on one server: new ones for each view cost more than the view. leave removes
// what a view has stored; a failed test ends its worker, and the pages with it.
const test = base.extend<object, {desk: Desk}>({
  desk: [
    async ({browser}, use) => {
      const server = await serve(new Shop())
      const pages: Desk['pages'] = {}
      for (const locale of ['en-GB', 'zh-CN']) {
        const context = await browser.newContext({
          baseURL: server.url,
          locale,
          timezoneId: 'Asia/Shanghai',
          bypassCSP: true,
          reducedMotion: 'reduce',
        })
        const page = await context.newPage()
        await still(page)
        pages[locale] = page
      }
      await use({shop: server.shop, pages})
      for (const page of Object.values(pages)) await page.context().close()
      await server.close()
    },
    {scope: 'worker'},
  ],
})

for (const view of views) {
  test(`${view.name}: axe, reflow at 320 px, pictures`, async ({browser, desk: {shop, pages}}) => {
    test.setTimeout(120_000)
    shop.reset()
    shop.now = () => moment
    populate(shop)
    populateRooms(shop)
    populateChallenges(shop)
    shop.streams = false
    for (const [locale, page] of Object.entries(pages)) {
      await page.setViewportSize(phone)
      if (view.user) await signIn(page, view.user, view.roles)
      await open(page, view.path)
      await view.then?.(page)
      await expect(page.locator('h1, dialog h2').first()).toBeVisible()
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 'scrolls sideways').toBeLessThanOrEqual(0)
      await page.evaluate(axe)
      expect(await violations(page, rules), `light ${locale}`).toEqual([])
      await page.emulateMedia({colorScheme: 'dark'})
      expect(await violations(page, rulesOfColour), `dark ${locale}`).toEqual([])
      // Consoles are used at a desk, the buyer's page on a phone.
      if (view.path.startsWith('/console')) {
        await page.setViewportSize(wide)
        for (let frame = 0; frame < 3; frame++) await idle(page) // a chart observes its width, and is drawn anew
      }
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.emulateMedia({colorScheme})
        const name = `${view.name}-${locale.slice(0, 2)}-${colorScheme}.jpg`
        compare(await page.screenshot({type: 'jpeg', quality: 70}), name, browser.version())
      }
      await leave(page)
    }
  })
}

// open goes to a path and waits until the page has no request in flight and nothing to do. A response may bring new
// requests: they begin before the page is idle again.
async function open(page: Page, path: string): Promise<void> {
  let begun = 0
  const inFlight = new Set<Request>()
  const begins = (r: Request) => ++begun && inFlight.add(r)
  const ends = (r: Request) => inFlight.delete(r)
  page.on('request', begins).on('requestfinished', ends).on('requestfailed', ends)
  await page.goto(path)
  for (let seen = -1; inFlight.size > 0 || begun !== seen; ) {
    seen = begun
    await idle(page)
  }
  page.off('request', begins).off('requestfinished', ends).off('requestfailed', ends)
}

const idle = (page: Page) =>
  page.evaluate(() => new Promise<unknown>((done) => requestAnimationFrame(() => requestIdleCallback(done))))

// leave goes to a document without scripts, of the same origin, and removes what the view has stored. Another origin
// would cost a new process.
async function leave(page: Page): Promise<void> {
  await page.mouse.move(-1, -1)
  await page.goto('/favicon.svg')
  await page.evaluate(() => [localStorage, sessionStorage].forEach((s) => s.clear()))
  await page.context().clearCookies()
}

async function violations(page: Page, runOnly: object): Promise<string[]> {
  return page.evaluate(async (runOnly) => {
    const run = (window as unknown as {axe: {run: (o: unknown) => Promise<{violations: {id: string; nodes: {html: string; failureSummary?: string}[]}[]}>}}).axe
    const r = await run.run({runOnly, resultTypes: ['violations']})
    return r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 120)} ${n.failureSummary ?? ''}`).join(' | ')}`)
  }, runOnly)
}

// compare allows 0.5 % of the pixels to differ by more than 0.2. Another major version of Chromium draws text
// differently: there a difference is printed only. `--update-snapshots` renews the pictures and their version.
function compare(picture: Buffer, name: string, version: string): void {
  const major = version.split('.')[0] as string
  if (test.info().config.updateSnapshots === 'all') writeFileSync(versionFile, `${major}\n`)
  const same = existsSync(versionFile) && readFileSync(versionFile, 'utf8').trim() === major
  const committed = test.info().snapshotPath(name)
  if (existsSync(committed) && picture.equals(readFileSync(committed))) return // decoding both takes longer
  try {
    expect(picture).toMatchSnapshot(name, {threshold: 0.2, maxDiffPixelRatio: 0.005})
  } catch (error) {
    if (same) throw error
    console.log(`${name}: differs (Chromium ${major}): ${String(error).split('\n')[0]}`)
  }
}
