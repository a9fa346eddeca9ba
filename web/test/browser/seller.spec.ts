// What a merchant says to its buyers: the profile on each sale, and the notice of one sale.

import type {Page} from '@playwright/test'
import {populate} from '../fixtures/shop.mjs'
import {expect, signIn, status, test} from './shop.ts'

const notice = (page: Page) => page.locator('.sale .notice')
const box = (page: Page) =>
  page.locator('#buy').evaluate((e) => {
    const {x, y, width, height} = e.getBoundingClientRect()
    return {x, y: y + scrollY, width, height}
  })
const wide = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)

test('a notice comes, changes and goes without a reload, and moves nothing', async ({page, shop}) => {
  test.setTimeout(90_000)
  const sale = shop.sale('1', {starts: -60})
  await signIn(page)
  const say = (text: string) => (sale.notice = {text, at: new Date(shop.now()).toISOString()})
  for (const width of [320, 768, 1440]) {
    await page.setViewportSize({width, height: 720})
    delete sale.notice
    await page.goto('/sales/1')
    await expect(status(page)).toContainText('On sale now.')
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight))
    const before = await box(page)
    await expect(notice(page)).toBeEmpty()
    say('We ship on Monday.')
    await expect(notice(page)).toContainText('We ship on Monday.', {timeout: 8000})
    expect(await box(page), `${width} px`).toEqual(before)
    say('长'.repeat(200))
    await expect(notice(page)).toContainText('长长', {timeout: 8000})
    expect(await box(page), `${width} px: the longest`).toEqual(before)
    say('x'.repeat(200))
    await expect(notice(page)).toContainText('xxx', {timeout: 8000})
    expect(await box(page), `${width} px: a long word`).toEqual(before)
    expect(await wide(page)).toBeLessThanOrEqual(0)
    const [over, picture] = await page.evaluate(() =>
      ['.notice', '.sale > .picture'].map((s) => (document.querySelector(s) as HTMLElement).getBoundingClientRect().height),
    )
    expect(over).toBeLessThanOrEqual(picture as number)
  }
  delete sale.notice
  await expect(notice(page)).toBeEmpty({timeout: 8000})
  say('Too late.')
  sale.ended = true
  await page.reload()
  await expect(status(page)).toContainText('This sale is over.')
  await expect(notice(page)).toBeEmpty()
})

test('a notice reaches buyers before the start, in the waiting room and in a pause', async ({page, shop}) => {
  const text = 'The doors open 10 min later.'
  const at = new Date(shop.now()).toISOString()
  shop.sale('1', {starts: 86_000, notice: {text, at}})
  shop.sale('2', {starts: -5, room: {others: 50}, notice: {text, at}})
  shop.sale('3', {paused: true, notice: {text, at}})
  await signIn(page)
  for (const id of ['1', '2', '3']) {
    await page.goto(`/sales/${id}`)
    await expect(notice(page)).toContainText(text)
  }
})

test('a buyer reads who sells, by which terms, and how it is delivered', async ({page, shop}) => {
  shop.sale('1')
  await page.goto('/sales/1')
  await expect(page.getByText('Sold by')).toHaveCount(0)
  shop.profiles.set('default', {merchant_id: 'default', name: 'Acme Ltd', terms_url: 'https://acme.example/terms', delivery: 'Ships within 3 days\nto the EU', version: 1})
  await page.reload()
  await expect(page.getByText('Sold by Acme Ltd · Terms of sale')).toBeVisible()
  const terms = page.getByRole('link', {name: 'Terms of sale'})
  await expect(terms).toHaveAttribute('href', 'https://acme.example/terms')
  await expect(terms).toHaveAttribute('target', '_blank')
  await expect(terms).toHaveAttribute('rel', 'noopener')
  await expect(page.getByText('Ships within 3 days')).toHaveCSS('white-space-collapse', 'preserve-breaks')
  // It stands below the button, which it does not move.
  const [button, seller] = [await page.locator('.action').boundingBox(), await terms.boundingBox()]
  expect(seller?.y).toBeGreaterThan((button?.y ?? 0) + (button?.height ?? 0))

  await page.setViewportSize({width: 320, height: 640})
  Object.assign(shop.profiles.get('default'), {name: 'W'.repeat(100), terms_url: '', delivery: 'ש'.repeat(500)})
  await page.reload()
  await expect(page.getByText('W'.repeat(100))).toBeVisible()
  await expect(terms).toHaveCount(0)
  expect(await wide(page)).toBeLessThanOrEqual(0)
  // A link that is not https is none, whatever stored it.
  Object.assign(shop.profiles.get('default'), {terms_url: 'javascript:alert(1)'})
  await page.reload()
  await expect(page.getByText('W'.repeat(100))).toBeVisible()
  await expect(terms).toHaveCount(0)
})

