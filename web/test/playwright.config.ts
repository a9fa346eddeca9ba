import {existsSync} from 'node:fs'
import {defineConfig} from '@playwright/test'

// Chromium of the system; Playwright's own is not downloaded.
const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((p) => existsSync(p))

const measuring = 'lighting.spec.ts'
const services = ['real*.spec.ts', 'signin.spec.ts']
const installed = process.env.INSTALLED_URL ? [] : ['installed.spec.ts']

export default defineConfig({
  testDir: 'browser',
  // The order in which tests begin. Those that measure time run first and one at a time: nothing else loads the machine
  // then. Those with real services mostly wait, one for more than a minute: one worker runs them, and they do not end last.
  projects: [
    {name: 'measuring', testMatch: measuring, workers: 1},
    {name: 'services', testMatch: services, workers: 1, dependencies: ['measuring']},
    {name: 'pages', testIgnore: [measuring, ...services, ...installed], dependencies: ['measuring']},
  ],
  outputDir: 'results',
  snapshotPathTemplate: '{testDir}/../../screenshots/{arg}{ext}',
  timeout: 120_000, // the end of a failure
  expect: {timeout: 7000}, // how soon a page shows a change
  workers: Number(process.env.WORKERS ?? 3),
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
