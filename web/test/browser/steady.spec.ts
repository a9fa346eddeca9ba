// The controls of a sale keep their place, the button names the sum, and each deadline is shown.

import type {Browser, Page} from '@playwright/test'
import {readFileSync} from 'node:fs'
import type {Shop} from '../fixtures/server.mjs'
import {buy, expect, signIn, status, test, watch} from './shop.ts'

const soon = {timeout: 15_000}
const sku = (sku_id: string, name: string, price: number) => ({sku_id, name, price, list_price: 0, currency: 'EUR', total: 9, left: 9})

// control is the box of the main control, from the top of the document.
const control = (page: Page) =>
  page.evaluate(() => {
    const e = document.querySelector('.action > :not(.status)') as HTMLElement
    const {x, y, width, height} = e.getBoundingClientRect()
    return {x, y: y + scrollY, width, height}
  })

// The states of a page: the change of the shop that leads to each, and its text in English and Chinese.
const states: [string, (shop: Shop, sn?: string) => void, RegExp][] = [
  ['scheduled', (shop) => Object.assign(shop.sales.get('1'), {starts: Date.now() + 86_000_000}), /Starts at|开抢/],
  ['lit', (shop) => Object.assign(shop.sales.get('1'), {starts: Date.now() - 60_000}), /On sale now|正在抢购/],
  ['paused', (shop) => (shop.sales.get('1').paused = true), /Paused|活动暂停/],
  ['sold out', (shop) => shop.sales.get('1').items.forEach((i: {left: number}) => (i.left = 0)), /Sold out|已售罄/],
  ['may return', (shop) => (shop.sales.get('1').may_return_until = new Date(Date.now() + 600_000).toISOString()), /Unpaid items|可能返场/],
  ['ended', (shop) => (shop.sales.get('1').ended = true), /over|已结束/],
]

async function buyerOf(browser: Browser, baseURL: string, locale: string, problems: string[]): Promise<Page> {
  const context = await browser.newContext({baseURL, locale, timezoneId: 'Asia/Shanghai', reducedMotion: 'reduce'})
  const page = await context.newPage()
  watch(page, problems)
  await signIn(page)
  return page
}

for (const locale of ['en-GB', 'zh-CN']) {
  test(`the button stays where it is, from the start to the payment (${locale})`, async ({browser, shop, address, problems}) => {
    test.setTimeout(120_000)
    const page = await buyerOf(browser, address, locale, problems)
    const add = () => shop.sale('1', {per_user_limit: 2, items: [sku('11', 'Standard', 30000), sku('12', 'Deluxe', 123456)]})
    for (const width of [320, 768, 1440]) {
      await page.setViewportSize({width, height: 720})
      const seen: Record<string, unknown> = {}
      const measure = async (name: string, text: RegExp) => {
        await expect(status(page)).toContainText(text, soon)
        await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight)) // where it is not sticky
        seen[name] = await control(page)
        const [height, room] = await page.evaluate(() => {
          const e = document.querySelector('.action .status') as HTMLElement
          return [(e.firstElementChild as HTMLElement).offsetHeight, parseFloat(getComputedStyle(e).minHeight)] as const
        })
        expect(height, `${name} at ${width} px: the text has room`).toBeLessThanOrEqual(room)
      }
      add()
      for (const [name, change, text] of states) {
        if (name !== 'may return') add()
        change(shop)
        await page.goto('/sales/1')
        await measure(name, text)
      }
      add()
      shop.faults = [{match: /\/paths$/, times: 1, status: 503, code: 'gate_unavailable', retryAfter: 1}]
      shop.createAfterMs = Infinity
      await page.goto('/sales/1')
      await page.locator('#buy').click()
      await measure('waiting', /try again in|秒后/)
      await measure('queued', /Accepted|已受理/)
      const sn = [...shop.reservations.keys()].at(-1) as string
      shop.created(shop.reservations.get(sn))
      await measure('created', /Order created|下单成功/)
      shop.close(sn, 'cancelled')
      await page.reload()
      await measure('closed', /You cancelled|已取消/)
      shop.faults = [{match: /\/paths$/, times: 1, status: 409, code: 'limit_reached', more: {order_sn: sn}}]
      await page.locator('#buy').click()
      await measure('refused', /as many as allowed|已达限购/)
      Object.assign(shop.reservations.get(sn), {status: 'paid'})
      shop.sales.get('1').items.forEach((i: {left: number}) => (i.left = 0))
      await page.reload()
      await measure('paid', /Paid|已支付/)
      const [first, ...others] = Object.values(seen)
      for (const [i, other] of others.entries()) expect(other, `${width} px: ${Object.keys(seen)[i + 1]}`).toEqual(first)
      shop.reservations.clear()
      await page.evaluate(() => localStorage.clear())
    }
    await page.context().close()
  })
}

