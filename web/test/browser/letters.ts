// Marks letters in the image of a challenge.

import {createDecipheriv, hkdfSync} from 'node:crypto'
import type {Page} from '@playwright/test'

export interface Point {
  x: number
  y: number
}

export const letters = (page: Page) => page.locator('.letters-picture')

const SIZE = {width: 300, height: 220} // of the image

// byMouse clicks at places, in pixels of the image.
export async function byMouse(page: Page, points: Point[]): Promise<void> {
  await letters(page).scrollIntoViewIfNeeded()
  const box = (await letters(page).boundingBox()) ?? {x: 0, y: 0, width: 0, height: 0}
  for (const {x, y} of points) await page.mouse.click(box.x + (x * box.width) / SIZE.width, box.y + (y * box.height) / SIZE.height)
}

// byKeys moves the cursor, which begins in the middle, and marks each place within five pixels.
export async function byKeys(page: Page, points: Point[]): Promise<void> {
  await letters(page).focus()
  let at = {x: SIZE.width / 2, y: SIZE.height / 2}
  for (const to of points) {
    for (const [n, back, on] of [
      [Math.round((to.x - at.x) / 10), 'ArrowLeft', 'ArrowRight'],
      [Math.round((to.y - at.y) / 10), 'ArrowUp', 'ArrowDown'],
    ] as const)
      for (let i = 0; i < Math.abs(n); i++) await page.keyboard.press(n < 0 ? back : on)
    at = {x: at.x + 10 * Math.round((to.x - at.x) / 10), y: at.y + 10 * Math.round((to.y - at.y) / 10)}
    await page.keyboard.press('Enter')
  }
}

// solution opens the id of a challenge with the secret of development: the page has no answer.
export function solution(captchaID: string, activityID: string, userID: string): Point[] {
  const raw = Buffer.from(captchaID, 'base64url')
  const key = Buffer.from(hkdfSync('sha256', 'development-only-secret-of-the-paths', '', 'flashsale challenge id', 32))
  const open = createDecipheriv('aes-256-gcm', key, raw.subarray(0, 12))
  open.setAAD(Buffer.from(`${activityID}/${userID}`))
  open.setAuthTag(raw.subarray(-16))
  const plain = Buffer.concat([open.update(raw.subarray(12, -16)), open.final()])
  return Array.from({length: (plain.length - 10) / 4}, (_, i) => ({x: plain.readUInt16BE(10 + 4 * i), y: plain.readUInt16BE(12 + 4 * i)}))
}
