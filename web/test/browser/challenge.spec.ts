// The challenge on the page of a sale: by mouse, by keyboard, without a picture, wrong answers, and passes that end.

import type {Page} from '@playwright/test'
import {POINTS} from '../fixtures/challenge.mjs'
import type {Shop} from '../fixtures/server.mjs'
import {byKeys, byMouse, letters} from './letters.ts'
import {buy, expect, signIn, status, test} from './shop.ts'

const part = (page: Page) => page.getByRole('region', {name: 'Verification'})
const start = (page: Page) => part(page).getByRole('button', {name: 'Solve the challenge'})
const compute = (page: Page) => part(page).getByRole('button', {name: 'Let my device compute instead'})
const line = (page: Page) => part(page).getByRole('status')
const soon = {timeout: 15_000}

const withChallenge = (shop: Shop, kind: string, more = {}, options = {}) => shop.sale('1', {challenge: {kind, ...more}, ...options})

// open signs in and opens the page of the sale.
async function open(page: Page): Promise<void> {
  await signIn(page)
  await page.goto('/sales/1')
  await expect(part(page)).toBeVisible()
}

test('a proof of work is computed in workers; the pass buys, and stays over a reload', async ({page, shop}) => {
  const sale = withChallenge(shop, 'pow')
  await open(page)
  await expect(status(page)).toContainText('Please solve this first.')
  // The one button starts it.
  await page.locator('#buy').click()
  await expect(line(page)).toContainText('Solved. Your pass is valid until', soon)
  await expect(status(page)).toContainText('On sale now.')
  await page.reload()
  await expect(line(page)).toContainText('Solved.')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', soon)
  await expect(part(page)).toBeHidden()
  expect(sale.challenge.kinds).toEqual(['pow'])
})

test('a long proof of work shows its progress and can be stopped', async ({page, shop}) => {
  const sale = withChallenge(shop, 'pow', {max: 900_000_000, secret: 899_999_999})
  await open(page)
  await start(page).click()
  await expect(line(page)).toContainText('Your device is computing.')
  await expect.poll(() => page.workers().length).toBeGreaterThan(0)
  await expect(part(page).getByRole('img', {name: /^[1-9][\d,]* numbers tried$/})).toBeVisible()
  await expect(part(page)).toMatchAriaSnapshot(`
    - region "Verification":
      - heading "Verification" [level=2]
      - status: Your device is computing. Keep this page open.
      - img /numbers tried/
      - button "Stop"
  `)
  await part(page).getByRole('button', {name: 'Stop'}).click()
  await expect.poll(() => page.workers().length).toBe(0)
  await expect(start(page)).toBeVisible()
  expect(sale.challenge.passes.size).toBe(0)
})

test('the letters by mouse: a mark is removed by a click', async ({page, shop}) => {
  withChallenge(shop, 'click')
  await open(page)
  await start(page).click()
  await byMouse(page, [{x: 20, y: 20}])
  await expect(part(page)).toContainText('1 of 4 marked')
  await expect(part(page).getByRole('button', {name: 'Submit'})).toHaveAttribute('aria-disabled', 'true')
  await part(page).getByRole('button', {name: 'Mark 1, remove'}).click()
  await expect(part(page)).toContainText('0 of 4 marked')
  await byMouse(page, POINTS)
  await part(page).getByRole('button', {name: 'Submit'}).click()
  await expect(line(page)).toContainText('Solved.')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', soon)
})

test('the letters by keyboard: a wrong order gets a new image after a pause, which is announced', async ({page, shop}) => {
  const sale = withChallenge(shop, 'click')
  await open(page)
  await start(page).focus()
  await page.keyboard.press('Enter')
  await expect(letters(page)).toBeFocused()
  await byKeys(page, [...POINTS].reverse())
  await page.keyboard.press('Backspace')
  await expect(part(page)).toContainText('3 of 4 marked')
  await page.keyboard.press('Enter') // the cursor is there still
  shop.faults.push({match: /\/captchas$/, method: 'POST', times: 1, status: 429, code: 'rate_limited', retryAfter: 2})
  await part(page).getByRole('button', {name: 'Submit'}).focus()
  await page.keyboard.press('Enter')
  await expect(line(page)).toContainText(/✕? ?Not right. A new picture comes in \d s./)
  await expect(line(page)).toContainText('✕ Not right. Here is a new one.', soon)
  await expect(letters(page)).toBeFocused()
  await byKeys(page, POINTS)
  await page.evaluate(() => {
    const lines: string[] = []
    Object.assign(window, {lines})
    const region = document.querySelector('.challenge [role=status]') as Element
    new MutationObserver(() => lines.push(region.textContent ?? '')).observe(region, {subtree: true, childList: true, characterData: true})
  })
  await part(page).getByRole('button', {name: 'Submit'}).focus()
  await page.keyboard.press('Enter')
  await expect(line(page)).toContainText('Solved.')
  expect(await page.evaluate(() => (window as unknown as {lines: string[]}).lines[0]), 'the line keeps the verdict before').toBe('Checking your answer.')
  expect(sale.challenge.kinds).toEqual(['click', 'click'])
})

