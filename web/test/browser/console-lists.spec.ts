// The merchant's lists: search, order and totals, and what is done from them.

import type {Page} from '@playwright/test'
import {populate} from '../fixtures/shop.mjs'
import {expect, signIn, test} from './shop.ts'

const titles = (page: Page) => page.locator('tbody tr td:first-child')

test('sales: search and order are in the address; totals and links in the list', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales')
  await expect(titles(page)).toHaveCount(8)
  await page.getByLabel('Search titles').fill('  PHONE ')
  await page.getByRole('button', {name: 'Search'}).click()
  await expect(page).toHaveURL(/\?q=PHONE$/)
  await expect(titles(page)).toHaveText(['Phone X, 256 GB', /City bike/, 'Studio headphones'])
  await page.getByLabel('Sort by').selectOption('start')
  await expect(page).toHaveURL(/q=PHONE&sort=start/)
  await expect(titles(page)).toHaveText([/City bike/, 'Studio headphones', 'Phone X, 256 GB'])
  await page.reload()
  await expect(titles(page)).toHaveText([/City bike/, 'Studio headphones', 'Phone X, 256 GB'])
  await expect(page.getByLabel('Search titles')).toHaveValue('PHONE')
  const phone = page.getByRole('row', {name: /Phone X/})
  await expect(phone.locator('td')).toContainText(['', 'Open', '', '8,204of 10,000', '8', 'CN¥31,992.00'])
  await page.getByRole('button', {name: 'Draft', exact: true}).click()
  await expect(page.getByText('Nothing matches.')).toBeVisible()
  await page.getByRole('button', {name: 'All', exact: true}).click()
  await phone.getByRole('link', {name: '8', exact: true}).click()
  await expect(page).toHaveURL(/\/console\/sales\/8\/orders\?state=paid/)
  await expect(page.locator('tbody tr')).toHaveCount(8)

  // A character of a pattern is an ordinary one.
  await page.goto('/console/sales?q=%25')
  await expect(page.getByText('Nothing matches.')).toBeVisible()
  await page.getByLabel('Search titles').fill('')
  await page.getByRole('button', {name: 'Search'}).click()
  await expect(page).toHaveURL(/\/console\/sales$/)
  await expect(titles(page)).toHaveCount(8)
})

test('more of a sorted search is read with the same query', async ({page, shop}) => {
  populate(shop)
  shop.pageSize = 1
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales?q=phone&sort=start')
  await expect(titles(page)).toHaveText([/City bike/])
  for (const n of [2, 3]) {
    await page.getByRole('button', {name: 'Show more'}).click()
    await expect(titles(page)).toHaveCount(n)
  }
  await expect(titles(page)).toHaveText([/City bike/, 'Studio headphones', 'Phone X, 256 GB'])
  await expect(page.getByRole('button', {name: 'Show more'})).toHaveCount(0)
})

test('a duplicate opens its form; a press without a response makes no second one', async ({page, shop}) => {
  populate(shop)
  Object.assign(shop.sales.get('4'), {reorder_limit: 5, degraded_sale: {per_second: 9, drop: 1, reserve: 2}})
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales')
  const row = page.getByRole('row', {name: /Travel rucksack/})
  shop.faults = [{match: /duplicate/, times: 1, status: 503, code: 'unavailable', before: false}]
  await row.getByRole('button', {name: 'Duplicate'}).click()
  await expect(row.locator('.error')).toContainText('No answer right now.')
  await row.getByRole('button', {name: 'Duplicate'}).click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Edit sale')
  expect(shop.sales.size).toBe(9)
  await expect(page.getByLabel('Title')).toHaveValue('Travel rucksack')
  await expect(page.getByLabel('Stock')).toHaveValue('200') // the total units, not those that are left
  await expect(page.getByLabel('Orders a buyer may drop')).toHaveValue('5')
  await expect(page.getByLabel('Purchases per second')).toHaveValue('9')
  await page.getByLabel('Title').fill('Travel rucksack, again')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('.facts .badge')).toContainText('Draft')

  // An ended sale can be duplicated too.
  await page.goto('/console/sales/5')
  await page.getByRole('button', {name: 'Duplicate'}).click()
  await expect(page.getByLabel('Title')).toHaveValue('Wireless keyboard')
  expect(shop.sales.size).toBe(10)
})

