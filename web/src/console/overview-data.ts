// The overview of an operator, read for as long as a page of the console is open: its counts stand in the navigation.

import type {Failure} from '../api/client.ts'
import {getOverview} from '../api/merchant.ts'
import type {Overview} from '../api/types.ts'
import {lost} from '../base/app.ts'
import {around, loop} from '../base/loop.ts'
import {signal} from '../base/signal.ts'

export const overview = signal<Overview | undefined>(undefined)
export const overviewFailure = signal<Failure | undefined>(undefined)

const EVERY_MS = 10_000

// watchOverview reads until the returned function is called.
export function watchOverview(): () => void {
  const reading = loop(async () => {
    const r = await getOverview()
    if (r.ok) overview.value = r.data
    else if (r.code === 'unauthenticated') lost()
    overviewFailure.value = r.ok ? undefined : r
    return r.ok ? around(EVERY_MS) : r
  })
  return () => {
    reading.stop()
    overview.value = undefined
    overviewFailure.value = undefined
  }
}

// waiting is how many things of a kind wait, 0 if that is unknown.
export const waiting = (what: Overview['items'][number]['what']): number =>
  overview.value?.items.find((i) => i.what === what)?.count ?? 0
