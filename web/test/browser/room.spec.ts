// The waiting room on the page of a sale: each of its states, reloads, refusals, and the checks of the draw.

import type {Page} from '@playwright/test'
import type {Shop} from '../fixtures/server.mjs'
import {buy, expect, said, signIn, status, test} from './shop.ts'

const join = (page: Page) => page.getByRole('button', {name: 'Join the waiting room'})
const room = (page: Page) => page.getByRole('region', {name: 'Waiting room'})
const soon = {timeout: 15_000}

// withRoom adds a sale with a waiting room that starts in this many seconds.
const withRoom = (shop: Shop, starts: number, more = {}) => shop.sale('1', {starts, room: {others: 20, ...more}})

test('the button lights when the room opens; a join is early, and a reload keeps its ticket', async ({page, shop}) => {
  await signIn(page)
  const sale = withRoom(shop, 612)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('The waiting room opens at')
  await expect(join(page)).toHaveAttribute('aria-disabled', 'true')
  await expect(join(page)).toHaveAttribute('aria-disabled', 'false', soon)
  await join(page).click()
  await expect(status(page)).toContainText('You are in. The places are drawn by lot at')
  await expect(room(page)).toContainText('21')
  await expect(buy(page)).toHaveAttribute('aria-disabled', 'true')
  await expect(buy(page)).toBeFocused() // the same button
  await page.reload()
  await expect(status(page)).toContainText('You are in.')
  expect(shop.count('POST', /\/room$/)).toBe(1)
  // Another device has no ticket stored: joining again returns the same one.
  await page.evaluate(() => localStorage.clear())
  await page.reload()
  await join(page).click()
  await expect(room(page)).toContainText('21')
  expect(sale.room.tickets).toHaveLength(21)
})

test('a buyer goes through the whole room by keyboard: join, draw, place, turn, order', async ({page, shop}) => {
  const sale = withRoom(shop, 300)
  await page.goto('/sales/1')
  await page.getByLabel('User').fill('42')
  await page.keyboard.press('Enter')
  await expect(join(page)).toBeVisible()
  await join(page).focus()
  await page.keyboard.press('Enter')
  await expect(status(page)).toContainText('You are in.')
  // Time passes: early joining closes, and the root is published.
  sale.starts = Date.now() + 55_000
  await page.reload()
  await expect(status(page)).toContainText('Early joining is closed. Your ticket takes part in the draw at')
  await room(page).getByText(/Verify the draw/).press('Enter')
  await expect(room(page).getByRole('listitem').filter({hasText: 'passed'})).toHaveCount(4)
  await expect(room(page).getByRole('listitem').filter({hasText: 'not published yet'})).toHaveCount(3)
  // The start: the key is published, and the line moves.
  sale.starts = Date.now() - 10_000
  await page.reload()
  await expect(status(page)).toContainText('You are in the waiting room;')
  await room(page).getByText('Verify the draw: 7 checks passed').press('Enter')
  const place = sale.room.stateOf(21, Date.now()).place
  await expect(room(page)).toContainText(`The draw gives your ticket place ${place}.`)
  await expect(room(page)).toMatchAriaSnapshot(`
    - region "Waiting room":
      - heading "Waiting room" [level=2]
      - term: Ticket
      - definition: "21"
      - term: Place
      - definition: "${place}"
      - term: Ahead of you
  `)
  sale.room.admitted = 21
  await expect(status(page)).toContainText('It is your turn.', soon)
  await expect(page).toHaveTitle(/^● /)
  await buy(page).focus()
  await page.keyboard.press('Enter')
  await expect(status(page)).toContainText('Order created', soon)
  const [path] = shop.log.filter((l: {path: string}) => /\/paths$/.test(l.path))
  expect(path).toBeTruthy()
})

test('a late ticket waits, sees the numbers fall, and is no part of the draw', async ({page, shop}) => {
  const sale = withRoom(shop, -5, {others: 200})
  sale.room.admitted = 100
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('New tickets follow the others in order.')
  await join(page).click()
  await expect(status(page)).toContainText('You are in the waiting room; 100 ahead, about')
  await expect(page).toHaveTitle(/^100 · /)
  sale.room.admitted = 150
  await expect(page).toHaveTitle(/^50 · /, soon)
  await expect(room(page)).toContainText('50')
  await room(page).getByText('Verify the draw').click()
  await expect(room(page)).toContainText('It is no part of the draw.')
  await expect(room(page).getByRole('listitem')).toHaveCount(0)
})

