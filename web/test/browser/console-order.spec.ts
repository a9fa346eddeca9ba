// One purchase in the console, its cancellation, and the refunds that wait for an operator.

import {populate} from '../fixtures/shop.mjs'
import {expect, signIn, test} from './shop.ts'

const paid = '244837465837465811'
const unpaid = '244837465837465810'
const orders = '/console/sales/8/orders'

test('an order is reached from the list, and shows what the services know of it', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto(`${orders}?state=paid`)
  await page.getByRole('link', {name: paid}).click()
  await expect(page).toHaveURL(new RegExp(`${orders}/${paid}$`))
  await expect(page.getByRole('heading', {level: 1})).toHaveText(`Order ${paid}`)
  await expect(page.locator('.facts').first()).toContainText('Paid')
  await expect(page.locator('.facts').first()).toContainText('CN¥3,999.00')
  await expect(page.getByRole('region', {name: 'Bought'}).locator('tbody tr')).toHaveText(['Black1CN¥3,999.00'])
  await expect(page.locator('section', {hasText: 'Contact'}).last()).toContainText('1 Renmin Road, Shanghai')
  await expect(page.getByRole('region', {name: 'Payments'}).locator('tbody tr')).toHaveCount(1)
  await expect(page.getByRole('region', {name: 'Payments'})).toContainText('9811')
  await expect(page.getByText('Nothing was refunded.')).toBeVisible()
  await expect(page.getByRole('region', {name: 'Changes'}).locator('tbody tr td:nth-child(2)')).toHaveText(['Purchase accepted', 'Order created', 'Paid'])
  await expect(page.getByRole('region', {name: 'Changes'}).locator('tbody tr').first()).toContainText('user-101 (Buyer)')
  await page.getByRole('link', {name: 'Phone X, 256 GB'}).click()
  await expect(page).toHaveURL(new RegExp(`${orders}$`))
})

test('a paid order is cancelled and refunded from its page, once', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto(`${orders}/${paid}`)
  await page.getByRole('button', {name: 'Cancel and refund CN¥3,999.00'}).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('CN¥3,999.00 is refunded in full.')
  await dialog.getByRole('button', {name: 'Cancel and refund CN¥3,999.00'}).click()
  await expect(dialog.getByLabel('Reason')).toHaveAttribute('aria-invalid', 'true')
  await dialog.getByLabel('Reason').fill('bought by a robot')
  // The first response is lost: the same call completes what it began.
  shop.faults = [{match: /review\/cancel/, times: 1, status: 503, code: 'unavailable', before: false}]
  await dialog.getByRole('button', {name: 'Cancel and refund CN¥3,999.00'}).click()
  await expect(dialog.getByRole('alert')).toBeVisible()
  await dialog.getByRole('button', {name: 'Cancel and refund CN¥3,999.00'}).click()
  await expect(page.getByRole('status')).toHaveText('Cancelled: it was paid and is being refunded in full.')
  await expect(page.locator('.facts').first()).toContainText('Refunded')
  await expect(page.getByRole('region', {name: 'Refunds'})).toContainText('in progress')
  await expect(page.getByRole('region', {name: 'Refunds'})).toContainText('cancelled by the merchant')
  await expect(page.getByRole('region', {name: 'Refunds'})).not.toContainText('Attempts')
  await expect(page.getByRole('region', {name: 'Changes'})).toContainText('bought by a robot')
  await expect(page.getByRole('button', {name: /^Cancel/})).toHaveCount(0)
  expect(shop.changes.filter((c: {what: string}) => c.what === 'orders.cancel')).toHaveLength(1)
})

test('an unpaid order is closed; one that was paid meanwhile is refunded, and the page says so', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto(`${orders}/${unpaid}`)
  const open = page.getByRole('button', {name: 'Cancel order'})
  await open.click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('It is not paid.')
  await dialog.getByRole('button', {name: 'Cancel', exact: true}).click()
  await expect(dialog).toHaveCount(0)
  await expect(open).toBeFocused()
  await open.click()
  await dialog.getByLabel('Reason').fill('wrong address')
  await dialog.getByRole('button', {name: 'Cancel order'}).click()
  await expect(page.getByRole('status')).toHaveText('Cancelled: the order is closed.')
  await expect(page.locator('.facts').first()).toContainText('Closed')

  const late = '244837465837465813'
  await page.goto(`${orders}/${late}`)
  await open.click()
  const order = shop.orders.get(late)
  const {amount, currency} = order
  Object.assign(order, {state: 'paid', paid_at: new Date().toISOString(), payments: [{payment_id: '9899', order_sn: late, state: 'succeeded', provider: 'sandbox', amount, currency, created_at: order.created_at}]})
  shop.reservations.get(late).status = 'paid'
  await dialog.getByLabel('Reason').fill('wrong address')
  await dialog.getByRole('button', {name: 'Cancel order'}).click()
  await expect(page.getByRole('status')).toHaveText('Cancelled: it was paid and is being refunded in full.')
})

test('an order that is not created yet, one that ended, one of another sale, and none', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  shop.reservations.get(unpaid).status = 'queued'
  shop.orders.delete(unpaid)
  await page.goto(`${orders}/${unpaid}`)
  await expect(page.locator('.note')).toContainText('The order is not created yet.')
  await expect(page.getByText('No payment was started.')).toBeVisible()
  await page.getByRole('button', {name: 'Cancel order'}).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('robot')
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  await expect(page.getByRole('status')).toHaveText('Cancelled: the order is closed.')
  await expect(page.locator('.note')).toContainText('This purchase ended without an order.')

  await page.goto(`${orders}/244837465837465812`)
  await expect(page.locator('.facts').first()).toContainText('Closed')
  await expect(page.getByRole('button', {name: /^Cancel/})).toHaveCount(0)

  await page.goto(`/console/sales/1/orders/${paid}`)
  await expect(page.getByRole('alert')).toContainText('We cannot find this.')
})

