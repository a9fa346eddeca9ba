// Challenges of the real services, solved on the pages: the stand-in of challenge.spec.ts has one puzzle with a known
// answer, and passes of its own. PICTURES names a folder for the pictures of docs/challenge.md.

import path from 'node:path'
import {expect, type Browser, type Page} from '@playwright/test'
import {press} from './keyboard.ts'
import {dragTo, gapIn} from './puzzle.ts'
import {test} from './real.ts'
import {publish, signInByForm} from './selling.ts'
import {buy, signIn, status, watch} from './shop.ts'

const soon = {timeout: 15_000}
const part = (page: Page) => page.getByRole('region', {name: 'Verification'})
const line = (page: Page) => part(page).getByRole('status')
const slider = (page: Page) => part(page).getByRole('slider', {name: 'Position of the part'})
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

// withPuzzle publishes a sale whose challenge is a puzzle. seckill draws puzzles once some sale has them.
async function withPuzzle(browser: Browser, url: string, title: string, captcha_difficulty?: number): Promise<string> {
  const id = await publish(browser, url, {title, stock: 5, pay_within_s: 900, captcha: 'slide', captcha_difficulty})
  const context = await browser.newContext({baseURL: url})
  await context.request.post('/auth/dev', {data: {user_id: 'early'}})
  const kind = async () => ((await (await context.request.post(`/v1/activities/${id}/captchas`, {data: {}})).json()) as {kind?: string}).kind
  await expect.poll(kind, {intervals: [500], ...soon}).toBe('slide')
  await context.close()
  return id
}

// byMouse and byKeys move the part to x and submit the puzzle.
async function byMouse(page: Page, x: number): Promise<void> {
  await dragTo(page, slider(page), x)
  await part(page).getByRole('button', {name: 'Submit'}).click()
}

async function byKeys(page: Page, x: number): Promise<void> {
  await page.keyboard.press('Home')
  for (let i = 0; i < x; i++) await page.keyboard.press('ArrowRight')
  await expect(slider(page)).toHaveAttribute('aria-valuetext', new RegExp(`^${x} of \\d+ pixels from the left$`))
  await page.keyboard.press('Enter')
}

type Way = typeof byMouse

// answered answers the puzzle and returns status and code of the refusal, '' if there is none.
async function answered(page: Page, way: Way, x: number): Promise<string> {
  const responded = page.waitForResponse((r) => r.url().endsWith('/answers') && r.status() !== 429)
  await way(page, x)
  const response = await responded
  return response.status() === 201 ? '' : `${response.status()} ${((await response.json()) as {code: string}).code}`
}

// solve answers puzzles until one is solved: the gap of another may be easier to see.
async function solve(page: Page, way: Way): Promise<void> {
  const codes: string[] = []
  do {
    await expect(slider(page)).toBeFocused()
    codes.push(await answered(page, way, await gapIn(page)))
  } while (codes.at(-1) && codes.length < 5)
  expect(codes.at(-1), codes.join(', ')).toBe('')
}

test('the puzzle by mouse: a wrong place gets a new puzzle, the gap a pass that buys', async ({page, browser, url, problems}) => {
  watch(page, problems)
  await page.setViewportSize({width: 390, height: 844})
  const id = await withPuzzle(browser, url, 'Kettle')
  await page.goto(`/sales/${id}`)
  await signInByForm(page, 'mary')
  await part(page).getByRole('button', {name: 'Solve the challenge'}).click()
  await expect(part(page)).toMatchAriaSnapshot(`
    - region "Verification":
      - heading "Verification" [level=2]
      - status: Move the part to its place in the picture.
      - img "Picture with a gap for the part"
      - slider "Position of the part"
      - paragraph: Drag the part, or move the slider with the arrow keys. Enter submits.
      - button "Submit"
      - button "Let my device compute instead"
      - paragraph: Your device computes for some seconds. This needs no picture and no pointer.
  `)
  await picture(page, 'challenge-puzzle')

  const gap = await gapIn(page)
  expect(await answered(page, byMouse, gap > 120 ? gap - 60 : gap + 60)).toBe('403 captcha_wrong')
  await expect(line(page)).toContainText('Not right. Here is a new one.')
  await expect(slider(page)).toBeFocused()
  await picture(page, 'challenge-wrong')

  await solve(page, byMouse)
  await expect(line(page)).toContainText('Solved. Your pass is valid until')
  await expect(status(page)).toContainText('On sale now.', soon)
  await buy(page).click()
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await expect(part(page)).toBeHidden()
})

test('by keyboard alone: the puzzle with the arrow keys', async ({page, browser, url, problems}) => {
  watch(page, problems)
  const id = await withPuzzle(browser, url, 'Mirror')
  await signIn(page, 'ken')
  await page.goto(`/sales/${id}`)
  await press(page, part(page).getByRole('button', {name: 'Solve the challenge'}), 'Space')
  await solve(page, byKeys)
  await expect(line(page)).toContainText('Solved. Your pass is valid until')
  await expect(status(page)).toContainText('On sale now.', soon)
  await press(page, buy(page))
  await expect(status(page)).toContainText('Order created. Pay by', soon)
})

test('by keyboard alone: a proof of work instead of the puzzle, and the purchase', async ({page, browser, url, problems}) => {
  watch(page, problems)
  await page.setViewportSize({width: 390, height: 844})
  // Hashes in thousands; eight times as many replace a puzzle.
  const id = await withPuzzle(browser, url, 'Lamp', process.env.PICTURES ? 400 : 10)
  await signIn(page, 'kim')
  await page.addInitScript(recordLines)
  await page.goto(`/sales/${id}`)
  await press(page, part(page).getByRole('button', {name: 'Solve the challenge'}))
  await expect(slider(page)).toBeFocused()
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
