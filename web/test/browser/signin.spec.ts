// Sign-in at an identity provider: a real one, whose access tokens are opaque and live for 60 s, and the real services.

import {expect, test as base} from '@playwright/test'
import {freePort, greeting, start, stop, type Program} from './process.ts'
import {buy, status, watch} from './shop.ts'

// WAIT_S: how long to wait after the sign-in; 300 shows that the session outlives the provider's tokens.
const WAIT_S = Number(process.env.WAIT_S ?? 0)

const test = base.extend<{programs: Program[]}>({
  programs: async ({}, use) => {
    const programs: Program[] = []
    await use(programs)
    await Promise.all(programs.map(stop))
  },
})

test('sign in at the provider, buy, use the console, sign out', async ({page, context, programs}) => {
  test.setTimeout(600_000 + WAIT_S * 1000)
  const soon = {timeout: 30_000}
  const problems: string[] = []
  watch(page, problems)
  const [provider, http] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${http}`
  const idp = await start(
    'IDENTITYPROVIDER',
    './services/seckill/internal/signin/identityprovider/serve',
    ['-addr', `127.0.0.1:${provider}`, '-public-url', url],
    (output) => output.includes('password'),
  )
  programs.push(idp)
  const shop = await start('ALLINONE', './services/allinone/cmd/allinone', ['serve'], greeting, {
    DATA_DIR: '',
    HTTP_ADDR: `127.0.0.1:${http}`,
    ADMIN_ADDR: `127.0.0.1:${await freePort()}`,
    AUTH_DEV_TOKENS: 'false',
    OIDC_ISSUER: `http://127.0.0.1:${provider}/`,
    OIDC_CLIENT_ID: 'flashsale-pages',
    OIDC_CLIENT_SECRET: 'secret-of-the-client',
    PUBLIC_URL: url,
  })
  programs.push(shop)

  await page.goto(`${url}/`)
  await page.getByRole('link', {name: /Coffee week/}).click(soon)
  const sale = page.url()
  await page.getByRole('link', {name: /Sign in/}).first().click(soon)
  await expect(page).toHaveURL(new RegExp(`:${provider}/`))
  await page.getByLabel('Username').fill('test-user@127.0.0.1')
  await page.getByLabel('Password').fill('verysecure')
  await page.getByRole('button', {name: 'Login'}).click()
  await expect(page).toHaveURL(sale, soon)
  await buy(page).click(soon)
  await expect(status(page)).toContainText('Order created. Pay by', soon)

  // The cookie cannot be read by scripts, and nothing of the provider is kept.
  const own = (await context.cookies(url)).filter((c) => c.name.includes('flashsale'))
  expect(own).toHaveLength(1)
  expect(own[0]).toMatchObject({httpOnly: true, sameSite: 'Lax'})
  expect(await page.evaluate(() => document.cookie)).not.toContain('flashsale')
  const kept = JSON.stringify(await page.evaluate(() => [{...localStorage}, {...sessionStorage}]))
  expect(kept).not.toContain(own[0]?.value)
  expect(kept).not.toMatch(/eyJ/)

  await stop(idp) // the provider is not needed while the session lasts
  await page.waitForTimeout(WAIT_S * 1000)
  await page.goto(`${url}/console/sales`)
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Sales', soon)
  expect((await page.request.get(`${url}/v1/merchant/activities`)).status()).toBe(200)
  expect((await page.request.get(`${url}/v1/merchant/health`)).status()).toBe(403)
  await page.goto(`${url}/console/operator/limits`)
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Your account may not do this.', soon)

  await page.goto(sale)
  const [out] = await Promise.all([
    page.waitForResponse((r) => r.url().endsWith('/auth/logout')),
    page.getByRole('button', {name: 'Sign out'}).click(soon),
  ])
  expect(out.status()).toBe(200)
  expect((await context.cookies(url)).filter((c) => c.name.includes('flashsale'))).toEqual([])
  expect((await page.request.get(`${url}/v1/orders`)).status()).toBe(401)
  expect(problems).toEqual([])
})
