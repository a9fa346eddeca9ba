import {useEffect, useRef, useState} from 'preact/hooks'
import type {Failure} from '../../api/client.ts'
import {getOrder} from '../../api/orders.ts'
import type {Order, OrderState} from '../../api/types.ts'
import {clock, config, lost, tick, userID} from '../../base/app.ts'
import {time} from '../../base/format.ts'
import {money} from '../../base/money.ts'
import {around, loop, type Loop} from '../../base/loop.ts'
import {Badge, Bar, Link, Wrong} from '../../base/parts.tsx'
import {code, codeKey} from '../../base/problem.ts'
import {retryDelay} from '../../base/retry.ts'
import {onChanged} from '../../base/tabs.ts'
import {noteOrder} from '../../base/unpaid.ts'
import {useAllowance} from './allowance.ts'
import {CancelDialog} from './cancel.tsx'
import {ContactSection} from './contact.tsx'
import {Countdown, countdownText} from '../countdown.tsx'
import {confirming, expecting, PayButton} from '../paying.tsx'
import {Account, saleURL, Unread} from '../parts.tsx'
import {w} from '../words.ts'
import {own} from './words.ts'

export function OrderBadge({state}: {state: OrderState}) {
  const tone = {pending: 'accent', paid: 'good', closed: 'quiet', refunded: 'warning'} as const
  return <Badge tone={tone[state]}>{own(`order_state_${state}`)}</Badge>
}

export function OrderPage({order_sn}: {order_sn: string}) {
  return <Account text={w('sign_in_why')}>{(user) => <OrderView key={user} order_sn={order_sn} />}</Account>
}

// useOrder reads the order, again while it can change, and often while a payment is expected.
function useOrder(order_sn: string) {
  const [order, setOrder] = useState<Order>()
  const [failure, setFailure] = useState<Failure>()
  const reading = useRef<Loop>(null)
  useEffect(() => {
    let polls = 0
    const end = new AbortController()
    const read = (reading.current = loop(async () => {
      const user = userID()
      const r = await getOrder(order_sn)
      if (end.signal.aborted) return 0
      setFailure(r.ok ? undefined : r)
      if (!r.ok) {
        if (r.code === 'unauthenticated') lost()
        return r
      }
      setOrder(r.data)
      noteOrder(user, order_sn, r.data.state === 'pending' ? r.data.expires_at : undefined)
      if (r.data.state !== 'pending') {
        expecting.delete(order_sn)
        return 30_000
      }
      const wait = expecting.has(order_sn) && polls < 30 ? retryDelay(polls++, 0) : around(10_000)
      const deadline = Date.parse(r.data.expires_at) - clock.now()
      return deadline > 0 ? Math.min(wait, deadline + around(1000)) : wait
    }))
    onChanged(read.again, end.signal)
    return () => {
      end.abort()
      read.stop()
    }
  }, [order_sn])
  return {order, setOrder, failure, reload: () => reading.current?.again()}
}

