// Paying, wherever an order is shown.

import {useState} from 'preact/hooks'
import {getOrder, startPayment} from '../api/orders.ts'
import type {Order} from '../api/types.ts'
import {config, lost} from '../base/app.ts'
import {say} from '../base/problem.ts'
import {newKey} from '../base/random.ts'
import {go} from '../base/route.ts'
import {orderURL} from './parts.tsx'
import {w} from './words.ts'

// One Idempotency-Key for each order until its payment has started: a repeated press is the same payment. It is in
// memory only; after a reload the payments of the order show what was started.
const keys = new Map<string, string>()

// expecting holds orders whose payment the buyer just made: their page reads them often until it is confirmed.
export const expecting = new Set<string>()

// CLOSING_MS is how long after its deadline an order may wait for its closing, which finds payments in flight.
const CLOSING_MS = 15_000

// confirming reports whether a payment may still pay an order whose deadline has passed.
export const confirming = (o: Order, now: number) =>
  Date.parse(o.paying_until ?? '') > now || (!!o.payments?.some((p) => p.state === 'started') && now < Date.parse(o.expires_at) + CLOSING_MS)

// pay starts a payment, or goes on with one that is started, and leaves for its page. It returns what went wrong.
async function pay(order_sn: string): Promise<string> {
  const provider = config.value.payment_providers[0]
  if (!provider) return w('no_provider')
  const order = await getOrder(order_sn)
  if (order.ok && provider === 'sandbox') {
    const started = order.data.payments?.find((p) => p.state === 'started' && p.provider === provider)
    if (started && order.data.state === 'pending') {
      go(orderURL(order_sn, started.payment_id))
      return ''
    }
  }
  const key = keys.get(order_sn) ?? newKey()
  keys.set(order_sn, key)
  const r = await startPayment(order_sn, provider, key)
  if (!r.ok) {
    if (r.code === 'unauthenticated') lost()
    if (r.status >= 400 && r.status < 500 && r.status !== 429) keys.delete(order_sn)
    return say(r)
  }
  keys.delete(order_sn)
  if (provider === 'sandbox') {
    go(orderURL(order_sn, r.data.payment_id))
    return ''
  }
  const url = new URL(r.data.pay_url, location.origin)
  if (url.protocol === 'https:' || url.origin === location.origin) location.assign(url)
  return ''
}

interface Pay {
  order_sn: string
  amount?: string // as it is shown
  onRefused: (why: string) => void // empty: it has begun
}

export function PayButton({order_sn, amount, onRefused}: Pay) {
  const [busy, setBusy] = useState(false)
  const press = async () => {
    if (busy) return
    setBusy(true)
    const why = await pay(order_sn)
    setBusy(false)
    onRefused(why)
  }
  return (
    <button class="primary huge" aria-disabled={busy} onClick={() => void press()}>
      {busy && <span class="spinner" aria-hidden="true" />}
      {amount ? w('pay_amount', {amount}) : w('pay')}
    </button>
  )
}
