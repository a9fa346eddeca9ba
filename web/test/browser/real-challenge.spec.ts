// Challenges of the real services, solved on the pages: the stand-in of challenge.spec.ts has one image with a known
// answer, and passes of its own. PICTURES names a folder for the pictures of docs/challenge.md.

import path from 'node:path'
import {expect, type Browser, type Page} from '@playwright/test'
import {press} from './keyboard.ts'
import {byKeys, byMouse, letters, solution, type Point} from './letters.ts'
import {test} from './real.ts'
import {publish, signInByForm} from './selling.ts'
import {buy, signIn, status, watch} from './shop.ts'

const soon = {timeout: 15_000}
const part = (page: Page) => page.getByRole('region', {name: 'Verification'})
const line = (page: Page) => part(page).getByRole('status')
const compute = (page: Page) => part(page).getByRole('button', {name: 'Let my device compute instead'})
const inFocus = (page: Page) => page.evaluate(() => document.activeElement !== document.body)

async function picture(page: Page, name: string): Promise<void> {
  if (!process.env.PICTURES) return
  await page.mouse.move(0, 0)
  await part(page).screenshot({path: path.join(process.env.PICTURES, `${name}.png`), animations: 'disabled'})
}

// recordLines keeps the texts of the challenge's status line: a proof of work may be found in no time.
function recordLines(): void {
  const lines: string[] = []
  Object.assign(window, {lines})
  new MutationObserver(() => {
    const text = document.querySelector('.challenge [role=status]')?.textContent
    if (text && lines.at(-1) !== text) lines.push(text)
  }).observe(document, {subtree: true, childList: true, characterData: true})
}

// withImages publishes a sale whose challenge is an image. seckill draws images once some sale has them.
async function withImages(browser: Browser, url: string, title: string, captcha_difficulty?: number): Promise<string> {
  const id = await publish(browser, url, {title, stock: 5, pay_within_s: 900, captcha: 'click', captcha_difficulty})
  const context = await browser.newContext({baseURL: url})
  await context.request.post('/auth/dev', {data: {user_id: 'early'}})
  const kind = async () => ((await (await context.request.post(`/v1/activities/${id}/captchas`, {data: {}})).json()) as {kind?: string}).kind
  await expect.poll(kind, {intervals: [500], ...soon}).toBe('click')
  await context.close()
  return id
}

// given returns the id of the challenge that an action gets.
async function given(page: Page, action: () => Promise<unknown>): Promise<string> {
  const response = page.waitForResponse((r) => r.url().endsWith('/captchas') && r.status() === 201)
  await action()
  return ((await (await response).json()) as {captcha_id: string}).captcha_id
}

// answered marks places, submits them, and returns status and code of the refusal, '' if there is none.
async function answered(page: Page, way: (page: Page, points: Point[]) => Promise<void>, points: Point[]): Promise<string> {
  const responded = page.waitForResponse((r) => r.url().endsWith('/answers') && r.status() !== 429)
  await way(page, points)
  await press(page, part(page).getByRole('button', {name: 'Submit'}))
  const response = await responded
  return response.status() === 201 ? '' : `${response.status()} ${((await response.json()) as {code: string}).code}`
}

test('letters by mouse: a wrong order gets a new image, the right one a pass that buys', async ({page, browser, url, problems}) => {
  watch(page, problems)
  await page.setViewportSize({width: 390, height: 844})
  const id = await withImages(browser, url, 'Kettle')
  await page.goto(`/sales/${id}`)
  await signInByForm(page, 'mary')
  const first = await given(page, () => part(page).getByRole('button', {name: 'Solve the challenge'}).click())
  const right = solution(first, id, 'mary')
  await byMouse(page, right.slice(0, 2))
  await expect(part(page)).toContainText('2 of 4 marked')
  await picture(page, 'challenge-image')
  for (const n of [2, 1]) await part(page).getByRole('button', {name: `Mark ${n}, remove`}).click()

  const next = await given(page, async () => {
    expect(await answered(page, byMouse, [...right].reverse())).toBe('403 captcha_wrong')
    await expect(line(page)).toContainText('Not right. A new picture comes in')
  })
  await expect(line(page)).toContainText('Not right. Here is a new one.', soon)
  await expect(letters(page)).toBeFocused()
  await picture(page, 'challenge-wrong')

  expect(await answered(page, byMouse, solution(next, id, 'mary'))).toBe('')
  await expect(line(page)).toContainText('Solved. Your pass is valid until')
  await expect(status(page)).toContainText('On sale now.', soon)
  await buy(page).click()
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await expect(part(page)).toBeHidden()
})