test('the header has what was chosen, the button names the sum, and a reload keeps both', async ({page, shop}) => {
  shop.sale('1', {per_user_limit: 3, items: [sku('11', 'Standard', 30000), sku('12', 'Deluxe', 123456)]})
  shop.createAfterMs = Infinity
  await signIn(page)
  await page.goto('/sales/1')
  await page.getByRole('radio', {name: /Deluxe/}).check()
  await page.getByLabel('Quantity').selectOption('2')
  const head = page.locator('.sale-head')
  await expect(head).toContainText('Deluxe × 2')
  await expect(head).toContainText('Limit 3 per person in all')
  await buy(page).click()
  await expect(status(page)).toContainText('Accepted.')
  await page.reload()
  await expect(head).toContainText('Deluxe × 2')
  await expect(page.getByRole('radio', {name: /Deluxe/})).toBeChecked()
  shop.created([...shop.reservations.values()][0])
  const pay = page.getByRole('button', {name: 'Pay €2,469.12', exact: true})
  await expect(pay).toBeVisible()
  await page.reload()
  await expect(pay).toBeVisible()
  await expect(head).toContainText('Deluxe × 2')
  await page.goto(`/orders/${[...shop.orders.keys()][0]}`)
  await expect(pay).toBeVisible()
})

test('a turn shows its time, and only time in which the sale is open', async ({page, shop}) => {
  const sale = shop.sale('1', {starts: -5, room: {others: 0}, challenge: {kind: 'click'}})
  sale.room.admitted = 1
  await signIn(page)
  await page.goto('/sales/1')
  await page.getByRole('button', {name: 'Join the waiting room'}).click()
  const turn = page.getByRole('timer', {name: /^Your turn/})
  await expect(turn.first()).toHaveAccessibleName(/^Your turn 00:\d\d$/)
  await expect(page.locator('.challenge').getByRole('timer', {name: /^Your turn/})).toBeVisible()
  sale.paused = true
  await page.reload()
  await expect(status(page)).toContainText('Paused.')
  await expect(page.locator('.sale-body > .countdown').getByRole('timer')).toHaveAccessibleName(/^Ends in/)
})