test('a merchant keeps the profile, and sees who is signed in', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console')
  await expect(page.locator('.who')).toHaveText('Signed in: anna · Merchant · default')
  await expect(page.getByRole('columnheader', {name: 'Merchant'})).toHaveCount(0)
  await page.getByRole('link', {name: 'Profile'}).click()
  await page.getByLabel('Address of the terms of sale').fill('http://acme.example')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('must have 1 to 100 characters')).toBeVisible()
  await page.getByLabel('Name of the seller').fill('Acme Ltd')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('must be an https address')).toBeVisible()
  await page.getByLabel('Address of the terms of sale').fill('https://acme.example/terms')
  await page.getByLabel('Delivery').fill('Ships within 3 days\nto the EU')
  await expect(page.getByText('29 of 500 characters')).toBeVisible()
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Saved.')).toBeVisible()
  expect(shop.profiles.get('default')).toMatchObject({name: 'Acme Ltd', delivery: 'Ships within 3 days\nto the EU', version: 1})
  await expect(page.locator('.who')).toHaveText('Signed in: anna · Merchant · Acme Ltd (default)')

  // Another editor was first.
  Object.assign(shop.profiles.get('default'), {name: 'Theirs', version: 2})
  await page.getByLabel('Name of the seller').fill('Mine')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('alert').filter({hasText: 'Your values that differ'})).toContainText('Name of the seller: Mine (Theirs)')
  await expect(page.getByLabel('Name of the seller')).toHaveValue('Theirs')
  await page.getByLabel('Name of the seller').fill('Mine')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Saved.')).toBeVisible()
  expect(shop.profiles.get('default')).toMatchObject({name: 'Mine', version: 3})
})

test('an operator sees whose each object is, and opens the profile of a merchant', async ({page, shop}) => {
  populate(shop)
  shop.sales.get('2').merchant_id = 'tea.house'
  await page.request.post('/auth/dev', {data: {user_id: 'op', roles: ['operator'], merchant_id: ''}})
  await page.goto('/console')
  await expect(page.locator('.who')).toHaveText('Signed in: op · Operator · no merchant')
  await expect(page.getByRole('link', {name: 'Profile'})).toHaveCount(0)
  await expect(page.getByRole('row', {name: /Autumn tea/}).getByRole('link', {name: 'tea.house'})).toBeVisible()
  await page.getByRole('link', {name: /Autumn tea/}).click()
  await page.locator('.facts').getByRole('link', {name: 'tea.house'}).click()
  await expect(page.locator('.facts')).toHaveText('Merchant tea.house')
  await page.getByLabel('Name of the seller').fill('Tea House')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Saved.')).toBeVisible()
  expect(shop.profiles.get('tea.house')).toMatchObject({name: 'Tea House'})
  await page.goto('/console/profile')
  await expect(page.getByRole('alert')).toBeVisible() // it names no merchant
})

test('a merchant writes a notice while the sale is open', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/1')
  const write = async (text: string) => {
    await page.getByRole('button', {name: 'Notice'}).click()
    await page.getByLabel('Notice to buyers').fill(text)
  }
  await write('x'.repeat(201))
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('201 of 200 characters')
  await expect(dialog).toContainText('This is too long.')
  await expect(dialog.getByRole('button', {name: 'Save'})).toHaveAttribute('aria-disabled', 'true')
  await dialog.getByLabel('Notice to buyers').fill('🎁'.repeat(200))
  await expect(dialog).toContainText('200 of 200 characters')
  await dialog.getByLabel('Notice to buyers').fill('We ship on Monday.')
  await dialog.getByRole('button', {name: 'Save'}).click()
  await expect(dialog).toHaveCount(0)
  await expect(page.getByText('Notice: We ship on Monday.')).toBeVisible()
  expect(shop.sales.get('1')).toMatchObject({notice: {text: 'We ship on Monday.'}, paused: false})

  // Another editor changed the sale meanwhile: what was typed stays for the next press.
  await write('We ship on Tuesday.')
  shop.sales.get('1').version++
  await dialog.getByRole('button', {name: 'Save'}).click()
  await expect(dialog).toContainText('Changed meanwhile, reloaded.')
  await expect(dialog.getByLabel('Notice to buyers')).toHaveValue('We ship on Tuesday.')
  await dialog.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Notice: We ship on Tuesday.')).toBeVisible()
  await write('')
  await dialog.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Notice:')).toHaveCount(0)

  await page.goto('/console/sales/5') // it has ended
  await expect(page.getByRole('heading', {name: 'Wireless keyboard'})).toBeVisible()
  await expect(page.getByRole('button', {name: 'Notice'})).toHaveCount(0)
})
