// A loop of reads with a wait between them, for as long as a page is open.

import {effect} from './signal.ts'
import {visible} from './app.ts'
import {pollDelay} from './retry.ts'
import {sleep} from './timer.ts'

export interface Loop {
  again: () => void // reads at once
  stop: () => void
}

// loop calls read, then waits. read returns the wait in ms, or 0 after a failure, which is repeated soon. While the page
// is hidden it waits; it reads at once when the page is shown.
export function loop(read: () => Promise<number>): Loop {
  const end = new AbortController()
  let pause = new AbortController()
  const again = () => pause.abort()
  const stopWatching = effect(() => {
    if (visible.value) again()
  })
  const run = async () => {
    for (let failures = 0; !end.signal.aborted; ) {
      pause = new AbortController()
      const wait = await read()
      failures = wait ? 0 : failures + 1
      await sleep(wait || pollDelay(failures), pause.signal)
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
