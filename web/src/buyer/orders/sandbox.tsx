// The sandbox payment page: plays the provider for one payment.

import {useEffect, useState} from 'preact/hooks'
import type {Failure} from '../../api/client.ts'
import {getPayment, playSandbox} from '../../api/orders.ts'
import type {Payment} from '../../api/types.ts'
import {lost} from '../../base/app.ts'
import {money} from '../../base/money.ts'
import {Link} from '../../base/parts.tsx'
import {say} from '../../base/problem.ts'
import {go} from '../../base/route.ts'
import {words} from '../../base/words.ts'
import {sandbox as en} from '../../words/sandbox.en.ts'
import {sandbox as zh} from '../../words/sandbox.zh.ts'
import {Account, orderURL, Unread, useTitle} from '../parts.tsx'
import {expecting} from '../paying.tsx'
import {w} from '../words.ts'

const own = words({en, zh})

interface Props {
  order_sn: string
  payment_id: string
}

export function SandboxPage(props: Props) {
  useTitle(() => own('title'))
  return <Account text={w('sign_in_why')}>{(user) => <Sandbox key={user} {...props} />}</Account>
}

function Sandbox({order_sn, payment_id}: Props) {
  const [payment, setPayment] = useState<Payment>()
  const [failure, setFailure] = useState<Failure>()
  const [busy, setBusy] = useState(false)
  const order = orderURL(order_sn)
  const load = async () => {
    const r = await getPayment(payment_id)
    // A payment that was decided, here or in another tab, is shown by its order.
    if (r.ok && r.data.state !== 'started') return go(order, true)
    if (r.ok) setPayment(r.data)
    else if (r.code === 'unauthenticated') lost()
    setFailure(r.ok ? undefined : r)
  }
  useEffect(() => void load(), [payment_id])
  if (!payment) return <Unread failure={failure} retry={load} />
  const choose = async (outcome: 'succeeded' | 'failed') => {
    if (busy) return
    setBusy(true)
    setFailure(undefined)
    const r = await playSandbox(payment_id, outcome)
    setBusy(false)
    if (!r.ok) {
      if (r.code === 'unauthenticated') lost()
      setFailure(r)
      return
    }
    if (outcome === 'succeeded') expecting.add(order_sn)
    go(order, true)
  }
  return (
    <section class="card sandbox">
      <h1>{own('title')}</h1>
      <p class="price big">{money(payment.amount, payment)}</p>
      <p class="muted">{own('order_of', {sn: order_sn})}</p>
      <p class="note">{own('hint')}</p>
      <div class="stack">
        <button class="primary huge" aria-disabled={busy} onClick={() => void choose('succeeded')}>
          {own('ok')}
        </button>
        <button class="huge" aria-disabled={busy} onClick={() => void choose('failed')}>
          {own('fail')}
        </button>
      </div>
      <p role="status">
        {busy ? own('sending') : ''}
        {failure ? say(failure) : ''}
      </p>
      <Link href={order}>{own('to_order')}</Link>
    </section>
  )
}