test('keys with Alt, Ctrl or Meta are the browser\'s, such as to go back', async ({page, shop}) => {
  withChallenge(shop, 'click')
  await open(page)
  await start(page).click()
  const swallows = (more: object) =>
    letters(page).evaluate((e, more) => {
      const init = {key: 'ArrowLeft', bubbles: true, cancelable: true, ...more}
      return !e.dispatchEvent(new KeyboardEvent('keydown', init))
    }, more)
  for (const held of ['altKey', 'ctrlKey', 'metaKey']) expect(await swallows({[held]: true}), held).toBe(false)
  await expect(letters(page)).toHaveAccessibleName('Picture with letters')
  expect(await swallows({shiftKey: true})).toBe(true)
  await expect(letters(page)).toHaveAccessibleName('Picture with letters, cursor at 149, 110')
})

test('an image that expires before its answer may be sent is given up; meanwhile the device may compute', async ({page, shop}) => {
  const sale = withChallenge(shop, 'click')
  await open(page)
  await start(page).click()
  await byMouse(page, POINTS)
  shop.faults.push({match: /\/answers$/, method: 'POST', times: 1, status: 429, code: 'rate_limited', retryAfter: 300})
  shop.faults.push({match: /\/captchas$/, method: 'POST', times: 1, status: 429, code: 'rate_limited', retryAfter: 300})
  await part(page).getByRole('button', {name: 'Submit'}).click()
  await expect(letters(page)).toBeHidden()
  await compute(page).click()
  await expect(line(page)).toContainText('Solved.', soon)
  expect(sale.challenge.kinds).toEqual(['click', 'pow'])
})

test('an image that has expired is not answered', async ({page, shop}) => {
  const sale = withChallenge(shop, 'click')
  sale.challenge.ttl = 0
  await open(page)
  await start(page).click()
  await byMouse(page, POINTS)
  sale.challenge.ttl = 120_000
  await part(page).getByRole('button', {name: 'Submit'}).click()
  await expect(line(page)).toContainText('The challenge has expired. Mark these letters')
  expect(sale.challenge.kinds).toEqual(['click', 'click'])
  expect(shop.count('POST', /\/answers$/)).toBe(0)
})

test('the tree of an image has the prompt, the picture, its marks, and the way without a picture', async ({page, shop}) => {
  withChallenge(shop, 'click')
  await open(page)
  await start(page).click()
  await byMouse(page, POINTS.slice(0, 1))
  await expect(part(page)).toMatchAriaSnapshot(`
    - region "Verification":
      - heading "Verification" [level=2]
      - status: Mark these letters in the picture, in this order.
      - img "The letters to mark, in order"
      - application "Picture with letters":
        - button "Mark 1, remove"
      - paragraph: Tap each letter, or move the cursor with the arrow keys and press Enter. Tap a mark to remove it.
      - paragraph: 1 of 4 marked
      - button "Submit" [disabled]
      - button "Let my device compute instead"
  `)
  await expect(letters(page)).toHaveAccessibleDescription(/arrow keys/)
})

test('a proof of work replaces the image on request', async ({page, shop}) => {
  const sale = withChallenge(shop, 'click')
  await open(page)
  await expect(compute(page)).toBeVisible()
  await start(page).click()
  await expect(letters(page)).toBeVisible()
  await compute(page).click()
  await expect(line(page)).toContainText('Solved.', soon)
  expect(sale.challenge.kinds).toEqual(['click', 'pow'])
})

test('where only accessible accounts may compute, others read how to get there', async ({page, shop}) => {
  shop.challengeWork = 'accessible'
  const sale = withChallenge(shop, 'click')
  await open(page)
  await expect(part(page)).toContainText('ask the shop before the sale')
  await expect(compute(page)).toBeHidden()
  await signIn(page, 'ann', ['accessible'])
  await page.reload()
  await compute(page).click()
  await expect(line(page)).toContainText('Solved.', soon)
  expect(sale.challenge.kinds).toEqual(['pow'])
})

test('wrong proofs of work are repeated a few times only', async ({page, shop}) => {
  const sale = withChallenge(shop, 'pow')
  sale.challenge.refuses = true
  await open(page)
  await start(page).click()
  await expect(line(page)).toContainText('Not right.', soon)
  await expect(start(page)).toBeVisible(soon)
  expect(sale.challenge.kinds).toEqual(['pow', 'pow', 'pow'])
})

test('a pass that the server refuses is renewed, and a pass that has expired is dropped', async ({page, shop}) => {
  const sale = withChallenge(shop, 'pow')
  await open(page)
  await start(page).click()
  await expect(line(page)).toContainText('Solved.', soon)
  sale.challenge.passes.clear()
  await buy(page).click()
  await expect.poll(() => sale.challenge.kinds.length).toBe(2)
  await expect(line(page)).toContainText('Solved.', soon)
  sale.challenge.passTTL = 8000
  sale.challenge.passes.clear()
  await buy(page).click()
  await expect.poll(() => sale.challenge.kinds.length).toBe(3)
  await expect(line(page)).toContainText('Your pass has expired.', soon)
  await start(page).click()
  await expect.poll(() => sale.challenge.kinds.length).toBe(4)
})

