// Reloads, tabs, sign-in and the network: nothing is lost and nothing is bought twice.

import type {Page} from '@playwright/test'
import {populate} from '../fixtures/shop.mjs'
import {buy, expect, signIn, status, test, watch} from './shop.ts'

test('a reload in every state goes on', async ({page, shop}) => {
  shop.sale('1')
  shop.createAfterMs = Infinity
  shop.faults = [{match: /\/reservations$/, method: 'POST', times: 1, status: 503, code: 'overloaded', retryAfter: 30}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('We try again in')
  await page.reload() // while it waits to retry
  await expect(status(page)).toContainText('Accepted.')
  await page.reload() // while queued
  await expect(status(page)).toContainText('Accepted.')
  const [r] = [...shop.reservations.values()]
  shop.created(r)
  await expect(status(page)).toContainText('Order created')
  await page.reload() // while it waits for the payment
  await expect(status(page)).toContainText('Order created')
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).waitFor()
  await page.reload() // on the payment's page
  await page.getByRole('button', {name: 'Payment succeeds'}).click()
  await expect(page.getByRole('status').first()).toContainText('Paid.')
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('Paid. Thank you.')
  await page.reload()
  await expect(status(page)).toContainText('Paid. Thank you.')
  expect(shop.reservations.size).toBe(1)
  expect(await page.evaluate(() => Object.keys(localStorage).filter((k) => k.includes('flight')))).toEqual([])
})

test('a second tab takes the purchase over and never presses again', async ({page, shop, context, problems}) => {
  shop.sale('1', {per_user_limit: 3})
  shop.createAfterMs = Infinity
  shop.faults = [{match: /\/reservations$/, method: 'POST', times: 1, status: 503, code: 'overloaded', retryAfter: 3}]
  await signIn(page)
  await page.goto('/sales/1')
  const second = await context.newPage()
  watch(second, problems)
  await second.goto('/sales/1')
  await buy(page).click()
  await expect(status(second)).toContainText(/Sending your order|Accepted/)
  await page.close()
  await expect(status(second)).toContainText('Accepted.', {timeout: 15_000})
  expect(shop.reservations.size).toBe(1)
  expect(shop.paths.size).toBe(1)
})

test('a lost session keeps the place', async ({page, shop, context}) => {
  shop.sale('1')
  shop.faults = [{match: /\/reservations$/, method: 'POST', times: 1, status: 401, code: 'unauthenticated'}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Please sign in again. Your place is kept.')
  await page.getByLabel('User').fill('42')
  await page.getByRole('button', {name: 'Sign in'}).click()
  await expect(status(page)).toContainText('Order created')
  expect(shop.paths.size).toBe(1)
  expect((await context.cookies()).every((c) => c.httpOnly)).toBe(true)
})

test('a session that is lost while queued keeps the place', async ({page, shop, context}) => {
  shop.sale('1')
  shop.createAfterMs = Infinity
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Accepted.')
  await expect.poll(() => shop.streamsOpen.size).toBe(1)
  const [cookie] = await context.cookies()
  shop.revoked.add(`flashsale=${cookie?.value}`)
  for (const s of shop.streamsOpen) s.end()
  await expect(status(page)).toContainText('Please sign in again. Your place is kept.', {timeout: 15_000})
  await page.getByLabel('User').fill('42')
  await page.getByRole('button', {name: 'Sign in'}).click()
  await expect(status(page)).toContainText('Accepted.')
  shop.created([...shop.reservations.values()][0])
  await expect(status(page)).toContainText('Order created')
  expect(shop.paths.size).toBe(1)
})

test('six tabs: only those that can be seen hold a stream', async ({page, shop, context, problems}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  const show = (tab: Page, visible: boolean) =>
    tab.evaluate((v) => {
      Object.defineProperty(document, 'hidden', {configurable: true, get: () => !v})
      document.dispatchEvent(new Event('visibilitychange'))
    }, visible)
  const tabs: Page[] = []
  for (let i = 0; i < 7; i++) {
    const tab = await context.newPage()
    watch(tab, problems)
    await tab.goto('/console/sales/8') // would hang once six connections of HTTP/1.1 are held
    await expect(tab.getByText('Live')).toBeVisible()
    await expect.poll(() => shop.streamsOpen.size).toBe(1)
    await show(tab, false)
    await expect.poll(() => shop.streamsOpen.size).toBe(0)
    tabs.push(tab)
  }
  shop.boards.get('8').units = {total: 10000, left: 7777, held: 1500, sold: 723}
  const first = tabs[0] as Page
  await show(first, true)
  await expect(first.locator('.stat b').getByText('7,777')).toBeVisible()
  await expect.poll(() => shop.streamsOpen.size).toBe(1)
})

test('offline is said, and the page goes on afterwards', async ({page, shop, context}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  await context.setOffline(true)
  await expect(page.getByRole('alert')).toContainText('You are offline.')
  await context.setOffline(false)
  await expect(page.getByRole('alert')).toHaveCount(0)
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
})

test('sign-out removes what is stored', async ({page, shop}) => {
  shop.sale('1')
  shop.createAfterMs = Infinity
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Accepted.')
  await page.getByRole('button', {name: 'Sign out'}).click()
  await expect(page.getByLabel('User')).toBeVisible()
  expect(await page.evaluate(() => Object.keys(localStorage).filter((k) => k.includes('flight')))).toEqual([])
})

test('a sign-out that is refused is said, and the session stays', async ({page, shop}) => {
  shop.sale('1')
  shop.faults = [{match: /^\/auth\/logout$/, times: 1, status: 503, code: 'unavailable'}]
  await signIn(page)
  await page.goto('/sales/1')
  await page.getByRole('button', {name: 'Sign out'}).click()
  await expect(page.getByRole('alert')).toContainText('No answer right now.')
  await expect(buy(page)).toBeVisible()
  await page.getByRole('button', {name: 'Sign out'}).click()
  await expect(page.getByLabel('User')).toBeVisible()
  await expect(page.getByRole('alert')).toHaveCount(0)
})

test('a refusal is not shown to the next user', async ({page, shop}) => {
  shop.sale('1')
  shop.faults = [{match: /\/paths$/, times: 1, status: 403, code: 'forbidden'}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Your account may not do this.')
  await page.getByRole('button', {name: 'Sign out'}).click()
  await page.getByLabel('User').fill('43')
  await page.getByRole('button', {name: 'Sign in'}).click()
  await expect(status(page)).toContainText('On sale now.')
})

test('a tab that is shown again has the session of now', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  await page.request.post('/auth/logout') // as another tab does
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  await expect(page.getByLabel('User')).toBeVisible()
})
