// Solves puzzles as a buyer does who sees: the page has no answer, but the picture shows the gap.

import type {Locator, Page} from '@playwright/test'

// gapIn returns where the left edge of the part belongs, in pixels of the picture. The gap is darker than what is around
// it: along the outline of the part, the most pairs of a point inside and one outside show that at the right place.
export async function gapIn(page: Page): Promise<number> {
  return page.locator('.puzzle-picture').evaluate(async (frame) => {
    const [picture, part] = [...frame.querySelectorAll('img')].map((img) => {
      const canvas = document.createElement('canvas')
      Object.assign(canvas, {width: img.naturalWidth, height: img.naturalHeight})
      const pen = canvas.getContext('2d') as CanvasRenderingContext2D
      pen.drawImage(img, 0, 0)
      return pen.getImageData(0, 0, canvas.width, canvas.height)
    }) as [ImageData, ImageData]
    const top = Math.round((Number.parseFloat((frame.querySelector('.puzzle-part') as HTMLElement).style.top) / 100) * picture.height)
    const solid = (x: number, y: number) => x >= 0 && x < part.width && (part.data[(y * part.width + x) * 4 + 3] ?? 0) > 200
    const light = (x: number, y: number) => {
      const at = ((top + y) * picture.width + x) * 4
      const [red = 0, green = 0, blue = 0] = picture.data.slice(at, at + 3)
      return 0.3 * red + 0.59 * green + 0.11 * blue
    }
    const outline: {x: number; y: number; dx: number; dy: number}[] = []
    for (let y = 0; y < part.height; y++)
      for (let x = 0; x < part.width; x++)
        for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]] as const) if (solid(x, y) && !solid(x + dx, y + dy)) outline.push({x, y, dx, dy})
    const shares = Array.from({length: picture.width - part.width + 1}, (_, left) => {
      const dark = outline.filter(({x, y, dx, dy}) => light(left + x - 5 * dx, y - 5 * dy) < 0.8 * light(left + x + 4 * dx, y + 4 * dy))
      return dark.length / outline.length
    })
    const best = Math.max(...shares)
    return Math.round((shares.indexOf(best) + shares.lastIndexOf(best)) / 2)
  })
}

// dragTo drags the part until its left edge is at x pixels of the picture, as the slider shows.
export async function dragTo(page: Page, slider: Locator, x: number): Promise<void> {
  const part = page.locator('.puzzle-part')
  const {width} = (await page.locator('.puzzle-picture').boundingBox()) ?? {width: 0}
  const box = (await part.boundingBox()) ?? {x: 0, y: 0, width: 0, height: 0}
  const picture = await page.locator('.puzzle-picture img').first().evaluate((img: HTMLImageElement) => img.naturalWidth)
  const by = ((x - Number(await slider.inputValue())) * width) / picture
  const [left, top] = [box.x + box.width / 2, box.y + box.height / 2]
  await page.mouse.move(left, top)
  await page.mouse.down()
  await page.mouse.move(left + by / 2, top + 4, {steps: 4})
  await page.mouse.move(left + by, top, {steps: 4})
  await page.mouse.up()
}