test('challenges open before the start, and the button stays until the start', async ({page, shop}) => {
  const sale = withChallenge(shop, 'pow', {}, {starts: 312})
  await open(page)
  await expect(line(page)).toContainText('The challenge opens at')
  await expect(start(page)).toBeVisible(soon)
  await expect(status(page)).toContainText('Starts at')
  await start(page).click()
  await expect(line(page)).toContainText('Solved.', soon)
  await expect(buy(page)).toHaveAttribute('aria-disabled', 'true')
  expect(sale.challenge.kinds).toEqual(['pow'])
})

test('with a waiting room the challenge opens at admission', async ({page, shop}) => {
  const sale = withChallenge(shop, 'pow', {}, {starts: -5, room: {others: 20}})
  await open(page)
  await expect(line(page)).toContainText('The challenge opens when it is your turn.')
  await page.getByRole('button', {name: 'Join the waiting room'}).click()
  await expect(status(page)).toContainText('You are in the waiting room')
  await expect(start(page)).toBeHidden()
  sale.room.admitted = 30
  await expect(start(page)).toBeVisible(soon)
  await start(page).click()
  await expect(line(page)).toContainText('Solved.', soon)
  await expect(status(page)).toContainText('It is your turn.')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', soon)
})

test('a challenge that is switched on while the sale is open', async ({page, shop}) => {
  const other = shop.sale('2', {challenge: {kind: 'pow'}})
  const sale = shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  expect(shop.count('GET', /^\/assets\//)).toBe(0)
  sale.challenge = other.challenge
  sale.challenge.sale = sale
  await expect(part(page)).toBeVisible(soon)
  sale.challenge = undefined
  await expect(part(page)).toBeHidden(soon)
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', soon)
})

test('lost and refused calls are repeated, and the part states it', async ({page, shop}) => {
  withChallenge(shop, 'pow')
  shop.faults.push({match: /\/captchas$/, method: 'POST', times: 1, status: 503, code: 'unavailable'})
  shop.faults.push({match: /\/captchas$/, method: 'POST', times: 1, status: 429, code: 'rate_limited', retryAfter: 1})
  await open(page)
  await start(page).click()
  await expect(line(page)).toContainText('No answer right now. We try again in')
  await expect(line(page)).toContainText('Solved.', soon)
})

// The script of a third party: a button in place of its widget.
const widget = `window.turnstile = {render(place, {cData, action, sitekey, callback}) {
  for (const verdict of ['right', 'wrong']) {
    const button = document.createElement('button')
    button.textContent = verdict + ' ' + action + ' ' + sitekey
    button.onclick = () => callback(verdict + ' ' + cData)
    place.append(button)
  }
}}`

test('the check of a third party has a page of its own, which returns with the pass', async ({page, shop}) => {
  const sale = withChallenge(shop, 'provider')
  await page.route('https://challenges.cloudflare.com/**', (route) => route.fulfill({contentType: 'text/javascript', body: widget}))
  await open(page)
  await start(page).click()
  await part(page).getByRole('link', {name: 'Open the check'}).click()
  await expect(page).toHaveURL(/\/sales\/1\/challenge$/)
  await page.getByRole('button', {name: 'wrong sale-1 1x00000000000000000000AA'}).click()
  await expect(page.getByRole('status')).toContainText('Not right. Here is a new one.')
  await page.getByRole('button', {name: 'right'}).click()
  await expect(page).toHaveURL(/\/sales\/1$/)
  await expect(line(page)).toContainText('Solved.')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', soon)
  expect(sale.challenge.kinds).toEqual(['provider', 'provider', 'provider'])
})

test('a check that does not load is replaced by a proof of work; without a session the sale is shown', async ({page, shop}) => {
  const sale = withChallenge(shop, 'provider')
  await page.route('https://challenges.cloudflare.com/**', (route) => route.abort())
  await page.goto('/sales/1/challenge')
  await expect(page).toHaveURL(/\/sales\/1$/)
  await open(page)
  await page.goto('/sales/1/challenge')
  await expect(page.getByRole('status')).toContainText('The check did not work here.')
  await page.getByRole('button', {name: 'Let my device compute instead'}).click()
  await expect(page).toHaveURL(/\/sales\/1$/)
  await expect(line(page)).toContainText('Solved.', soon)
  expect(sale.challenge.kinds).toEqual(['provider', 'pow'])
})

test('in Chinese', async ({browser, shop, address}) => {
  withChallenge(shop, 'click')
  const context = await browser.newContext({baseURL: address, locale: 'zh-CN'})
  const page = await context.newPage()
  await signIn(page)
  await page.goto('/sales/1')
  await page.getByRole('region', {name: '验证'}).getByRole('button', {name: '开始验证'}).click()
  await expect(page.getByRole('application', {name: '字母图片'})).toBeFocused()
  await context.close()
})
