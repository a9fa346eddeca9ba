// What tests against real services need besides the pages: a published sale and the developer's form of the sign-in.

import {expect, type Browser, type Page} from '@playwright/test'

interface Selling {
  title: string
  stock: number
  pay_within_s: number
  starts_in_s?: number // 5 if absent
  admit_per_second?: number // of a waiting room
  captcha?: string
  captcha_difficulty?: number
}

// publish publishes a sale of one SKU and returns its id.
export async function publish(browser: Browser, url: string, sale: Selling): Promise<string> {
  const context = await browser.newContext({baseURL: url})
  const post = async <T>(path: string, data?: unknown): Promise<T> => {
    const response = await context.request.post(path, {data})
    expect(response.ok(), `${path}: ${response.status()} ${await response.text()}`).toBe(true)
    return (response.status() === 204 ? undefined : await response.json()) as T
  }
  await post('/auth/dev', {user_id: 'cleo', roles: ['merchant']})
  const skus = [{name: 'red', list_price: 5000, currency: 'EUR'}]
  const product = await post<{skus: {sku_id: string}[]}>('/v1/merchant/products', {name: sale.title, skus})
  const starts = Date.now() + (sale.starts_in_s ?? 5) * 1000
  const {activity_id} = await post<{activity_id: string}>('/v1/merchant/activities', {
    title: sale.title,
    starts_at: new Date(starts).toISOString(),
    ends_at: new Date(starts + 600_000).toISOString(),
    per_user_limit: 1,
    pay_within_s: sale.pay_within_s,
    captcha: sale.captcha,
    captcha_difficulty: sale.captcha_difficulty,
    ...(sale.admit_per_second && {waiting_room: {admit_per_second: sale.admit_per_second}}),
    items: [{sku_id: product.skus[0]?.sku_id, price: 2500, stock: sale.stock}],
  })
  await post(`/v1/merchant/activities/${activity_id}/publish`)
  await context.close()
  return activity_id
}

export async function signInByForm(page: Page, user: string, role?: string): Promise<void> {
  await page.getByLabel('User').fill(user)
  if (role) await page.getByLabel('Role').selectOption(role)
  await page.getByRole('button', {name: 'Sign in'}).click()
}
