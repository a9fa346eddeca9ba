// Reloads, tabs, sign-in and the network: nothing is lost and nothing is bought twice.

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
  await page.getByRole('button', {name: 'Pay', exact: true}).click()
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