test('by keyboard alone: letters with the arrow keys', async ({page, browser, url, problems}) => {
  watch(page, problems)
  const id = await withImages(browser, url, 'Mirror')
  await signIn(page, 'ken')
  await page.goto(`/sales/${id}`)
  const image = await given(page, () => press(page, part(page).getByRole('button', {name: 'Solve the challenge'}), 'Space'))
  await expect(letters(page)).toBeFocused()
  expect(await answered(page, byKeys, solution(image, id, 'ken'))).toBe('')
  await expect(line(page)).toContainText('Solved. Your pass is valid until')
  await expect(status(page)).toContainText('On sale now.', soon)
  await press(page, buy(page))
  await expect(status(page)).toContainText('Order created. Pay by', soon)
})

test('by keyboard alone: a proof of work instead of the image, and the purchase', async ({page, browser, url, problems}) => {
  watch(page, problems)
  await page.setViewportSize({width: 390, height: 844})
  // Hashes in thousands; eight times as many replace an image.
  const id = await withImages(browser, url, 'Lamp', process.env.PICTURES ? 400 : 10)
  await signIn(page, 'kim')
  await page.addInitScript(recordLines)
  await page.goto(`/sales/${id}`)
  await press(page, part(page).getByRole('button', {name: 'Solve the challenge'}))
  await expect(letters(page)).toBeFocused()
  await press(page, compute(page), 'Space')
  if (process.env.PICTURES) {
    await expect(part(page).getByRole('img', {name: /^\d{3},\d{3} numbers tried$/})).toBeVisible(soon)
    await picture(page, 'challenge-work')
  }
  await expect(line(page)).toContainText('Solved. Your pass is valid until', {timeout: 60_000})
  expect(await page.evaluate(() => (window as unknown as {lines: string[]}).lines)).toContain('Your device is computing. Keep this page open.')
  expect(await inFocus(page), 'the focus is lost').toBe(true)
  await expect(status(page)).toContainText('On sale now.', soon)
  await press(page, buy(page), 'Space')
  await expect(status(page)).toContainText('Order created. Pay by', soon)
})

test('a pass is refused to another buyer and in another sale, and the page of that buyer gets a new challenge', async ({page, browser, url, problems}) => {
  watch(page, problems)
  const selling = {stock: 5, pay_within_s: 900, starts_in_s: 2, captcha: 'pow', captcha_difficulty: 2}
  const [id, other] = await Promise.all([publish(browser, url, {...selling, title: 'Bowl'}), publish(browser, url, {...selling, title: 'Cup'})])
  const pathWith = async (p: Page, activity: string, captcha_pass: string) => {
    const response = await p.request.post(`/v1/activities/${activity}/paths`, {data: {captcha_pass}})
    return `${response.status()} ${((await response.json()) as {code?: string}).code ?? ''}`
  }
  await signIn(page, 'pat')
  await page.goto(`/sales/${id}`)
  await part(page).getByRole('button', {name: 'Solve the challenge'}).click()
  await expect(line(page)).toContainText('Solved.', soon)
  await expect(status(page)).toContainText('On sale now.', soon)
  const [key, value] = (await page.evaluate(() => Object.entries(localStorage).find(([k]) => k.endsWith(':pass')))) as [string, string]
  const {captcha_pass} = JSON.parse(value) as {captcha_pass: string}
  expect(await pathWith(page, other, captcha_pass)).toBe('403 captcha_required')
  expect(await pathWith(page, id, captcha_pass)).toBe('201 ')

  const context = await browser.newContext({baseURL: url})
  const thief = await context.newPage()
  watch(thief, problems)
  await signIn(thief, 'tom')
  expect(await pathWith(thief, id, captcha_pass)).toBe('403 captcha_required')
  await thief.addInitScript(([k, v]) => localStorage.getItem(k) ?? localStorage.setItem(k, v), [key.replace('pat', 'tom'), value] as const)
  await thief.goto(`/sales/${id}`)
  await expect(line(thief)).toContainText('Solved.', soon)
  const refused = thief.waitForResponse((r) => r.url().endsWith('/paths'))
  const solved = thief.waitForResponse((r) => r.url().endsWith('/answers'))
  await buy(thief).click()
  expect(((await (await refused).json()) as {code: string}).code).toBe('captcha_required')
  expect((await solved).status()).toBe(201)
  await expect(line(thief)).toContainText('Solved.', soon)
  await buy(thief).click()
  await expect(status(thief)).toContainText('Order created. Pay by', soon)
  await context.close()
})
