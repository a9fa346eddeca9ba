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
  lock: <T>(fn: () => Promise<T>) => Promise<T> // shared by tabs
  sleep: (ms: number) => Promise<void>
  now: () => number // server time, ms
  // asking is called before each call, waiting before each pause.
  asking: () => void
  waiting: (f: Failure, ms: number) => void
  aborted: () => boolean
  random: () => number // in [0, 1)
  ended: (order_sn: string) => boolean // the page knows that this purchase holds no unit any more
}

export type Outcome =
  | {kind: 'accepted'; accepted: Accepted}
  | {kind: 'refused'; failure: Failure}
  | {kind: 'none'} // nothing is in flight and no lines were given
  | {kind: 'aborted'}

// EARLY_MS: a press that the server finds early by less than this is repeated at the start.
const EARLY_MS = 5000

// ENDED_TRIES bounds the presses, about a second apart, that a purchase without units refuses.
const ENDED_TRIES = 10

// buy makes the purchase in flight, or a new one of `lines` if there is none. Without lines it only continues. The lock
// is held for one attempt, not while it waits: browsers slow the timers of hidden tabs, and another tab would wait too.
export async function buy(p: Purchase, lines?: Line[]): Promise<Outcome> {
  const pressed = !!lines
  for (let n = 0; !p.aborted(); n++) {
    p.asking()
    const r = await p.lock(async () => {
      let flight = p.store.read()
      if (!flight) {
        if (!lines) return undefined
        const made = await p.shop.createPath()
        if (!made.ok) return {made, ms: pause(p, made, n)}
        if (p.aborted()) return undefined
        flight = {path: made.data.path, order_sn: made.data.order_sn, lines, accepted: false}
        p.store.write(flight)
      }
      // From here on the press has its path: if another tab ends the flight, no second path is made.
      lines = undefined
      const made = await p.shop.reserve(flight.path, flight.lines)
      if (p.aborted()) return undefined
      if (made.ok) {
        p.store.write({...flight, accepted: true})
        return {made, ms: 0}
      }
      const ms = pause(p, made, n)
      // After a refusal the path bought nothing. Without a session, or after a failure of the server, it may have.
      if (made.code === 'limit_reached') {
        p.store.remove()
        // The repetition makes a new path, so it belongs to a press on this page; a purchase that a reload continues ends.
        if (!pressed || !ms) return {made, ms: 0}
        lines = flight.lines
      } else if (!ms && made.status < 500 && made.code !== 'unauthenticated') p.store.remove()
      return {made, ms}
    })
    if (p.aborted()) break
    if (!r) return {kind: 'none'}
    const {made, ms} = r
    if (made.ok) return {kind: 'accepted', accepted: made.data}
    if (!ms) return {kind: 'refused', failure: made}
    p.waiting(made, ms)
    await p.sleep(ms)
  }
  return {kind: 'aborted'}
}

// pause is the wait in ms before a refused call is repeated, 0 if it is not.
function pause(p: Purchase, f: Failure, n: number): number {
  const early = f.code === 'activity_not_started' ? Date.parse(String(f.problem.starts_at)) - p.now() : Number.NaN
  if (early < EARLY_MS) return Math.max(early, 50 << Math.min(n, 6)) + p.random() * 100
  // The units of a purchase that has just ended reach the sale a moment later.
  const holders = f.code === 'limit_reached' && !f.problem.barred_until && f.problem.order_sns
  if (Array.isArray(holders) && holders.length > 0 && holders.every(p.ended) && n < ENDED_TRIES) return retryDelay(0, 0, p.random)
  return retryable(f) ? retryDelay(n, f.retryAfterS, p.random) : 0
}
