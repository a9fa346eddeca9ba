// A purchase by clicking at an installation: INSTALLED_URL is its address. scripts/cluster/test runs it.

import {expect, test} from '@playwright/test'
import {publish, signInByForm} from './selling.ts'
import {buy, status, watch} from './shop.ts'

test('the page opens, and a purchase by clicking is paid', async ({page, browser}) => {
  test.setTimeout(120_000)
  const soon = {timeout: 30_000}
  const url = process.env.INSTALLED_URL as string
  const problems: string[] = []
  watch(page, problems)
  const title = `By clicking ${Date.now()}` // an installation keeps the sales of earlier runs
  const sale = await publish(browser, url, {title, stock: 10, pay_within_s: 900})
  await page.goto(url)
  await page.getByRole('link', {name: new RegExp(title)}).first().click(soon)
  await expect(page).toHaveURL(`${url}/sales/${sale}`)
  await signInByForm(page, 'clicker')
  await expect(status(page)).toContainText('On sale now.', soon)
  const pressed = Date.now()
  await buy(page).click()
  await expect(status(page)).toContainText('Order created. Pay by', soon)
  console.log(`order created ${Date.now() - pressed} ms after the press`)
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click(soon)
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.', soon)
  expect(problems).toEqual([])
})