function OrderView({order_sn}: {order_sn: string}) {
  const {order, setOrder, failure, reload} = useOrder(order_sn)
  const [cancelling, setCancelling] = useState(false)
  const [wrong, setWrong] = useState('')
  const refused = (why: string) => {
    setWrong(why)
    if (why) reload()
  }
  const cancelled = (fresh?: Order) => {
    if (order && fresh) setOrder({...order, ...fresh})
    reload()
  }
  const now = tick.value
  const dropped = order?.close_reason === 'cancelled' || order?.close_reason === 'expired'
  const allowance = useAllowance(dropped ? order.activity_id : undefined, order?.state)
  const barred = allowance?.barred_until ?? ''
  const pending = order?.state === 'pending'
  const left = order ? Date.parse(order.expires_at) - now : 0
  const title = pending && left > 0 ? `${countdownText(left)} ${w('pay')}` : own('order_of', {sn: order_sn})
  useEffect(() => {
    document.title = `${title} · ${order?.activity_title ?? config.value.brand.name}`
  }, [title, order?.activity_title])
  if (!order) return <Unread failure={failure} retry={reload} />
  const failed = order.payments?.some((p) => p.state === 'failed') && !order.payments.some((p) => p.state === 'started')
  const whole = Date.parse(order.expires_at) - Date.parse(order.created_at)
  return (
    <article class="order card">
      <header class="order-head">
        <OrderBadge state={order.state} />
        <h1>{order.activity_title ?? own('order_of', {sn: order.order_sn})}</h1>
        <p class="muted small">
          {own('order_of', {sn: order.order_sn})} · {own('ordered_at', {t: time(order.created_at, now)})}
        </p>
      </header>
      <p class={`status ${order.state === 'paid' ? 'good' : ''}`} role="status">
        {orderStatus(order, now, !!failed)}
      </p>
      {dropped && allowance && (
        <p class="small">
          {Date.parse(barred) > now ? code('barred', {t: time(barred, now, true)}) : <Link href={saleURL(order.activity_id)}>{w('buy_again')}</Link>}
        </p>
      )}
      {pending && left > 0 && (
        <div class="deadline">
          <Countdown ms={left} label={w('time_left')} big />
          <Bar value={left} max={whole} label={w('pay_by', {t: time(order.expires_at, now)})} />
          <div class="action inline">
            <PayButton order_sn={order.order_sn} amount={money(order.amount, order)} onRefused={refused} />
            <button class="quiet" onClick={() => setCancelling(true)}>
              {w('cancel_order')}
            </button>
          </div>
          <Wrong text={wrong} />
        </div>
      )}
      {cancelling && (
        <CancelDialog order_sn={order_sn} activity_id={order.activity_id} onChange={cancelled} onClose={() => setCancelling(false)} />
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label={own('order')}>
        <table class="lines">
          <thead>
            <tr>
              {(['item', 'amount'] as const).map((key) => (
                <th scope="col" class={key === 'item' ? '' : 'number'}>
                  {own(key)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {order.lines.map((l) => (
              <tr key={l.sku_id}>
                <td dir="auto">
                  {l.name ?? l.sku_id} × {l.qty}
                  {l.qty > 1 && <span class="muted small"> {own('each', {price: money(l.unit_price, order)})}</span>}
                </td>
                <td class="number">{money(l.unit_price * l.qty, order)}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">{own('total')}</th>
              <td class="number">
                <b>{money(order.amount, order)}</b>
              </td>
            </tr>
          </tfoot>
        </table>
      </div>
      <Records
        title={own('payments')}
        rows={order.payments?.map((p) => [`${money(p.amount, p)} · ${p.provider}`, paymentState(p.state), p.created_at ?? ''])}
      />
      <Records
        title={own('refunds')}
        rows={order.refunds?.map((r) => [money(r.amount, r), own(`refund_${r.state}`), r.refunded_at ?? r.created_at])}
      />
      <ContactSection order={order} onSaved={() => setOrder({...order, contact_given: true})} />
      <footer class="order-foot">
        <Link href={saleURL(order.activity_id)}>{order.activity_title ?? w('sales')}</Link>
        <Link href="/orders">{w('orders')}</Link>
        <button class="quiet" onClick={() => print()}>
          {own('print')}
        </button>
      </footer>
    </article>
  )
}

function Records({title, rows}: {title: string; rows?: [string, string, string][]}) {
  if (!rows?.length) return null
  return (
    <section>
      <h2>{title}</h2>
      <ul class="plain-list">
        {rows.map(([what, state, at]) => (
          <li>
            <span>{what}</span>
            <span>{state}</span>
            <span class="muted">{time(at)}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

function paymentState(state: string): string {
  if (state === 'started' || state === 'succeeded' || state === 'failed') return own(`payment_${state}`)
  return state
}

function orderStatus(order: Order, now: number, failed: boolean): string {
  switch (order.state) {
    case 'paid':
      return `${w('st_paid')}${order.paid_at ? ` ${own('paid_at', {t: time(order.paid_at, now)})}` : ''}`
    case 'closed':
      return code(codeKey(`closed_${order.close_reason}`))
    case 'refunded':
      return code('closed_refunded')
    case 'pending':
      if (expecting.has(order.order_sn)) return w('confirming')
      if (Date.parse(order.expires_at) <= now) return confirming(order, now) ? w('confirming') : code('closed_expired')
      return failed ? own('payment_did_fail') : w('pay_by', {t: time(order.expires_at, now, true)})
  }
}
