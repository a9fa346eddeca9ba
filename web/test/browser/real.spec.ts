// The pages against the real services in one process: what the stand-in of the other tests may get wrong shows here.

import {execFileSync, spawn, type ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {mkdtempSync, rmSync} from 'node:fs'
import {createServer, type AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, test as base, type Page} from '@playwright/test'
import {buy, status, watch} from './shop.ts'

const root = path.resolve(import.meta.dirname, '../../..')

const test = base.extend<{problems: string[]}, {url: string}>({
  url: [
    async ({}, use) => {
      const folder = mkdtempSync(path.join(tmpdir(), 'flashsale-'))
      const binary = process.env.ALLINONE ?? path.join(folder, 'allinone')
      if (!process.env.ALLINONE) execFileSync('go', ['build', '-o', binary, './services/allinone/cmd/allinone'], {cwd: root, stdio: 'inherit'})
      const [http, admin] = [await freePort(), await freePort()]
      const env = {PATH: process.env.PATH, HOME: folder, DATA_DIR: '', HTTP_ADDR: `127.0.0.1:${http}`, ADMIN_ADDR: `127.0.0.1:${admin}`}
      const child = spawn(binary, ['serve'], {env, stdio: ['ignore', 'pipe', 'inherit']})
      await greeting(child)
      await use(`http://127.0.0.1:${http}`)
      child.kill('SIGTERM')
      await once(child, 'exit')
      rmSync(folder, {recursive: true, force: true})
    },
    {scope: 'worker', timeout: 180_000},
  ],
  baseURL: async ({url}, use) => use(url),
  problems: async ({}, use) => {
    const problems: string[] = []
    await use(problems)
    expect(problems).toEqual([])
  },
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const {port} = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

// greeting waits until the process has printed that its sales are open.
async function greeting(child: ChildProcess): Promise<void> {
  let text = ''
  await new Promise<void>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`allinone ended with ${code}: ${text}`)))
    child.stdout?.on('data', (chunk) => {
      text += String(chunk)
      if (/\/sales\/\d+/.test(text) && text.includes('/console')) resolve()
    })
  })
}

async function signIn(page: Page, user: string, role?: string): Promise<void> {
  await page.getByLabel('User').fill(user)
  if (role) await page.getByLabel('Role').selectOption(role)
  await page.getByRole('button', {name: 'Sign in'}).click()
}

const stat = (page: Page, name: string) => page.locator('.stat', {has: page.getByText(name, {exact: true})}).locator('b')

test('two purchases by clicking, one paid and one cancelled, with the board open beside', async ({page, browser, url, problems}) => {
  test.setTimeout(240_000)
  const soon = {timeout: 30_000}
  watch(page, problems)
  const console_ = await browser.newContext({baseURL: url})
  const board = await console_.newPage()
  watch(board, problems)
  await board.goto('/console')
  await signIn(board, 'anna', 'merchant')
  await board.getByRole('link', {name: /Coffee week/}).click(soon)
  await expect(stat(board, 'Left')).toHaveText('800', soon)
  await expect(board.locator('.as-of')).toContainText('Live', soon)

  await page.goto('/')
  await page.getByRole('link', {name: /Coffee week/}).click(soon)
  await signIn(page, '42')
  await buy(page).click(soon)
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await expect(stat(board, 'Held')).toHaveText('1', soon)
  await page.getByRole('button', {name: 'Pay', exact: true}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click(soon)
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.', soon)
  await expect(stat(board, 'Sold')).toHaveText('1', soon)

  await page.goto('/sales/2')
  await page.getByRole('button', {name: 'Buy again'}).click(soon)
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  await expect(stat(board, 'Left')).toHaveText('798', soon)
  await page.getByRole('button', {name: 'Cancel order'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  await expect(status(page)).toContainText('You cancelled.', soon)

  // The board by its stream, the ledger and the gate agree.
  await expect(stat(board, 'Left')).toHaveText('799', soon)
  await expect(stat(board, 'Held')).toHaveText('0', soon)
  await expect(stat(board, 'Sold')).toHaveText('1', soon)
  await expect(stat(board, 'Paid')).toHaveText('1', soon)
  const row = (name: string) => board.getByRole('row').filter({has: board.getByRole('rowheader', {name, exact: true})}).getByRole('cell')
  await expect(row('Accepted')).toHaveText('2', soon)
  await expect(board.locator('.order-bars li', {hasText: 'Closed'}).locator('b')).toHaveText('1', soon)
  const {counts, items} = (await (await board.request.get('/v1/merchant/activities/2/orders')).json()) as {counts: unknown; items: unknown[]}
  expect(counts).toEqual({reserved: 0, sold: 1, released: 1, rejected: 0})
  expect(items).toHaveLength(2)
  const sale = (await (await page.request.get('/v1/activities/2')).json()) as {items: {left: number}[]}
  expect(sale.items.reduce((sum, i) => sum + i.left, 0)).toBe(799)

  // Nothing secret is where scripts can read it.
  for (const p of [page, board]) {
    const kept = await p.evaluate(async () => ({
      session: {...sessionStorage},
      databases: (await indexedDB.databases()).length,
      caches: (await caches.keys()).length,
      cookie: document.cookie,
      local: Object.values({...localStorage}),
    }))
    expect(kept).toMatchObject({session: {}, databases: 0, caches: 0, cookie: ''})
    const [cookie] = await p.context().cookies()
    expect(cookie).toMatchObject({name: 'flashsale', httpOnly: true, sameSite: 'Lax'})
    expect(JSON.stringify(kept.local)).not.toContain(cookie?.value)
    expect(JSON.stringify(kept.local)).not.toMatch(/eyJ/)
  }
  await console_.close()
})

test('the console: a product, a sale, its history; the operator sees health and limits', async ({page, problems}) => {
  test.setTimeout(180_000)
  watch(page, problems)
  await page.goto('/console')
  await signIn(page, 'bert', 'operator')
  await page.getByRole('link', {name: 'Products'}).click({timeout: 30_000})
  await expect(page.getByText('Aurora phone').first()).toBeVisible()
  await page.goto('/console/sales/2/history')
  await expect(page.getByText('activity.publish')).toBeVisible()
  await page.goto('/console/sales/2/orders')
  await expect(page.getByRole('link', {name: 'Download CSV'})).toBeVisible()
  await page.goto('/console/operator/health')
  await expect(page.getByRole('row', {name: /inventory/})).toContainText(/ready/i)
  await page.goto('/console/operator/limits')
  await expect(page.getByRole('button', {name: /^Edit/}).first()).toBeVisible()
  await page.goto('/console/operator/reconcile')
  await page.getByRole('button', {name: 'Reconcile'}).click()
  await expect(page.getByText('None: gate and database agree.')).toBeVisible({timeout: 60_000})
})
