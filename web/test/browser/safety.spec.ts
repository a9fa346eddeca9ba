// What the pages store, where they connect to, and their policy.

import type {Request} from '@playwright/test'
import {buy, expect, signIn, status, test} from './shop.ts'

test('no token, cookie, contact or payment data in any storage', async ({page, shop, context}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).waitFor()
  const [order] = [...shop.orders.keys()]
  await page.goto(`/orders/${order}`)
  await page.getByRole('button', {name: 'Contact'}).click()
  await page.getByLabel('Name').fill('Li Lei')
  await page.getByLabel('Phone').fill('+8613812345678')
  await page.getByRole('button', {name: 'Save contact'}).click()
  await expect(page.getByText('Contact saved.')).toBeVisible()
  const kept = await page.evaluate(async () => ({
    local: {...localStorage},
    session: {...sessionStorage},
    databases: (await indexedDB.databases()).length,
    caches: (await caches.keys()).length,
    cookie: document.cookie,
  }))
  const [cookie] = await context.cookies()
  const [payment] = [...shop.payments.keys()]
  const text = JSON.stringify(kept)
  for (const secret of ['Li Lei', '13812345678', cookie?.value as string, `"${payment}"`]) expect(text).not.toContain(secret)
  expect(kept).toMatchObject({databases: 0, caches: 0, cookie: '', session: {}})
})

test('the pages connect to their own origin only; an image from elsewhere is replaced', async ({page, shop, problems}) => {
  const others: string[] = []
  shop.sale('1', {image_url: 'https://elsewhere.example/a.png'})
  // A request that the policy blocks is reported too; it never leaves the browser.
  const left = (r: Request) => new URL(r.url()).hostname === '127.0.0.1' || others.push(r.url())
  page.on('requestfinished', left)
  page.on('requestfailed', (r) => /csp/i.test(r.failure()?.errorText ?? '') || left(r))
  await page.goto('/')
  await expect(page.getByRole('heading', {level: 2})).toBeVisible()
  await expect(page.locator('.picture-initial')).toBeVisible()
  expect(others).toEqual([])
  expect(problems.splice(0).every((p) => p.includes('img-src'))).toBe(true)
})

test('without JavaScript a sentence says what is needed', async ({browser, address}) => {
  const context = await browser.newContext({javaScriptEnabled: false})
  const page = await context.newPage()
  await page.goto(address)
  // Texts of noscript itself are not searched.
  const sentence = page.locator('noscript p').first()
  await expect(sentence).toBeVisible()
  await expect(sentence).toContainText('This page needs JavaScript')
  await context.close()
})
