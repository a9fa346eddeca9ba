import {existsSync} from 'node:fs'
import {defineConfig} from '@playwright/test'

// Chromium of the system; Playwright's own is not downloaded.
const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((p) => existsSync(p))

export default defineConfig({
  testDir: 'browser',
  testIgnore: process.env.INSTALLED_URL ? [] : ['installed.spec.ts'],
  outputDir: 'results',
  snapshotPathTemplate: '{testDir}/../../screenshots/{arg}{ext}',
  timeout: 30_000,
  expect: {timeout: 7000},
  workers: Number(process.env.WORKERS ?? 2),
  fullyParallel: true,
  forbidOnly: !!process.env.CI,
  reporter: [['list']],
  use: {
    launchOptions: {
      executablePath,
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--force-color-profile=srgb',
        '--font-render-hinting=none',
      ],
    },
    locale: 'en-GB',
    timezoneId: 'Asia/Shanghai',
    viewport: {width: 1280, height: 800},
    trace: process.env.TRACE ? 'retain-on-failure' : 'off',
  },
})
