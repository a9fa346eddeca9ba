// Takes pictures of every view: node test/pictures.mjs [folder] [view...]
import {mkdir} from 'node:fs/promises'
import {chromium} from '@playwright/test'
import {serve, Shop} from './fixtures/server.mjs'
import {populate, populateChallenges, populateRooms} from './fixtures/shop.mjs'
import {moment, still} from './fixtures/still.mjs'
import {views} from './fixtures/views.mjs'

const folder = process.argv[2] ?? 'test/results/pictures'
const only = process.argv.slice(3)
await mkdir(folder, {recursive: true})
const shop = new Shop()
shop.now = () => moment
populate(shop)
populateRooms(shop)
populateChallenges(shop)
shop.streams = false // the network becomes idle
const server = await serve(shop)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--force-color-profile=srgb', '--font-render-hinting=none'],
})
const widths = (process.env.WIDTHS ?? '320,768,1440').split(',').map(Number)
const schemes = (process.env.SCHEMES ?? 'light,dark').split(',')
const locales = (process.env.LOCALES ?? 'en-GB').split(',')
for (const view of views) {
  if (only.length && !only.includes(view.name)) continue
  for (const width of widths)
    for (const colorScheme of schemes)
      for (const locale of locales) {
        const context = await browser.newContext({viewport: {width, height: width < 500 ? 640 : 900}, colorScheme, locale, timezoneId: 'Asia/Shanghai', baseURL: server.url, reducedMotion: 'reduce'})
        if (view.user) await context.request.post('/auth/dev', {data: {user_id: view.user, roles: view.roles ?? []}})
        const page = await context.newPage()
        await still(page)
        await page.goto(view.path)
        await page.waitForLoadState('networkidle')
        await view.then?.(page)
        await page.evaluate(() => scrollTo(0, 0))
        await page.waitForTimeout(400)
        await page.screenshot({path: `${folder}/${view.name}-${width}-${colorScheme}${locales.length > 1 ? `-${locale.slice(0, 2)}` : ''}.png`, fullPage: view.full ?? false})
        await context.close()
      }
}
await browser.close()
await server.close()
