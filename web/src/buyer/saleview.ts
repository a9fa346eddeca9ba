// What the page of a sale shows, as a function of everything known. It has no side effects.

import type {Failure} from '../api/client.ts'
import type {Reservation, Sale} from '../api/types.ts'

export type SaleState = 'scheduled' | 'open' | 'paused' | 'ended'

export type Phase =
  | {kind: 'idle'}
  | {kind: 'asking'}
  // waitS does not count down: the status line would be announced each second.
  | {kind: 'waiting'; failure: Failure; waitS: number}

export interface Known {
  sale?: Sale
  now: number // server time, ms
  signedIn?: boolean // undefined: not known yet
  phase: Phase
  own?: Reservation // the buyer's latest purchase in this sale
  ownSince?: number // server time at which its present status was first seen, ms
  held: number // units that the buyer holds
  barred?: number // server time until which the buyer cannot buy, ms
  refusal?: Failure // of the latest press
  sku?: string // chosen
  wasSoldOut: boolean // the page has shown this sale as sold out before
}

export type View =
  | 'loading'
  | 'signed_out'
  | 'scheduled'
  | 'entry'
  | 'lit'
  | 'back'
  | 'asking'
  | 'waiting'
  | 'queued'
  | 'queued_long'
  | 'created'
  | 'paid'
  | 'closed'
  | 'failed'
  | 'refused'
  | 'barred'
  | 'sold_out'
  | 'may_return'
  | 'paused'
  | 'ended'

export interface Shown {
  view: View
  button: 'buy' | 'buy_again' | 'buy_join' | 'sending' | 'sign_in' | 'pay' | 'none'
  enabled: boolean
}

// LONG_MS is the wait after which the page says that it takes longer than usual.
export const LONG_MS = 30_000

// stateOf corrects the state of a sale, which may be a second old, by server time. A sale that the server opened is
// open: while server time is not known, now is the device's.
export function stateOf(sale: Pick<Sale, 'state' | 'starts_at' | 'ends_at'>, now: number): SaleState {
  if (sale.state === 'ended' || now >= Date.parse(sale.ends_at)) return 'ended'
  if (sale.state === 'paused') return 'paused'
  return sale.state === 'open' || now >= Date.parse(sale.starts_at) ? 'open' : 'scheduled'
}

export const leftOf = (sale: Sale, sku?: string): number => {
  let left = 0
  for (const item of sale.items) if (!sku || item.sku_id === sku) left += Math.max(0, item.left)
  return left
}

export function shown(k: Known): Shown {
  const {sale} = k
  if (!sale) return {view: 'loading', button: 'none', enabled: false}
  const state = stateOf(sale, k.now)

  // A purchase that moves comes before the state of the sale.
  if (k.phase.kind !== 'idle') return {view: k.phase.kind, button: 'sending', enabled: false}
  const own = k.own
  if (own?.status === 'queued') {
    const long = k.now - (k.ownSince ?? k.now) > LONG_MS
    return {view: long ? 'queued_long' : 'queued', button: 'sending', enabled: false}
  }
  if (own?.status === 'created') return {view: 'created', button: 'pay', enabled: true}

  const spare = sale.per_user_limit - k.held
  const can = state === 'open' && leftOf(sale, k.sku) > 0
  const gone = sale.may_return_until ? 'may_return' : 'sold_out'
  if (k.signedIn === false) {
    // The end of the sale and its stock concern a visitor too.
    if (state === 'ended') return {view: 'ended', button: 'none', enabled: false}
    const view = state === 'paused' ? state : state === 'open' && leftOf(sale) <= 0 ? gone : 'signed_out'
    return {view, button: 'sign_in', enabled: true}
  }
  const buy = {button: 'buy' as const}
  const none = {button: 'none' as const, enabled: false}
  if (own?.status === 'paid' && (spare <= 0 || !can) && !k.refusal) return {...none, view: 'paid'}
  if (state === 'ended') return {...none, view: own && !k.refusal ? outcome(own) : 'ended'}
  if (state === 'paused') return {...buy, view: 'paused', enabled: false}
  if (state === 'scheduled') return {...buy, view: 'scheduled', enabled: false}
  if (k.refusal?.code === 'limit_reached') return {...none, view: 'refused'}
  if (!can) return {...buy, view: leftOf(sale) > 0 ? 'sold_out' : gone, enabled: false}
  if ((k.barred ?? 0) > k.now) return {button: own ? 'buy_again' : 'buy', view: 'barred', enabled: false}
  const enabled = k.signedIn === true
  if (k.refusal && k.refusal.code !== 'sold_out') return {...buy, view: 'refused', enabled}
  const again = own?.status === 'paid' || own?.status === 'closed'
  if (own) return {view: outcome(own), button: again ? 'buy_again' : 'buy', enabled}
  return {...buy, view: k.wasSoldOut ? 'back' : 'lit', enabled}
}

const outcome = ({status}: Reservation): View => (status === 'created' ? 'queued' : status)

// heldUnits counts the units of purchases that hold some.
export function heldUnits(list: readonly Reservation[]): number {
  let units = 0
  for (const r of list) {
    if (r.status === 'failed' || r.status === 'closed') continue
    units += r.lines.reduce((sum, l) => sum + l.qty, 0)
  }
  return units
}

// latest is the purchase that the page is about: one that moves, else the newest.
export function latest(list: readonly Reservation[]): Reservation | undefined {
  return list.find((r) => r.status === 'queued') ?? list.find((r) => r.status === 'created') ?? list[0]
}
