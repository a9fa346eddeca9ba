// Server-sent events with a fall-back to polling. A stream is closed while the page is hidden: HTTP/1.1 allows six
// connections to one origin, and hidden tabs would use them up.

import {retryDelay} from './retry.ts'
import {sleep} from './timer.ts'

export interface Following {
  url: () => string | undefined // of the stream; undefined: poll
  events: Record<string, (data: unknown) => void>
  poll: () => Promise<boolean> // reads the state once; false after a failure
  done: () => boolean // true once nothing more is expected
  onMode?: (mode: 'stream' | 'poll') => void
  signal: AbortSignal
}

const FAILURES = 2
const SHORT_MS = 5000

// follow reports events until done or aborted. After two failures of the stream in a row it polls. A stream that ended
// in order (`event: end`) is opened again after a poll, which also renews its ticket.
export async function follow(f: Following): Promise<void> {
  let failures = 0
  let polls = 0
  while (!f.signal.aborted && !f.done()) {
    if (document.hidden) {
      await sleep(1000, f.signal)
      if (!document.hidden && !f.signal.aborted) await f.poll()
      continue
    }
    const url = failures < FAILURES ? f.url() : undefined
    if (url) {
      f.onMode?.('stream')
      const outcome = await stream(url, f)
      if (f.signal.aborted || f.done()) return
      failures = outcome === 'failed' ? failures + 1 : 0
      if (outcome !== 'hidden') {
        await sleep(Math.random() * 500 + (failures && 300), f.signal)
        if (!f.signal.aborted) await f.poll()
      }
      continue
    }
    f.onMode?.('poll')
    await sleep(retryDelay(polls++, 0), f.signal)
    if (f.signal.aborted || document.hidden) continue
    await f.poll()
  }
}

function stream(url: string, f: Following): Promise<'ended' | 'failed' | 'hidden' | 'done'> {
  return new Promise((resolve) => {
    const source = new EventSource(url)
    const opened = performance.now()
    let received = false
    const end = (how: 'ended' | 'failed' | 'hidden' | 'done') => {
      source.close()
      document.removeEventListener('visibilitychange', hidden)
      f.signal.removeEventListener('abort', aborted)
      resolve(how)
    }
    const hidden = () => document.hidden && end('hidden')
    const aborted = () => end('done')
    document.addEventListener('visibilitychange', hidden)
    f.signal.addEventListener('abort', aborted)
    // A stream that breaks at once each time must not become a loop of requests.
    source.onerror = () => end(received && performance.now() - opened > SHORT_MS ? 'ended' : 'failed')
    source.addEventListener('end', () => end('ended'))
    for (const [name, receive] of Object.entries(f.events)) {
      source.addEventListener(name, (event) => {
        received = true
        try {
          receive(JSON.parse((event as MessageEvent<string>).data))
        } catch {
          return end('failed')
        }
        if (f.done()) end('done')
      })
    }
  })
}
