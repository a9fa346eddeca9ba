// Pay and cancel, wherever an order is shown.

import {useState} from 'preact/hooks'
import {cancelOrder, getOrder, startPayment} from '../api/orders.ts'
import type {Order} from '../api/types.ts'
import {config, lost} from '../base/app.ts'
import {Dialog, Wrong} from '../base/parts.tsx'
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

export function PayButton({order_sn, onChange, huge}: {order_sn: string; onChange: () => void; huge?: boolean}) {
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const press = async () => {
    if (busy) return
    setBusy(true)
    const message = await pay(order_sn)
    setWrong(message)
    setBusy(false)
    if (message) onChange()
  }
  return (
    <>
      <button class={huge ? 'primary huge' : 'primary'} aria-disabled={busy} onClick={() => void press()}>
        {busy && <span class="spinner" aria-hidden="true" />}
        {w('pay')}
      </button>
      <Wrong text={wrong} />
    </>
  )
}

export function CancelButton({order_sn, onChange}: {order_sn: string; onChange: (order?: Order) => void}) {
  const [open, setOpen] = useState(false)
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const confirm = async () => {
    if (busy) return
    setBusy(true)
    const r = await cancelOrder(order_sn)
    setBusy(false)
    if (r.ok) {
      setOpen(false)
      onChange(r.data)
      return
    }
    if (r.code === 'unauthenticated') lost()
    setWrong(say(r))
    if (r.code === 'state_conflict') onChange()
  }
  return (
    <>
      <button class="quiet" onClick={() => (setWrong(''), setOpen(true))}>
        {w('cancel_order')}
      </button>
      {open && (
        <Dialog title={w('cancel_ask')} onClose={() => setOpen(false)}>
          <p>{w('cancel_hint')}</p>
          <Wrong text={wrong} />
          <div class="dialog-actions">
            <button onClick={() => setOpen(false)}>{w('cancel_keep')}</button>
            <button class="danger" aria-disabled={busy} onClick={() => void confirm()}>
              {w('cancel_order')}
            </button>
          </div>
        </Dialog>
      )}
    </>
  )
}
