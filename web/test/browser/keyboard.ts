// What tests by keyboard alone press.

import {expect, type Locator, type Page} from '@playwright/test'

// reach presses Tab until the element has the focus, and checks that each element on the way shows it.
export async function reach(page: Page, target: Locator): Promise<void> {
  await expect(target).toBeVisible()
  for (let i = 0; i < 60; i++) {
    if (await target.evaluate((e) => e === document.activeElement)) return
    await page.keyboard.press('Tab')
    const seen = await page.evaluate(() => {
      const e = document.activeElement as HTMLElement
      const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(e)
      return e === document.body || (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none' ? '' : e.outerHTML
    })
    expect(seen, 'the focus is not visible').toBe('')
  }
  throw new Error(`not reached by Tab: ${target}`)
}

// press moves the focus to the element and presses the key.
export async function press(page: Page, target: Locator, key = 'Enter'): Promise<void> {
  await reach(page, target)
  await page.keyboard.press(key)
}
