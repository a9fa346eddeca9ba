// Every view in both languages and themes: accessibility, reflow, and its picture compared with the committed one.

import {existsSync, readFileSync, writeFileSync} from 'node:fs'
import {createRequire} from 'node:module'
import path from 'node:path'
import type {Page} from '@playwright/test'
import {populate, populateChallenges, populateRooms} from '../fixtures/shop.mjs'
import {moment, still} from '../fixtures/still.mjs'
import {views} from '../fixtures/views.mjs'
import {expect, signIn, test} from './shop.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const phone = {width: 320, height: 640}
const desk = {width: 1024, height: 640}
const versionFile = path.resolve(import.meta.dirname, '../../screenshots/VERSION')

for (const view of views) {
  test(`${view.name}: axe, reflow at 320 px, pictures`, async ({browser, shop, address}) => {
    test.setTimeout(120_000)
    shop.now = () => moment
    populate(shop)
    populateRooms(shop)
    populateChallenges(shop)
    shop.streams = false
    for (const locale of ['en-GB', 'zh-CN']) {
      const context = await browser.newContext({baseURL: address, viewport: phone, locale, bypassCSP: true, reducedMotion: 'reduce'})
      const page = await context.newPage()
      await still(page)
      if (view.user) await signIn(page, view.user, view.roles)
      await page.goto(view.path)
      await page.waitForLoadState('networkidle')
      await view.then?.(page)
      await expect(page.locator('h1, dialog h2').first()).toBeVisible()
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 'scrolls sideways').toBeLessThanOrEqual(0)
      await page.evaluate(axe)
      expect(await violations(page), `light ${locale}`).toEqual([])
      await page.emulateMedia({colorScheme: 'dark'})
      expect(await violations(page), `dark ${locale}`).toEqual([])
      // Consoles are used at a desk, the buyer's page on a phone.
      if (view.path.startsWith('/console')) await page.setViewportSize(desk)
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.emulateMedia({colorScheme})
        const name = `${view.name}-${locale.slice(0, 2)}-${colorScheme}.jpg`
        compare(await page.screenshot({type: 'jpeg', quality: 70}), name, browser.version())
      }
      await context.close()
    }
  })
}

async function violations(page: Page): Promise<string[]> {
  return page.evaluate(async () => {
    const run = (window as unknown as {axe: {run: (o: unknown) => Promise<{violations: {id: string; nodes: {html: string; failureSummary?: string}[]}[]}>}}).axe
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
    const r = await run.run({runOnly: tags, resultTypes: ['violations']})
    return r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 120)} ${n.failureSummary ?? ''}`).join(' | ')}`)
  })
}

// compare allows 0.5 % of the pixels to differ by more than 0.2. Another major version of Chromium draws text
// differently: there a difference is printed only. `--update-snapshots` renews the pictures and their version.
function compare(picture: Buffer, name: string, version: string): void {
  const major = version.split('.')[0] as string
  if (test.info().config.updateSnapshots === 'all') writeFileSync(versionFile, `${major}\n`)
  const same = existsSync(versionFile) && readFileSync(versionFile, 'utf8').trim() === major
  try {
    expect(picture).toMatchSnapshot(name, {threshold: 0.2, maxDiffPixelRatio: 0.005})
  } catch (error) {
    if (same) throw error
    console.log(`${name}: differs (Chromium ${major}): ${String(error).split('\n')[0]}`)
  }
}