test('a turn that has passed: the page offers the end of the line, and a press learns of it', async ({page, shop}) => {
  const sale = withRoom(shop, -5, {others: 0})
  sale.room.admitted = 1
  await signIn(page)
  await page.goto('/sales/1')
  await join(page).click()
  await expect(status(page)).toContainText('It is your turn.')
  sale.room.lapsed = 1
  await buy(page).click() // before the next read of the ticket
  await expect(status(page)).toContainText('Your turn has passed.')
  const again = page.getByRole('button', {name: 'Join again'})
  await expect(again).toBeFocused()
  await again.click()
  await expect(status(page)).toContainText('You are in the waiting room; 0 ahead')
  sale.room.admitted = 2
  await expect(status(page)).toContainText('It is your turn.', soon)
})

test('503 and 429 of the room are repeated after Retry-After; 401 asks for the sign-in and keeps the ticket', async ({page, shop}) => {
  withRoom(shop, 300)
  await signIn(page)
  await page.goto('/sales/1')
  shop.faults = [
    {match: /\/room$/, method: 'POST', times: 1, status: 503, code: 'unavailable', retryAfter: 2},
    {match: /\/room$/, method: 'POST', times: 1, status: 429, code: 'rate_limited', retryAfter: 2},
  ]
  const pressed = Date.now()
  await join(page).dblclick()
  await said(page, 'No answer right now. We try again in')
  await said(page, 'Very many people are here. We try again in')
  await expect(status(page)).toContainText('You are in.', soon)
  expect(Date.now() - pressed).toBeGreaterThan(4000)
  expect(shop.count('POST', /\/room$/)).toBe(3)
  const cookies = await page.context().cookies()
  for (const c of cookies) shop.revoked.add(`${c.name}=${c.value}`)
  await page.reload()
  await page.getByLabel('User').fill('42')
  await page.keyboard.press('Enter')
  await expect(status(page)).toContainText('You are in.')
  expect(shop.count('POST', /\/room$/)).toBe(3)
})

test('the page reads the ticket no more often than the server requests', async ({page, shop}) => {
  withRoom(shop, 300)
  await page.clock.install()
  await signIn(page)
  await page.goto('/sales/1')
  await join(page).click()
  await expect(status(page)).toContainText('You are in.')
  const reads = () => shop.count('GET', /\/room$/)
  expect(reads()).toBe(1)
  await page.clock.runFor(29_000) // Retry-After is 30 s
  expect(reads()).toBe(1)
  await page.clock.runFor(10_000)
  await expect.poll(reads).toBe(2)
})

test('a room that was lost and opened again: the page joins its draw and states it', async ({page, shop}) => {
  const sale = withRoom(shop, 300)
  await signIn(page)
  await page.goto('/sales/1')
  await join(page).click()
  await expect(status(page)).toContainText('You are in.')
  await expect.poll(() => page.evaluate(() => JSON.stringify({...localStorage}))).toContain('key_sha256')
  sale.room.key = Buffer.alloc(32, 9)
  await page.reload()
  await expect(room(page)).toContainText('The waiting room was opened again after a failure.')
  expect(shop.count('POST', /\/room$/)).toBe(2)
})

test('a published draw that contradicts the ticket is an alert', async ({page, shop}) => {
  const sale = withRoom(shop, 300)
  await signIn(page)
  await page.goto('/sales/1')
  await join(page).click()
  await expect(status(page)).toContainText('You are in.')
  sale.starts = Date.now() - 6000
  sale.room.lie = {root: '0'.repeat(64)}
  await page.reload()
  await expect(room(page).getByRole('alert')).toContainText('The published draw does not fit your ticket.')
  await room(page).getByText(/Verify the draw/).click()
  await expect(room(page).getByRole('listitem').filter({hasText: 'wrong'}).first()).toBeVisible()
})

test('a sale without a room loads no chunk', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  expect(shop.count('GET', /^\/assets\//)).toBe(0)
})
