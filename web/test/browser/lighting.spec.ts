// The button lights at the start by server time, whatever the device's clock shows.

import {buy, expect, signIn, status, test} from './shop.ts'

for (const minutes of [-5, 0, 5]) {
  test(`lights at the start with the device's clock ${minutes} min off`, async ({page, shop}) => {
    const {starts} = shop.sale('1', {starts: 12, ends: 600}) as {starts: number}
    await page.clock.install({time: Date.now() + minutes * 60_000})
    await signIn(page)
    await page.goto('/sales/1')
    await expect(buy(page)).toHaveAttribute('aria-disabled', 'true')
    await expect(page.getByRole('timer')).toBeVisible()
    // The moment of the change is taken in the page, beside that of a bare timer for the start, which is as late as this
    // machine makes any timer of the page.
    const error = await page.evaluate(async (starts) => {
      let best = {offset: 0, rtt: Infinity}
      for (let i = 0; i < 5; i++) {
        const before = performance.now()
        const {server_time} = (await (await fetch('/v1/time')).json()) as {server_time: number}
        const after = performance.now()
        if (after - before < best.rtt) best = {offset: server_time - (before + after) / 2, rtt: after - before}
      }
      const {offset, rtt} = best
      const button = document.getElementById('buy') as HTMLElement
      new MutationObserver(() => {
        if (button.getAttribute('aria-disabled') === 'false') button.dataset.lit ??= String(performance.now() + offset)
      }).observe(button, {attributes: true})
      setTimeout(() => (button.dataset.bare = String(performance.now() + offset)), starts - offset - performance.now())
      return rtt / 2
    }, starts)
    await expect(buy(page)).toHaveAttribute('aria-disabled', 'false', {timeout: 60_000})
    await expect(status(page)).toContainText('On sale now.')
    await expect(buy(page)).toHaveAttribute('data-bare', /./)
    const {lit, bare} = await page.evaluate(() => {
      const {lit, bare} = (document.getElementById('buy') as HTMLElement).dataset
      return {lit: Number(lit), bare: Number(bare)}
    })
    const late = lit - starts
    console.log(`lit ${late.toFixed(0)} ms after the start, ${(lit - bare).toFixed(0)} ms after a bare timer (measured to ${error.toFixed(0)} ms)`)
    expect(late).toBeGreaterThan(-100 - error)
    expect(lit - Math.max(bare, starts)).toBeLessThan(100 + error)
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
