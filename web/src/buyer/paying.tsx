// Paying, wherever an order is shown.

import {useEffect, useRef, useState} from 'preact/hooks'
import type {Failure} from '../api/client.ts'
import {getOrder, startPayment} from '../api/orders.ts'
import type {Order} from '../api/types.ts'
import {config, lost, tick} from '../base/app.ts'
import {clockFace} from '../base/format.ts'
import {say} from '../base/problem.ts'
import {go} from '../base/route.ts'
import {sleep} from '../base/timer.ts'
import {orderURL} from './parts.tsx'
import {w} from './words.ts'

// expecting holds orders whose payment the buyer just made: their page reads them often until it is confirmed.
export const expecting = new Set<string>()

// CLOSING_MS is how long after its deadline an order may wait for its closing, which finds payments in flight.
const CLOSING_MS = 15_000

// confirming reports whether a payment may still pay an order whose deadline has passed.
export const confirming = (o: Order, now: number) =>
  Date.parse(o.paying_until ?? '') > now || (!!o.payments?.some((p) => p.state === 'started') && now < Date.parse(o.expires_at) + CLOSING_MS)

// pay starts a payment, or goes on with the one that is started, and leaves for its page. While the provider is busy, it
// waits for the turn of this payment, of whose time it tells, until the caller stops it. It returns what went wrong.
//
// The key changes only when a payment has ended, so that a press, a reload and another device go on with the same
// payment and turn.
async function pay(order_sn: string, turn: (at: number) => void, stop: AbortSignal): Promise<string> {
  const provider = config.value.payment_providers[0]
  if (!provider) return w('no_provider')
  const order = await getOrder(order_sn)
  if (!order.ok || stop.aborted) return order.ok ? '' : refused(order)
  const ended = order.data.payments?.filter((p) => p.state !== 'started').length ?? 0
  const key = `${order_sn}-${provider}-${ended}`
  let r = await startPayment(order_sn, provider, key)
  while (!r.ok && r.code === 'provider_busy') {
    turn(tick.value + r.retryAfterS * 1000)
    await sleep(r.retryAfterS * 1000 + Math.random() * 1000, stop)
    if (stop.aborted) return ''
    r = await startPayment(order_sn, provider, key)
  }
  if (!r.ok) return refused(r)
  if (stop.aborted) return ''
  if (provider === 'sandbox') {
    go(orderURL(order_sn, r.data.payment_id))
    return ''
  }
  const url = new URL(r.data.pay_url, location.origin)
  if (url.protocol !== 'https:' && url.origin !== location.origin) return w('no_provider')
  location.assign(url)
  return ''
}

function refused(f: Failure): string {
  if (f.code === 'unauthenticated') lost()
  return say(f)
}

interface Pay {
  order_sn: string
  amount?: string // as it is shown
  onRefused: (why: string) => void // empty: it has begun
}

export function PayButton({order_sn, amount, onRefused}: Pay) {
  const [busy, setBusy] = useState(false)
  const [turn, setTurn] = useState(0) // when the provider takes this payment, 0 if it does not wait
  const leaving = useRef(new AbortController())
  useEffect(() => () => leaving.current.abort(), [])
  const press = async () => {
    if (busy) return
    setBusy(true)
    const why = await pay(order_sn, setTurn, leaving.current.signal)
    if (leaving.current.signal.aborted) return
    setBusy(false)
    setTurn(0)
    onRefused(why)
  }
  return (
    <button class="primary huge" aria-disabled={busy} onClick={() => void press()}>
      {busy && <span class="spinner" aria-hidden="true" />}
      {turn ? w('pay_turn', {t: clockFace(turn - tick.value).face}) : amount ? w('pay_amount', {amount}) : w('pay')}
    </button>
  )
}
