// Everything works without a pointer, and the focus can be seen and is never lost.

import type {Locator, Page} from '@playwright/test'
import {populate} from '../fixtures/shop.mjs'
import {buy, expect, status, test} from './shop.ts'

// reach presses Tab until the element has the focus, and checks that each element on the way shows it.
async function reach(page: Page, target: Locator): Promise<void> {
  await expect(target).toBeVisible()
  for (let i = 0; i < 60; i++) {
    if (await target.evaluate((e) => e === document.activeElement)) return
    await page.keyboard.press('Tab')
    const seen = await page.evaluate(() => {
      const e = document.activeElement as HTMLElement
      const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(e)
      return e === document.body || (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none' ? '' : e.outerHTML
    })
    expect(seen, 'the focus is not visible').toBe('')
  }
  throw new Error(`not reached by Tab: ${target}`)
}

async function press(page: Page, target: Locator, key = 'Enter'): Promise<void> {
  await reach(page, target)
  await page.keyboard.press(key)
}

test('keyboard only: sign in, buy, pay', async ({page, shop}) => {
  shop.sale('1')
  await page.goto('/')
  await press(page, page.getByRole('link', {name: /Sale 1/}))
  await reach(page, page.getByLabel('User'))
  await page.keyboard.type('42')
  await page.keyboard.press('Enter')
  await press(page, buy(page))
  await expect(status(page)).toContainText('Order created')
  await press(page, page.getByRole('button', {name: 'Pay', exact: true}), 'Space')
  await press(page, page.getByRole('button', {name: 'Payment succeeds'}))
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.')
})

test('keyboard only: a dialog takes the focus and gives it back', async ({page, shop}) => {
  shop.sale('1')
  await page.goto('/sales/1')
  await reach(page, page.getByLabel('User'))
  await page.keyboard.type('42')
  await page.keyboard.press('Enter')
  await press(page, buy(page))
  const cancel = page.getByRole('button', {name: 'Cancel order'}).first()
  await press(page, cancel)
  const dialog = page.getByRole('dialog')
  await expect(dialog).toBeVisible()
  expect(await dialog.evaluate((d) => d.contains(document.activeElement))).toBe(true)
  await page.keyboard.press('Escape')
  await expect(dialog).toHaveCount(0)
  await expect(cancel).toBeFocused()
  await page.keyboard.press('Enter')
  await press(page, dialog.getByRole('button', {name: 'Cancel order'}))
  await expect(status(page)).toContainText('You cancelled.')
  expect(await page.evaluate(() => document.activeElement !== document.body), 'the focus is lost').toBe(true)
})

test('keyboard only: publish a sale, pause it, adjust its stock', async ({page, shop}) => {
  populate(shop)
  await page.goto('/console')
  await reach(page, page.getByLabel('User'))
  await page.keyboard.type('anna')
  await page.keyboard.press('Enter')
  await press(page, page.getByRole('link', {name: 'Sales', exact: true}))
  await press(page, page.getByRole('link', {name: 'Winter jacket'}))
  await press(page, page.getByRole('button', {name: 'Publish'}))
  await press(page, page.getByRole('dialog').getByRole('button', {name: 'Publish'}))
  await expect(page.getByRole('dialog')).toHaveCount(0)
  await press(page, page.getByRole('link', {name: 'Sales', exact: true}))
  await press(page, page.getByRole('link', {name: 'Phone X, 256 GB'}))
  await press(page, page.getByRole('button', {name: 'Adjust stock'}))
  await reach(page, page.getByRole('dialog').getByLabel('Change'))
  await page.keyboard.type('5')
  await reach(page, page.getByRole('dialog').getByLabel('Reason'))
  await page.keyboard.type('found')
  await press(page, page.getByRole('dialog').getByRole('button', {name: 'Apply'}))
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.adjustments[0]).toMatchObject({delta: 5, reason: 'found'})
  await press(page, page.getByRole('button', {name: 'Pause', exact: true}))
  await press(page, page.getByRole('dialog').getByRole('button', {name: 'Pause', exact: true}))
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.sales.get('8').paused).toBe(true)
})
