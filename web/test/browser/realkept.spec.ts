// What the server accepts is what a browser shows: 120 names and amounts, in 60 currencies.

import {expect} from '@playwright/test'
import {test} from './real.ts'

const CURRENCIES = 60
const ITEMS = 2

const parts = ['Phone', '256', 'é', 'ß', '中文', 'हिन्दी', 'ไทย', 'אבג', 'عربي', 'می\u200cخواهم', '👩\u200d👩\u200d👧', '=1+1', '<b>', '&amp;', '"', '\u00a0', 'e\u0301', 'Donaudampfschifffahrtsgesellschaft']

// random is a generator of numbers below n that repeats for a seed (xorshift32).
function random(seed: number): (n: number) => number {
  let x = seed
  return (n) => {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    return (x >>> 0) % n
  }
}

test('texts and amounts of all kinds of currencies are shown as they were accepted', async ({page, url, problems}) => {
  test.setTimeout(300_000)
  const draw = random(20261128)
  const name = () => `a${Array.from({length: 1 + draw(5)}, () => parts[draw(parts.length)]).join(' ')}`
  const amount = () => 1 + draw(draw(2) ? 2000 : 2_000_000_000)
  const post = async <T>(path: string, data?: unknown): Promise<T> => {
    const response = await page.request.post(url + path, {data})
    expect(response.ok(), `${path}: ${response.status()} ${await response.text()}`).toBe(true)
    return (response.status() === 204 ? undefined : await response.json()) as T
  }
  await post('/auth/dev', {user_id: 'kept', roles: ['merchant'], merchant_id: 'kept'}) // other tests list other sales
  const table = (await (await page.request.get(`${url}/v1/merchant/currencies`)).json()) as {items: {currency: string; currency_digits: number}[]}
  // Each number of decimals, the ones in which browsers differ, and those with a symbol of their own first.
  const first = ['EUR', 'USD', 'GBP', 'JPY', 'CNY', 'HKD', 'HUF', 'IDR', 'COP', 'IQD', 'KWD', 'CLF']
  const rank = (c: string) => (first.includes(c) ? first.indexOf(c) : first.length)
  const chosen = table.items.sort((a, b) => rank(a.currency) - rank(b.currency)).slice(0, CURRENCIES)
  expect(chosen).toHaveLength(CURRENCIES)
  expect(new Set(chosen.map((c) => c.currency_digits))).toEqual(new Set([0, 2, 3, 4]))
  let shown = 0
  for (const {currency, currency_digits: digits} of chosen) {
    const skus = Array.from({length: ITEMS}, () => ({name: name(), list_price: amount(), currency}))
    const product = await post<{product_id: string; skus: {sku_id: string}[]}>('/v1/merchant/products', {name: name(), skus})
    const items = product.skus.map((s) => ({sku_id: s.sku_id, price: amount(), stock: 5}))
    const title = name()
    const now = Date.now()
    const {activity_id} = await post<{activity_id: string}>('/v1/merchant/activities', {
      title,
      starts_at: new Date(now - 60_000).toISOString(),
      ends_at: new Date(now + 600_000).toISOString(),
      items,
    })
    await post(`/v1/merchant/activities/${activity_id}/publish`)
    const minor = (text: string) => {
      const fraction = /\.(\d+)$/.exec(text.trim())?.[1] ?? ''
      expect(fraction.length, text).toBe(digits)
      return Number(text.replace(/\D/g, ''))
    }
    await expect(async () => {
      await page.goto(`${url}/sales/${activity_id}`)
      await expect(page.locator('.choice label')).toHaveCount(ITEMS, {timeout: 2000})
    }).toPass({timeout: 30_000}) // the pages know a published sale within seconds
    expect(await page.locator('h1').textContent()).toBe(title)
    for (let i = 0; i < ITEMS; i++) {
      const label = page.locator('.choice label').nth(i)
      expect(await label.locator('.choice-name').textContent()).toBe(skus[i]?.name)
      expect(minor((await label.locator('.choice-price').textContent()) ?? ''), currency).toBe(items[i]?.price)
      shown++
    }
    await page.goto(`${url}/console/products/${product.product_id}`)
    for (let i = 0; i < ITEMS; i++) {
      await expect(page.locator(`#sku-${i}-name`)).toHaveValue(skus[i]?.name ?? '')
      expect(minor(await page.locator(`#sku-${i}-price`).inputValue()), currency).toBe(skus[i]?.list_price)
    }
    await post(`/v1/merchant/activities/${activity_id}/end`)
    await post(`/v1/merchant/products/${product.product_id}/archive`)
  }
  expect(shown).toBeGreaterThanOrEqual(100)
  expect(problems).toEqual([])
})
