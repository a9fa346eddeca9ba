// A timer for a moment of server time. Browsers delay timers in hidden tabs and refuse long ones, and the clock may be
// corrected while a timer runs, so the wait is divided and checked again at each step and each correction. The clock is
// synced when a page is shown again, which checks too.

import type {Clock} from './clock.ts'

const STEP_MS = 30_000

// at calls fn once, when the server time reaches `moment` (ms). It returns a function that cancels the timer.
export function at(clock: Clock, moment: number, fn: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let done = false
  const check = () => {
    if (done) return
    clearTimeout(timer)
    const left = moment - clock.now()
    if (left <= 0) {
      stop()
      fn()
      return
    }
    timer = setTimeout(check, left > STEP_MS + 1000 ? STEP_MS : Math.max(1, Math.ceil(left)))
  }
  const stopSync = clock.onSync(check)
  const stop = () => {
    done = true
    clearTimeout(timer)
    stopSync()
  }
  check()
  return stop
}

// sleep resolves after ms, or at once when the signal is aborted.
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
  })
}
