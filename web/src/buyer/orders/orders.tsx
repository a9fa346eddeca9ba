// The orders of a buyer, and their payment: the entrance of a chunk that is loaded with the first of its pages.

import {useEffect, useRef, useState} from 'preact/hooks'
import type {Failure} from '../../api/client.ts'
import {listOrders} from '../../api/orders.ts'
import type {Order, OrderState} from '../../api/types.ts'
import {lost, tick} from '../../base/app.ts'
import {adopt} from '../../base/chunk.ts'
import {time} from '../../base/format.ts'
import {money} from '../../base/money.ts'
import {loop, type Loop} from '../../base/loop.ts'
import {Link, Skeleton} from '../../base/parts.tsx'
import {say} from '../../base/problem.ts'
import {here, setQuery} from '../../base/route.ts'
import {countdownText} from '../countdown.tsx'
import {Account, Empty, orderURL, useTitle} from '../parts.tsx'
import {w} from '../words.ts'
import {OrderBadge} from './order.tsx'
import css from './orders.css?inline'
import {own} from './words.ts'

export {CancelDialog} from './cancel.tsx'
export {OrderPage} from './order.tsx'
export {remind} from './remind.ts'
export {SandboxPage} from './sandbox.tsx'

adopt(css)

const STATES: OrderState[] = ['pending', 'paid', 'closed', 'refunded']

export function OrdersPage() {
  useTitle(() => own('orders_title'))
  return (
    <Account text={own('orders_sign_in')}>
      {(user) => (
        <>
          <h1 class="page-title">{own('orders_title')}</h1>
          <OrderList key={user} />
        </>
      )}
    </Account>
  )
}

function OrderList() {
  const asked = here.value.searchParams.get('state') as OrderState | null
  const state = asked && STATES.includes(asked) ? asked : undefined
  const [orders, setOrders] = useState<Order[]>()
  const [next, setNext] = useState<string>()
  const [failure, setFailure] = useState<Failure>()
  const now = tick.value
  const turn = useRef(0)
  const reading = useRef<Loop>(null)
  const load = async (cursor?: string) => {
    const mine = ++turn.current
    const r = await listOrders(state, cursor)
    // A later read, or another filter, has replaced this one.
    if (mine !== turn.current) return 300_000
    setFailure(r.ok ? undefined : r)
    if (r.ok) {
      setOrders((old) => (cursor && old ? [...old, ...r.data.items] : r.data.items))
      setNext(r.data.next_cursor)
      // A new read of the first page would drop the pages after it.
      if (cursor) reading.current?.stop()
      return 300_000
    }
    if (r.code === 'unauthenticated') lost()
    return r
  }
  useEffect(() => {
    setOrders(undefined)
    setNext(undefined)
    const first = (reading.current = loop(load))
    return () => {
      turn.current++
      first.stop()
    }
  }, [state])
  return (
    <>
      <div class="filter" role="group" aria-label={w('orders')}>
        {[undefined, ...STATES].map((one) => (
          <button key={one ?? ''} class="chip" aria-pressed={one === state} onClick={() => setQuery({state: one ?? ''})}>
            {one ? own(`order_state_${one}`) : own('filter_all')}
          </button>
        ))}
      </div>
      {failure && (
        <p class="banner quiet" role="alert">
          <span aria-hidden="true">▲ </span>
          {say(failure)}{' '}
          <button class="plain" onClick={() => void load()}>
            {w('retry')}
          </button>
        </p>
      )}
      {!orders ? (
        !failure && <Skeleton label={w('loading')} />
      ) : orders.length === 0 ? (
        <Empty title={own('orders_none')} text={own('orders_none_hint')} />
      ) : (
        <ul class="orders">
          {orders.map((order) => (
            <li key={order.order_sn} class="card">
              <Link href={orderURL(order.order_sn)}>
                <span class="order-main">
                  <b>{order.activity_title ?? own('order_of', {sn: order.order_sn})}</b>
                  <span class="muted">{order.lines.map((l) => `${l.name ?? l.sku_id} × ${l.qty}`).join(', ')}</span>
                  <span class="muted small">{own('ordered_at', {t: time(order.created_at, now)})}</span>
                </span>
                <span class="order-side">
                  <b class="amount">{money(order.amount, order)}</b>
                  <OrderBadge state={order.state} />
                  {order.state === 'pending' && Date.parse(order.expires_at) > now && (
                    <span class="small tabular">
                      {w('time_left')} {countdownText(Date.parse(order.expires_at) - now)}
                    </span>
                  )}
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
      {next && (
        <button class="more" onClick={() => void load(next)}>
          {w('more')}
        </button>
      )}
    </>
  )
}
