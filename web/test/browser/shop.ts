// The fixtures of the tests: a shop of its own for each test, and a page that fails on any violation of the
// Content-Security-Policy or error in the console.

import {test as base, expect, type Page} from '@playwright/test'
import {serve, Shop} from '../fixtures/server.mjs'

export {expect}

interface Fixtures {
  shop: Shop
  address: string
  problems: string[]
}

export const test = base.extend<Fixtures>({
  shop: [
    async ({}, use) => {
      await use(new Shop())
    },
    {scope: 'test'},
  ],
  address: async ({shop}, use) => {
    const server = await serve(shop)
    await use(server.url)
    await server.close()
  },
  baseURL: async ({address}, use) => use(address),
  problems: async ({}, use) => use([]),
  page: async ({page, problems}, use) => {
    watch(page, problems)
    await page.addInitScript(record)
    await use(page)
    expect(problems).toEqual([])
  },
})

// record keeps each text of the status line: some stand there for a second only.
function record(): void {
  const said: string[] = []
  Object.assign(window, {said})
  const note = () => {
    const text = document.getElementById('status')?.textContent
    if (text && said.at(-1) !== text) said.push(text)
  }
  new MutationObserver(note).observe(document, {subtree: true, childList: true, characterData: true})
}

// said waits until the status line has had the words, now or before.
export const said = (page: Page, words: string) =>
  expect.poll(() => page.evaluate(() => (window as unknown as {said: string[]}).said.join('\n'))).toContain(words)

// watch collects violations of the policy and uncaught errors. Refused calls are logged by the browser too and are no
// problem.
export function watch(page: Page, problems: string[]): void {
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('console', (message) => {
    const text = message.text()
    if (/Content Security Policy|Trusted ?Type/i.test(text)) problems.push(text)
    else if (message.type() === 'error' && !/Failed to load resource|net::ERR_/.test(text)) problems.push(text)
  })
}

// signIn signs in as the page's form does.
export async function signIn(page: Page, user = '42', roles: string[] = []): Promise<void> {
  // The server may end an idle connection at the moment of the call.
  const response = await page.request.post('/auth/dev', {data: {user_id: user, roles}, maxRetries: 2})
  expect(response.status()).toBe(204)
}

export const status = (page: Page) => page.locator('#status')
export const buy = (page: Page) => page.getByRole('button', {name: 'Buy now'})