test('while the order service does not respond the page says so, and goes on by a press', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  shop.faults = [{match: /^\/v1\/.*\/orders\/\d+$/, times: 1, status: 503, code: 'unavailable', retryAfter: 2}]
  await page.goto(`${orders}/${paid}`)
  await expect(page.getByRole('alert')).toContainText('No answer right now.')
  await expect(page.getByRole('button', {name: /^Cancel/})).toHaveCount(0)
  await page.getByRole('button', {name: 'Try again'}).click()
  await expect(page.getByRole('region', {name: 'Payments'})).toBeVisible()
})

test('operators see contacts masked, and attempts of refunds', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto(`${orders}/${paid}`)
  await expect(page.getByText('***5678')).toBeVisible()
  await expect(page.getByText('Renmin Road')).toHaveCount(0)
  await page.goto('/console/sales/5/orders/244837465837465801')
  await expect(page.getByRole('region', {name: 'Refunds'})).toContainText('Attempts')
})

test('refunds: attempted again, and settled under a typed reference', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console')
  await page.getByRole('link', {name: 'Refunds'}).click()
  await expect(page).toHaveURL(/operator\/refunds$/)
  const rows = page.getByRole('region', {name: 'Refunds'}).locator('tbody tr')
  await expect(rows).toHaveCount(2)
  await expect(rows.first()).toContainText('account closed')
  await expect(rows.nth(1).getByRole('button')).toHaveCount(0) // attempted without end
  await rows.first().getByRole('button', {name: 'Settle'}).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('Record that CN¥3,999.00 was returned in another way?')
  await dialog.getByRole('button', {name: 'Settle'}).click()
  await expect(dialog.getByLabel('Reference of the transfer')).toHaveAttribute('aria-invalid', 'true')
  await expect(dialog.getByLabel('Reason')).toHaveAttribute('aria-invalid', 'true')
  await dialog.getByLabel('Reference of the transfer').fill(' transfer 17 ')
  await dialog.getByLabel('Reason').fill('account closed')
  await dialog.getByRole('button', {name: 'Settle'}).click()
  await expect(page.getByRole('status')).toHaveText('Order 244837465837465890: CN¥3,999.00 is recorded as returned under transfer 17.')
  await expect(rows).toHaveCount(1)
  expect(shop.refunds.get('9701').settled).toEqual({by: 'ops-1', reference: 'transfer 17', reason: 'account closed'})

  Object.assign(shop.refunds.get('9702'), {state: 'refund_failed', attempts: 1})
  await page.reload()
  await rows.first().getByRole('button', {name: 'Attempt again'}).click()
  await expect(dialog).toContainText('nothing is paid twice')
  shop.faults = [{match: /retry$/, times: 1, status: 503, code: 'unavailable', retryAfter: 2}]
  await dialog.getByRole('button', {name: 'Attempt again'}).click()
  await expect(dialog.getByRole('alert')).toBeVisible()
  await dialog.getByRole('button', {name: 'Attempt again'}).click()
  await expect(page.getByRole('status')).toHaveText('Order 244837465837465891: the refund of CN¥3,999.00 is attempted again.')
})

test('a refund that its provider has made is not settled twice; merchants do not see the page', async ({page, shop}) => {
  populate(shop)
  shop.refunds.get('9701').made = true
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/refunds')
  await page.getByRole('button', {name: 'Settle'}).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reference of the transfer').fill('transfer 17')
  await dialog.getByLabel('Reason').fill('account closed')
  await dialog.getByRole('button', {name: 'Settle'}).click()
  await expect(dialog).toContainText('The provider has made this refund.')
  await expect(dialog.getByLabel('Reason')).toHaveValue('account closed')
  await dialog.getByRole('button', {name: 'Cancel'}).click()
  await expect(page.getByRole('region', {name: 'Refunds'}).locator('tbody tr')).toHaveCount(1)

  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/operator/refunds')
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Your account may not do this.')
  await expect(page.getByRole('link', {name: 'Refunds'})).toHaveCount(0)
})

test('differences with the payment providers', async ({page, shop}) => {
  populate(shop)
  const more = {...shop.differences[0], order_sn: undefined, recorded_amount: undefined}
  shop.differences.push({...more, difference_id: '4', kind: 'charge_foreign', payment_id: 'ch_1'}, {...more, difference_id: '5', kind: 'of_later'})
  shop.pageSize = 2
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/refunds')
  const list = page.getByRole('region', {name: 'Payment differences'})
  const rows = list.locator('tbody tr')
  await expect(rows).toHaveCount(2)
  await expect(rows.first()).toContainText('Payment recorded with other figures')
  await expect(rows.first()).toContainText('CN¥399.90')
  await expect(rows.first()).toContainText('CN¥3,999.00')
  await expect(rows.nth(1)).toContainText('ch_1')
  await page.getByRole('button', {name: 'Show more'}).click()
  await expect(rows).toHaveCount(3)
  await expect(rows.nth(2)).toContainText('of_later')
  shop.differences = []
  await page.reload()
  await expect(page.getByText('No difference: payments agree with the providers.')).toBeVisible()
})