test('after a cancellation "Buy again" waits for the units instead of refusing', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const [sn] = [...shop.orders.keys()]
  await page.getByRole('button', {name: 'Cancel order'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  await expect(status(page)).toContainText('You cancelled.')
  shop.faults = [{match: /\/paths$/, times: 2, status: 409, code: 'limit_reached', more: {order_sn: sn, order_sns: [sn]}}]
  await page.getByRole('button', {name: 'Buy again'}).click()
  await expect(status(page)).toContainText('Order created', soon)
  expect(shop.orders.size).toBe(2)
})

test('one cancellation too many: the dialog warns of it, page and order say until when, and then "Buy again" buys', async ({page, shop}) => {
  shop.sale('1', {reorder_limit: 1})
  await signIn(page)
  await page.goto('/sales/1')
  const cancel = async (warning: string) => {
    await expect(status(page)).toContainText('Order created')
    await page.getByRole('button', {name: 'Cancel order'}).click()
    await expect(page.getByRole('dialog')).toContainText(warning)
    await page.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  }
  await buy(page).click()
  await cancel('You can cancel this order and still buy again at once.')
  await expect(status(page)).toContainText('You cancelled.')
  await page.getByRole('button', {name: 'Buy again'}).click()
  await cancel('after this one you cannot buy in it for 10 minutes')
  await expect(status(page)).toContainText(/Too many of your orders were cancelled or expired. You can buy again from \d/)
  await expect(page.getByRole('button', {name: 'Buy again'})).toBeDisabled()
  expect(shop.orders.size).toBe(2)
  const [, sn] = [...shop.orders.keys()]
  await page.goto(`/orders/${sn}`)
  await expect(page.locator('.order')).toContainText('You can buy again from')
  // A refused press says so too, and the button comes back by itself.
  for (const r of shop.reservations.values()) Object.assign(r, {ended_at: shop.now() - 700_000})
  await page.reload()
  await page.locator('.order').getByRole('link', {name: 'Buy again'}).click()
  await expect(status(page)).toContainText('You cancelled.')
  for (const r of shop.reservations.values()) Object.assign(r, {ended_at: shop.now() - 594_000})
  await page.getByRole('button', {name: 'Buy again'}).click()
  await expect(status(page)).toContainText('You can buy again from')
  await expect(page.getByRole('button', {name: 'Buy again'})).toBeEnabled(soon)
  await page.getByRole('button', {name: 'Buy again'}).click()
  await expect(status(page)).toContainText('Order created')
})

test('tabs agree within 5 s', async ({page, shop, context, problems}) => {
  shop.sale('1')
  shop.lagMs = 1500
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const [sn] = [...shop.orders.keys()]
  const other = await context.newPage()
  watch(other, problems)
  await other.goto(`/orders/${sn}`)
  await other.getByRole('button', {name: 'Cancel order'}).click()
  await other.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  await expect(other.getByRole('status').first()).toContainText('You cancelled.')
  await expect(status(page)).toContainText('You cancelled.', {timeout: 5000})
  await page.getByRole('button', {name: 'Buy again'}).click()
  await expect(status(page)).toContainText('Order created')
})

test('without a connection the page says how old it is, and goes on at once when it is back', async ({page, shop, context}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  await context.setOffline(true)
  await buy(page).click()
  await expect(page.getByText(/Not refreshed since/)).toBeVisible()
  await expect(page.locator('.sale')).toHaveClass(/stale/)
  await expect(status(page)).toContainText('nothing is bought twice')
  const calls = shop.count('POST', /\/paths$/)
  await context.setOffline(false)
  await expect.poll(() => shop.count('POST', /\/paths$/), {timeout: 900}).toBeGreaterThan(calls)
  await expect(status(page)).toContainText('Order created')
  await expect(page.locator('.sale')).not.toHaveClass(/stale/)
})

test('an unpaid order stands in the header of every page, without a request, until it is paid', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const [sn] = [...shop.orders.keys()]
  const badge = page.getByRole('navigation').getByRole('link', {name: /^Pay 1[45]:\d\d$/})
  await page.goto('/')
  await expect(badge).toHaveAttribute('href', `/orders/${sn}`)
  expect(shop.count('GET', /^\/v1\/orders/)).toBe(0)
  await badge.click()
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click()
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.')
  await expect(badge).toHaveCount(0)
  // The contact is the next step.
  await expect(page.getByLabel('Name')).toBeVisible()
})

test('a payment in flight at the deadline is one statement on every page', async ({page, shop}) => {
  shop.sale('1', {pay_within_s: 4})
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const [sn] = [...shop.orders.keys()]
  const order = shop.orders.get(sn)
  order.payments.push({payment_id: '5', provider: 'other', state: 'started', amount: 9900, currency: 'EUR', created_at: order.created_at})
  await expect(status(page)).toContainText('Your payment is being confirmed.', soon)
  await expect(page.getByRole('button', {name: /^Pay /})).toHaveCount(0)
  await page.reload() // known again within seconds, not at the next turn of the polling
  await expect(status(page)).toContainText('Your payment is being confirmed.')
  await page.getByRole('link', {name: 'See order'}).click()
  await expect(page.getByRole('status').first()).toContainText('Your payment is being confirmed.')
  // Without one, the order has expired.
  order.payments = []
  await page.reload()
  await expect(page.getByRole('status').first()).toContainText('Time to pay is over.')
})

test('a reminder of a sale is a calendar file', async ({page, shop}) => {
  shop.sale('1', {starts: 7200, title: 'Tea; 茶'})
  await page.goto('/sales/1')
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', {name: 'Remind me (.ics)'}).click()])
  expect(file.suggestedFilename()).toBe('sale-1.ics')
  const text = readFileSync(await file.path(), 'utf8')
  expect(text).toContain('BEGIN:VEVENT\r\n')
  expect(text).toContain('SUMMARY:Tea\\; 茶\r\n')
  expect(text).toContain('/sales/1\r\n')
})
