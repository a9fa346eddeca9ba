// The fixtures of the tests against the real services in one process, which each worker starts once.

import {expect, test as base} from '@playwright/test'
import {freePort, greeting, start, stop} from './process.ts'

export const test = base.extend<{problems: string[]}, {url: string}>({
  url: [
    async ({}, use) => {
      const http = await freePort()
      const child = await start('ALLINONE', './services/allinone/cmd/allinone', ['serve'], greeting, {
        DATA_DIR: '',
        HTTP_ADDR: `127.0.0.1:${http}`,
        ADMIN_ADDR: `127.0.0.1:${await freePort()}`,
      })
      await use(`http://127.0.0.1:${http}`)
      await stop(child)
    },
    {scope: 'worker', timeout: 600_000}, // Go may have to compile everything
  ],
  baseURL: async ({url}, use) => use(url),
  problems: async ({}, use) => {
    const problems: string[] = []
    await use(problems)
    expect(problems).toEqual([])
  },
})
