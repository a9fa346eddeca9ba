// The pages against the real services in one process: what the stand-in of the other tests may get wrong shows here.

import {expect, type Page} from '@playwright/test'
import {test} from './real.ts'
import {publish, signInByForm as signIn} from './selling.ts'
import {buy, status, watch} from './shop.ts'

const stat = (page: Page, name: string) => page.locator('.stat', {has: page.getByText(name, {exact: true})}).locator('b')

test('two purchases by clicking, one paid and one cancelled, with the board open beside', async ({page, browser, url, problems}) => {
  test.setTimeout(240_000)
  const soon = {timeout: 30_000}
  watch(page, problems)
  const console_ = await browser.newContext({baseURL: url})
  const board = await console_.newPage()
  watch(board, problems)
  await board.goto('/console')
  await signIn(board, 'anna', 'merchant')
  await board.getByRole('link', {name: /Coffee week/}).click(soon)
  await expect(stat(board, 'Left')).toHaveText('800', soon)
  await expect(board.locator('.as-of')).toContainText('Live', soon)

  await page.goto('/')
  await page.getByRole('link', {name: /Coffee week/}).click(soon)
  await page.waitForURL(/\/sales\/\d+/, soon)
  const id = /\/sales\/(\d+)/.exec(page.url())?.[1] ?? ''
  await signIn(page, '42')
  await buy(page).click(soon)
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await expect(stat(board, 'Held')).toHaveText('1', soon)
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click(soon)
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.', soon)
  await expect(stat(board, 'Sold')).toHaveText('1', soon)

  await page.goto(`/sales/${id}`)
  await page.getByRole('button', {name: 'Buy again'}).click(soon)
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await expect(stat(board, 'Left')).toHaveText('798', soon)
  await page.getByRole('button', {name: 'Cancel order'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  await expect(status(page)).toContainText('You cancelled.', soon)

  // The board by its stream, the ledger and the gate agree.
  await expect(stat(board, 'Left')).toHaveText('799', soon)
  await expect(stat(board, 'Held')).toHaveText('0', soon)
  await expect(stat(board, 'Sold')).toHaveText('1', soon)
  await expect(stat(board, 'Paid')).toHaveText('1', soon)
  const row = (name: string) => board.getByRole('row').filter({has: board.getByRole('rowheader', {name, exact: true})}).getByRole('cell')
  await expect(row('Accepted')).toHaveText('2', soon)
  await expect(board.locator('.order-bars li', {hasText: 'Closed'}).locator('b')).toHaveText('1', soon)
  const {counts, items} = (await (await board.request.get(`/v1/merchant/activities/${id}/orders`)).json()) as {counts: unknown; items: unknown[]}
  expect(counts).toEqual({reserved: 0, sold: 1, released: 1, rejected: 0})
  expect(items).toHaveLength(2)
  const sale = (await (await page.request.get(`/v1/activities/${id}`)).json()) as {items: {left: number}[]}
  expect(sale.items.reduce((sum, i) => sum + i.left, 0)).toBe(799)

  // Nothing secret is where scripts can read it.
  for (const p of [page, board]) {
    const kept = await p.evaluate(async () => ({
      session: {...sessionStorage},
      databases: (await indexedDB.databases()).length,
      caches: (await caches.keys()).length,
      cookie: document.cookie,
      local: Object.values({...localStorage}),
    }))
    expect(kept).toMatchObject({session: {}, databases: 0, caches: 0, cookie: ''})
    const [cookie] = await p.context().cookies()
    expect(cookie).toMatchObject({name: 'flashsale', httpOnly: true, sameSite: 'Lax'})
    expect(JSON.stringify(kept.local)).not.toContain(cookie?.value)
    expect(JSON.stringify(kept.local)).not.toMatch(/eyJ/)
  }
  await console_.close()
})

test('the console: a product, a sale, its history; the operator sees health and limits', async ({page, problems}) => {
  test.setTimeout(180_000)
  watch(page, problems)
  await page.goto('/console')
  await signIn(page, 'bert', 'operator')
  await page.getByRole('link', {name: 'Products'}).click({timeout: 30_000})
  await expect(page.getByText('Aurora phone').first()).toBeVisible()
  const {items} = (await (await page.request.get('/v1/merchant/activities')).json()) as {items: {activity_id: string}[]}
  const id = items[0]?.activity_id
  await page.goto(`/console/sales/${id}/history`)
  await expect(page.getByText('Published').first()).toBeVisible()
  await page.goto(`/console/sales/${id}/orders`)
  await expect(page.getByRole('link', {name: 'Download CSV'})).toBeVisible()
  await page.goto('/console/operator/health')
  await expect(page.getByRole('row', {name: /inventory/})).toContainText(/ready/i)
  await page.goto('/console/operator/limits')
  await expect(page.getByRole('button', {name: /^Edit/}).first()).toBeVisible()
  await page.goto('/console/operator/reconcile')
  await page.getByRole('button', {name: 'Reconcile'}).click()
  await expect(page.getByText('None: gate and database agree.')).toBeVisible({timeout: 60_000})
})

test('an order expires and a second person buys its unit', async ({page, browser, url, problems}) => {
  test.setTimeout(180_000)
  const soon = {timeout: 30_000}
  watch(page, problems)
  const activity_id = await publish(browser, url, {title: 'One teapot', stock: 1, pay_within_s: 10})
  await page.goto(`/sales/${activity_id}`)
  await signIn(page, 'first')
  await expect(status(page)).toContainText('On sale now.', soon)
  await buy(page).click()
  await expect(status(page)).toContainText('Order created. Pay by', soon)

  const context = await browser.newContext({baseURL: url})
  const other = await context.newPage()
  watch(other, problems)
  await other.goto(`/sales/${activity_id}`)
  await signIn(other, 'second')
  await expect(status(other)).toContainText('Sold out.', soon)
  await expect(status(page)).toContainText('Time to pay is over.', soon)
  await buy(other).and(other.locator('[aria-disabled=false]')).click(soon)
  await expect(status(other)).toContainText('Order created. Pay by', soon)
  await other.getByRole('button', {name: /^Pay /}).click()
  await other.getByRole('button', {name: 'Payment succeeds'}).click(soon)
  await expect(other.getByRole('status').first()).toContainText('Paid. Thank you.', soon)
  await context.close()
})

test('a waiting room: early joiners, the draw verified by the page, the turn, and a purchase by keyboard', async ({page, browser, url, problems}) => {
  test.setTimeout(240_000)
  const soon = {timeout: 30_000}
  watch(page, problems)
  const id = await publish(browser, url, {title: 'Concert', stock: 5, pay_within_s: 900, starts_in_s: 85, admit_per_second: 1})
  await page.goto(`/sales/${id}`)
  await signIn(page, 'early')
  const join = page.getByRole('button', {name: 'Join the waiting room'})
  await expect(join).toHaveAttribute('aria-disabled', 'false', soon)
  await join.focus()
  await page.keyboard.press('Enter')
  await expect(status(page)).toContainText('You are in. The places are drawn by lot at', soon)
  for (let i = 0; i < 4; i++) {
    const context = await browser.newContext({baseURL: url})
    await context.request.post('/auth/dev', {data: {user_id: `other-${i}`}})
    expect((await context.request.post(`/v1/activities/${id}/room`)).status()).toBe(201)
    await context.close()
  }
  await expect(status(page)).toContainText('Early joining is closed.', {timeout: 60_000})
  const room = page.getByRole('region', {name: 'Waiting room'})
  await room.getByText('Verify the draw: 4 checks passed').press('Enter', {timeout: 60_000})
  await page.reload() // the ticket is kept
  await expect(status(page)).toContainText('It is your turn.', {timeout: 100_000})
  await room.getByText('Verify the draw: 7 checks passed').press('Enter', soon)
  await expect(room).toContainText('The draw gives your ticket place')
  await buy(page).focus()
  await page.keyboard.press('Enter')
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click(soon)
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.', soon)
})
