// One purchase: a path, then the reservation by that path, repeated until the outcome is known. The path is stored
// before it is used, under a lock shared by tabs, so that a reload, a crash or a second tab never buys twice.

import type {Failure, Result} from '../api/client.ts'
import type {Accepted, Line, Path} from '../api/types.ts'
import {retryable, retryDelay} from '../base/retry.ts'
import type {FlightStore} from '../base/storage.ts'

export interface Shop {
  createPath: () => Promise<Result<Path>>
  reserve: (path: string, lines: Line[]) => Promise<Result<Accepted>>
}

export interface Purchase {
  shop: Shop
  store: FlightStore
  lock: <T>(fn: () => Promise<T>) => Promise<T>
  sleep: (ms: number) => Promise<void>
  now: () => number // server time, ms
  // asking is called before each call, waiting before each pause.
  asking: () => void
  waiting: (f: Failure, ms: number) => void
  aborted: () => boolean
  random?: () => number
}

export type Outcome =
  | {kind: 'accepted'; accepted: Accepted}
  | {kind: 'refused'; failure: Failure}
  | {kind: 'none'} // nothing is in flight and no lines were given
  | {kind: 'aborted'}

// EARLY_MS: a press that the server finds early by less than this is repeated at the start.
const EARLY_MS = 5000

// buy makes the purchase in flight, or a new one of `lines` if there is none. Without lines it only continues.
export function buy(p: Purchase, lines?: Line[]): Promise<Outcome> {
  return p.lock(async () => {
    let flight = p.store.read()
    if (!flight) {
      if (!lines) return {kind: 'none'}
      const path = await repeat(p, p.shop.createPath)
      if (path === 'aborted') return {kind: 'aborted'}
      if (!path.ok) return {kind: 'refused', failure: path}
      flight = {path: path.data.path, order_sn: path.data.order_sn, lines, accepted: false}
      p.store.write(flight)
    }
    const {path, lines: wanted} = flight
    const made = await repeat(p, () => p.shop.reserve(path, wanted))
    if (made === 'aborted') return {kind: 'aborted'}
    if (made.ok) {
      p.store.write({...flight, accepted: true})
      return {kind: 'accepted', accepted: made.data}
    }
    // After any other refusal the path bought nothing. Without a session it may have: it is kept for the next sign-in.
    if (made.code !== 'unauthenticated') p.store.remove()
    return {kind: 'refused', failure: made}
  })
}

async function repeat<T>(p: Purchase, call: () => Promise<Result<T>>): Promise<Result<T> | 'aborted'> {
  for (let n = 0; ; n++) {
    if (p.aborted()) return 'aborted'
    p.asking()
    const r = await call()
    if (p.aborted()) return 'aborted'
    if (r.ok) return r
    const early = r.code === 'activity_not_started' ? Date.parse(String(r.problem.starts_at)) - p.now() : Number.NaN
    if (early < EARLY_MS) {
      const ms = Math.max(early, 50) + (p.random ?? Math.random)() * 100
      p.waiting(r, ms)
      await p.sleep(ms)
    } else if (retryable(r)) {
      const ms = retryDelay(n, r.retryAfterS, p.random)
      p.waiting(r, ms)
      await p.sleep(ms)
    } else {
      return r
    }
  }
}
