// The button lights at the start by server time, whatever the device's clock shows.

import {buy, expect, signIn, status, test} from './shop.ts'

for (const minutes of [-5, 0, 5]) {
  test(`lights at the start with the device's clock ${minutes} min off`, async ({page, shop}) => {
    const sale = shop.sale('1', {starts: 6, ends: 600})
    await page.clock.install({time: Date.now() + minutes * 60_000})
    await signIn(page)
    await page.goto('/sales/1')
    await expect(buy(page)).toHaveAttribute('aria-disabled', 'true')
    await expect(page.getByRole('timer')).toBeVisible()
    // The time of the change, by the clock of this process, which is the shop's.
    await page.exposeFunction('lit', (): void => void (at ||= Date.now()))
    let at = 0
    await page.evaluate(() => {
      const button = document.getElementById('buy') as HTMLElement
      new MutationObserver(() => {
        if (button.getAttribute('aria-disabled') === 'false') (window as unknown as {lit: () => void}).lit()
      }).observe(button, {attributes: true})
    })
    await expect(buy(page)).toHaveAttribute('aria-disabled', 'false', {timeout: 15_000})
    await expect(status(page)).toContainText('On sale now.')
    const late = at - (sale as {starts: number}).starts
    test.info().annotations.push({type: 'late', description: `${late} ms`})
    expect(late).toBeGreaterThan(-100)
    expect(late).toBeLessThan(process.env.SLOW ? 1000 : 250)
  })
}

test('an early press sends nothing and says so', async ({page, shop}) => {
  shop.sale('1', {starts: 60})
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).focus()
  await page.keyboard.press('Enter')
  await expect(status(page)).toContainText('Not started yet. The button lights by itself.')
  await expect(buy(page)).toBeFocused()
  expect(shop.count('POST', /paths/)).toBe(0)
})

test('the title carries the countdown', async ({page, shop}) => {
  shop.sale('1', {starts: 90, title: 'Tea'})
  await page.goto('/sales/1')
  await expect(page).toHaveTitle(/^01:\d\d · Tea$/)
})