test('a draft is deleted from the list and from its page; another editor’s change is not', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales')
  await expect(page.getByRole('button', {name: 'Delete'})).toHaveCount(1) // of the only draft
  const dialog = page.getByRole('dialog')
  shop.sales.get('7').version++
  await page.getByRole('button', {name: 'Delete'}).click()
  await expect(dialog).toContainText('Delete “Winter jacket”?')
  await dialog.getByRole('button', {name: 'Delete'}).click()
  await expect(dialog.locator('.error')).toContainText('Changed meanwhile, reloaded.')
  expect(shop.sales.has('7')).toBe(true)
  await dialog.getByRole('button', {name: 'Delete'}).click()
  await expect(dialog).toHaveCount(0)
  await expect(titles(page)).toHaveCount(7)
  expect(shop.sales.has('7')).toBe(false)

  shop.sale('77', {title: 'Mistake', draft: true})
  await page.goto('/console/sales/77')
  await page.getByRole('button', {name: 'Delete'}).click()
  await dialog.getByRole('button', {name: 'Delete'}).click()
  await expect(page).toHaveURL(/\/console\/sales$/)
  await expect(page.getByText('Mistake')).toHaveCount(0)

  // Published by another editor while the dialog is open.
  shop.sale('78', {title: 'Late', draft: true})
  await page.goto('/console/sales/78')
  await page.getByRole('button', {name: 'Delete'}).click()
  shop.sales.get('78').draft = false
  await dialog.getByRole('button', {name: 'Delete'}).click()
  await expect(page.locator('.facts .badge').first()).toContainText('Open')
  expect(shop.sales.has('78')).toBe(true)
})

test('products: search, archive and unarchive; archived SKUs are not offered', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/products')
  await page.getByLabel('Search names').fill('silver') // a SKU of it
  await page.getByRole('button', {name: 'Search'}).click()
  await expect(page).toHaveURL(/q=silver/)
  await expect(titles(page)).toHaveText(['Phone X'])
  await page.goto('/console/products')
  const jacket = page.getByRole('row', {name: /Winter jacket/})
  await jacket.getByRole('button', {name: 'Archive', exact: true}).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('Published sales go on')
  await dialog.getByRole('button', {name: 'Archive', exact: true}).click()
  await expect(jacket).toHaveCount(0)
  await page.goto('/console/sales/new')
  await expect(page.getByLabel('SKU').locator('option', {hasText: 'Phone X'})).toHaveCount(2)
  await expect(page.getByLabel('SKU').locator('option', {hasText: 'Winter jacket'})).toHaveCount(0)

  // The draft that has the SKU can neither be published nor duplicated, and its items not be changed.
  await page.goto('/console/sales/7')
  await page.getByRole('button', {name: 'Duplicate'}).click()
  await expect(page.locator('.error')).toContainText(/Blue, L belongs to an archived product\./)
  await page.getByRole('button', {name: 'Publish'}).click()
  await dialog.getByRole('button', {name: 'Publish'}).click()
  await expect(dialog.locator('.error')).toContainText(/Blue, L belongs to an archived product\./)
  await dialog.getByRole('button', {name: 'Cancel'}).click()
  await page.getByRole('link', {name: 'Edit'}).click()
  await expect(page.getByLabel('SKU').locator('option:checked')).toHaveText('Blue, L')
  await page.getByLabel('Stock').fill('5')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByLabel('SKU')).toHaveAttribute('aria-invalid', 'true')

  await page.goto('/console/products')
  await page.getByRole('button', {name: 'Archived', exact: true}).click()
  await expect(page).toHaveURL(/archived=true/)
  await expect(titles(page)).toHaveText(['Winter jacket'])
  await page.getByRole('link', {name: 'Winter jacket'}).click()
  await expect(page.getByText('Archived: its SKUs are offered for no further sale.')).toBeVisible()
  await page.goto('/console/products?archived=true')
  await jacket.getByRole('button', {name: 'Unarchive'}).click()
  await dialog.getByRole('button', {name: 'Unarchive'}).click()
  await expect(page.getByText('No product is archived.')).toBeVisible()
  await page.goto('/console/sales/7')
  await page.getByRole('button', {name: 'Publish'}).click()
  await dialog.getByRole('button', {name: 'Publish'}).click()
  await expect(dialog).toHaveCount(0)
  expect(shop.sales.get('7').draft).toBe(false)
})
