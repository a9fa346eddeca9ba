// Accessibility, reflow and layout of every view.

import {readFileSync} from 'node:fs'
import {createRequire} from 'node:module'
import {populate} from '../fixtures/shop.mjs'
import {views} from '../fixtures/views.mjs'
import {expect, signIn, test} from './shop.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface View {
  name: string
  path: string
  user?: string
  roles?: string[]
  then?: (page: unknown) => Promise<unknown>
}

// The shared pages are tested in both themes and languages, in one test for each view.
for (const view of views as View[]) {
  test(`${view.name}: axe, reflow at 320 px`, async ({browser, shop, address}) => {
    test.setTimeout(120_000)
    populate(shop)
    shop.streams = false
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const locale of ['en-GB', 'zh-CN']) {
        const context = await browser.newContext({baseURL: address, viewport: {width: 320, height: 640}, colorScheme, locale, bypassCSP: true})
        const page = await context.newPage()
        if (view.user) await signIn(page, view.user, view.roles)
        await page.goto(view.path)
        await page.waitForLoadState('networkidle')
        await view.then?.(page)
        await expect(page.locator('h1, dialog h2').first()).toBeVisible()
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 'scrolls sideways').toBeLessThanOrEqual(0)
        await page.evaluate(axe)
        const found = await page.evaluate(async () => {
          const run = (window as unknown as {axe: {run: (o: unknown) => Promise<{violations: {id: string; nodes: {html: string; failureSummary?: string}[]}[]}>}}).axe
          const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
          const r = await run.run({runOnly: tags})
          return r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 120)} ${n.failureSummary ?? ''}`).join(' | ')}`)
        })
        expect(found, `${colorScheme} ${locale}`).toEqual([])
        await context.close()
      }
    }
  })
}

test('the one button is at least 56 px high and within reach on a phone', async ({page, shop}) => {
  shop.sale('1')
  await page.setViewportSize({width: 320, height: 640})
  await signIn(page)
  await page.goto('/sales/1')
  const box = await page.getByRole('button', {name: 'Buy now'}).boundingBox()
  expect(box?.height).toBeGreaterThanOrEqual(56)
  expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(640)
})
