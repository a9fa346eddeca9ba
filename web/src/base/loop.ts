// A loop of reads with a wait between them, for as long as a page is open.

import {effect} from './signal.ts'
import type {Failure} from '../api/client.ts'
import {online, visible} from './app.ts'
import {retryDelay} from './retry.ts'
import {sleep} from './timer.ts'

export interface Loop {
  again: () => void // reads at once
  stop: () => void
}

const MISSING_MS = 60_000

// loop calls read, then waits. read returns the wait in ms, or its failure (0 if there is none to return). After a
// failure it is called again as Retry-After allows, after not_found in MISSING_MS. While the page is hidden the loop
// waits; it reads at once when the page is shown or online again.
export function loop(read: () => Promise<number | Failure>): Loop {
  const end = new AbortController()
  let pause = new AbortController()
  const again = () => pause.abort()
  const stopWatching = effect(() => {
    if (visible.value && online.value) again()
  })
  const run = async () => {
    for (let failures = 0; !end.signal.aborted; ) {
      pause = new AbortController()
      const r = await read()
      const failure = typeof r === 'number' ? undefined : r
      const wait = failure ? failure.code === 'not_found' && MISSING_MS : (r as number)
      failures = wait ? 0 : failures + 1
      await sleep(wait || retryDelay(failures - 1, failure?.retryAfterS ?? 0), pause.signal)
      while (!visible.value && !end.signal.aborted) {
        pause = new AbortController()
        await sleep(60_000, pause.signal)
      }
    }
  }
  void run()
  return {
    again,
    stop: () => {
      stopWatching()
      end.abort()
      again()
    },
  }
}

export const around = (ms: number) => ms * (0.85 + Math.random() * 0.3)
