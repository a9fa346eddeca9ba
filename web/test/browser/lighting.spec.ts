// The button lights at the start by server time, whatever the device's clock shows.

import {buy, expect, signIn, status, test} from './shop.ts'

for (const minutes of [-5, 0, 5]) {
  test(`lights at the start with the device's clock ${minutes} min off`, async ({page, shop}) => {
    const sale = shop.sale('1', {starts: 8, ends: 600})
    await page.clock.install({time: Date.now() + minutes * 60_000})
    await signIn(page)
    await page.goto('/sales/1')
    await expect(buy(page)).toHaveAttribute('aria-disabled', 'true')
    await expect(page.getByRole('timer')).toBeVisible()
    // The moment of the change is taken in the page, and its server time afterwards by the best of five round trips.
    await page.evaluate(() => {
      const button = document.getElementById('buy') as HTMLElement
      new MutationObserver(() => {
        if (button.getAttribute('aria-disabled') === 'false') button.dataset.lit ??= String(performance.now())
      }).observe(button, {attributes: true})
    })
    await expect(buy(page)).toHaveAttribute('aria-disabled', 'false', {timeout: 25_000})
    await expect(status(page)).toContainText('On sale now.')
    const {at, error} = await page.evaluate(async () => {
      let best = {offset: 0, rtt: Infinity}
      for (let i = 0; i < 5; i++) {
        const before = performance.now()
        const {server_time} = (await (await fetch('/v1/time')).json()) as {server_time: number}
        const after = performance.now()
        if (after - before < best.rtt) best = {offset: server_time - (before + after) / 2, rtt: after - before}
      }
      return {at: Number(document.getElementById('buy')?.dataset.lit) + best.offset, error: best.rtt / 2}
    })
    const late = at - (sale as {starts: number}).starts
    console.log(`lit ${late.toFixed(0)} ms after the start (measured to ${error.toFixed(0)} ms)`)
    expect(late).toBeGreaterThan(-100 - error)
    expect(late).toBeLessThan(100 + error)
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
