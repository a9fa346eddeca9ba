// Where things stand on a phone, on a tablet and at a desk, by bounding boxes.

import type {Locator} from '@playwright/test'
import {populate} from '../fixtures/shop.mjs'
import {buy, expect, signIn, test} from './shop.ts'

const box = async (l: Locator) => {
  const b = await l.boundingBox()
  expect(b).not.toBeNull()
  return b as NonNullable<typeof b>
}

test('the one button is at least 56 px high and within reach on a phone', async ({page, shop}) => {
  shop.sale('1')
  await page.setViewportSize({width: 320, height: 640})
  await signIn(page)
  await page.goto('/sales/1')
  const button = await box(buy(page))
  expect(button.height).toBeGreaterThanOrEqual(56)
  expect(button.y + button.height).toBeLessThanOrEqual(640)
})

test('a sale is one column up to 720 px and two from 900 px', async ({page, shop}) => {
  populate(shop)
  await signIn(page)
  await page.setViewportSize({width: 720, height: 1000})
  await page.goto('/sales/1')
  const [picture, title] = [page.locator('.picture').first(), page.getByRole('heading', {level: 1})]
  await expect(title).toBeVisible()
  const above = await box(picture)
  expect((await box(title)).y).toBeGreaterThanOrEqual(above.y + above.height)
  await page.setViewportSize({width: 900, height: 1000})
  const left = await box(picture)
  expect((await box(title)).x).toBeGreaterThanOrEqual(left.x + left.width)
})

test("the console's navigation is at the left from 1,100 px and on top below", async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.setViewportSize({width: 1100, height: 800})
  await page.goto('/console/sales')
  const [navigation, title] = [page.getByRole('navigation').first(), page.getByRole('heading', {level: 1})]
  await expect(title).toBeVisible()
  const left = await box(navigation)
  expect((await box(title)).x).toBeGreaterThanOrEqual(left.x + left.width)
  await page.setViewportSize({width: 1099, height: 800})
  const above = await box(navigation)
  expect((await box(title)).y).toBeGreaterThanOrEqual(above.y + above.height)
})

test('targets are at least 24 px', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'buyer')
  await page.setViewportSize({width: 320, height: 640})
  for (const path of ['/', '/sales/1', '/orders', '/orders/244837465837465804']) {
    await page.goto(path)
    await page.waitForLoadState('networkidle')
    for (const control of await page.locator('button:visible, select:visible, input:visible').all()) {
      const {width, height} = await box(control)
      expect(Math.min(width, height), `${path} ${await control.innerText()}`).toBeGreaterThanOrEqual(24)
    }
  }
})

test('names of any length and direction stay on their line of the page', async ({page, shop}) => {
  const word = 'Donaudampfschifffahrtsgesellschaftskapitän'
  const sku = (sku_id: string, name: string) => ({sku_id, name, price: 900000, list_price: 0, currency: 'HUF', total: 5, left: 5})
  shop.sale('1', {title: `${word} ${word}`, items: [sku('11', `${word} 1`), sku('12', `${word} 2`)], per_user_limit: 2})
  shop.sale('2', {title: 'מבצע סתיו', description: 'שלום', items: [sku('21', 'כחול')]})
  await page.setViewportSize({width: 320, height: 640})
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(page.getByRole('button', {name: /Pay/})).toBeVisible()
  for (const path of ['/', '/sales/1', '/orders', `/orders/${[...shop.orders.keys()][0]}`]) {
    await page.goto(path)
    await expect(page.getByText(word).first()).toBeVisible()
    expect(await page.evaluate(() => document.documentElement.scrollWidth), path).toBe(320)
  }
  await page.goto('/sales/2')
  const title = page.getByRole('heading', {level: 1})
  expect(await title.evaluate((e) => getComputedStyle(e).direction)).toBe('rtl')
})

test('every sale can be reached from the start page', async ({page, shop}) => {
  for (let n = 1; n <= 5; n++) shop.sale(String(n))
  shop.pageSize = 2
  await page.goto('/')
  const cards = page.locator('.sale-card')
  const more = page.getByRole('button', {name: 'Show more'})
  await expect(cards).toHaveCount(2)
  await more.click()
  await expect(cards).toHaveCount(4)
  await more.click()
  await expect(cards).toHaveCount(5)
  await expect(more).toBeHidden()
  await page.waitForResponse('**/v1/activities?limit=50&cursor=4') // the next reading keeps them
  await expect(cards).toHaveCount(5)
})
