// The merchant's console and the operator's pages.

import {populate} from '../fixtures/shop.mjs'
import {expect, signIn, test} from './shop.ts'

test('from a product to a published sale', async ({page, shop}) => {
  await page.goto('/console')
  await page.getByLabel('User').fill('anna')
  await page.getByLabel('Role').selectOption('merchant')
  await page.getByRole('button', {name: 'Sign in'}).click()
  await page.getByRole('link', {name: 'Products'}).click()
  await page.getByRole('link', {name: 'New product'}).click()
  await page.getByLabel('Product name').fill('Kettle')
  await page.getByLabel('SKU name').fill('steel')
  await page.getByLabel('List price').fill('99.50')
  await page.getByRole('button', {name: 'Save'}).dblclick() // a double submit makes one product
  await expect(page.getByRole('link', {name: 'Kettle'})).toBeVisible()
  expect(shop.products.size).toBe(1)
  await page.getByRole('link', {name: 'Sales', exact: true}).click()
  await page.getByRole('link', {name: 'New sale'}).click()
  await page.getByLabel('Title').fill('Kettle week')
  await page.getByLabel('SKU').selectOption({index: 1})
  await page.getByLabel('Price').fill('49.50')
  await page.getByLabel('Stock').fill('100')
  await page.getByRole('button', {name: 'Save'}).click()
  await page.getByRole('button', {name: 'Publish'}).click()
  await expect(page.getByRole('dialog')).toContainText('100 units are offered.')
  await page.getByRole('dialog').getByRole('button', {name: 'Publish'}).click()
  await expect(page.getByText('Left', {exact: true}).first()).toBeVisible()
  const [sale] = [...shop.sales.values()]
  expect(sale.items[0]).toMatchObject({price: 4950, total: 100})
})

test('two editors: the second sees the conflict and their own values', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/7/edit')
  await page.getByLabel('Title').fill('Mine')
  const sale = shop.sales.get('7')
  sale.title = 'Theirs'
  sale.version++
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('alert').first()).toContainText('Changed meanwhile, reloaded.')
  await expect(page.getByRole('alert').first()).toContainText('Mine')
  await expect(page.getByLabel('Title')).toHaveValue('Theirs')
})

test('an adjustment below what is left is refused; a retry keeps its key', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/1')
  await page.getByRole('button', {name: 'Adjust stock'}).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Change').fill('-74')
  await dialog.getByLabel('Reason').fill('damaged')
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toContainText('Fewer units are left than you take away.')
  await dialog.getByLabel('Change').fill('-3')
  shop.faults = [{match: /stock-adjustments/, times: 1, status: 503, code: 'unavailable', before: false}]
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toContainText('Press again: it is the same change')
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toHaveCount(0)
  expect(shop.sales.get('1').items[0].left).toBe(70)
})

test('the board shows known counts, live and as a table', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8')
  for (const n of ['8,204', '1,310', '486']) await expect(page.locator('.stat b').getByText(n, {exact: true}).first()).toBeVisible()
  await expect(page.getByText('Live')).toBeVisible()
  shop.boards.get('8').units = {total: 10000, left: 8000, held: 1500, sold: 500}
  await expect(page.locator('.stat b').getByText('8,000')).toBeVisible()
  const now = Math.ceil(Date.now() / 1000) * 1000
  const points = [1, 2].map((s) => ({at: new Date(now + s * 1000).toISOString(), accepted: 70 + s, paths: 0, refused: {}}))
  shop.boards.get('8').points.push(...points) // two seconds settle at once, without stock
  await page.getByText('The same as a table').click()
  await expect(page.getByRole('region', {name: 'Per second'}).locator('tbody tr')).toHaveCount(60)
  await expect(page.getByRole('region', {name: 'Per second'}).locator('tbody tr').first()).toContainText('72')
  await expect(page.getByRole('region', {name: 'Per second'}).locator('tbody tr').nth(1)).toContainText('71')
})

test('orders: filter in the address, and the CSV has the same rows', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8/orders')
  await page.getByLabel('State').selectOption('paid')
  await expect(page).toHaveURL(/state=paid/)
  const rows = page.locator('tbody tr')
  await expect(rows).toHaveCount(8)
  const href = await page.getByRole('link', {name: 'Download CSV'}).getAttribute('href')
  const csv = await (await page.request.get(href as string)).text()
  expect(csv.trim().split('\n')).toHaveLength(9)
  await page.reload()
  await expect(rows).toHaveCount(8)
})

test('roles: a merchant does not see the operator, a buyer sees neither', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/operator/limits')
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Your account may not do this.')
  await signIn(page, 'buyer')
  await page.goto('/console')
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Your account may not do this.')
})

test('operator: replay, reject, edit a limit and revert it, reconcile', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/dead-letters')
  await page.getByRole('button', {name: 'Reject'}).click()
  await expect(page.getByRole('dialog')).toContainText('cannot be undone')
  await page.getByRole('dialog').getByRole('button', {name: 'Reject'}).click()
  await expect(page.getByText('No dead letter.')).toBeVisible()
  await page.goto('/console/operator/limits')
  await page.getByRole('button', {name: 'Edit path'}).click()
  const rule = page.getByLabel('Rule (JSON)')
  await rule.fill((await rule.inputValue()).replace('1000', '1500'))
  await expect(page.locator('.diff ins')).toHaveText('1500')
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.limits.get('path').rule.limit).toBe(1500)
  await page.getByRole('row', {name: /path/}).getByRole('button', {name: 'Revert'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Revert'}).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.limits.get('path').rule.limit).toBe(1000)
  await page.goto('/console/operator/reconcile')
  await page.getByRole('button', {name: 'Reconcile'}).click()
  await expect(page.getByText('None: gate and database agree.')).toBeVisible()
})
