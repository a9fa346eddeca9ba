// One purchase of a sale: its order, what was paid and refunded, who changed what, and its cancellation.

import {useState} from 'preact/hooks'
import {getActivityOrder} from '../api/merchant.ts'
import type {ActivityOrder, OrderChange, OrderRefund} from '../api/types.ts'
import {hasRole} from '../base/app.ts'
import {Dialog} from '../base/dialog.tsx'
import {count, stamp} from '../base/format.ts'
import {money, type Currency} from '../base/money.ts'
import {Badge, Link} from '../base/parts.tsx'
import {actorOf, whatChanged} from './history.tsx'
import {Failed, Head, Table, useRead} from './parts.tsx'
import {CancelForm} from './suspects.tsx'
import {reasonName, w, type Word} from './words.ts'

export const orderPath = (activity_id: string, order_sn: string) =>
  `/console/sales/${encodeURIComponent(activity_id)}/orders/${encodeURIComponent(order_sn)}`

export function OrderPage({id, orderSN}: {id: string; orderSN: string}) {
  const read = useRead(() => getActivityOrder(id, orderSN), [id, orderSN])
  const [note, setNote] = useState('')
  const order = read.data
  return (
    <>
      <Head title={w('order_title', {order: orderSN})}>
        {order && <Cancel order={order} refresh={() => void read.reload()} done={(text) => (setNote(text), void read.reload())} />}
      </Head>
      <p role="status">{note}</p>
      <Failed failure={read.failure} retry={read.reload} />
      {order && <Order order={order} reload={read.reload} />}
    </>
  )
}

const moment = (at: string) => <time dateTime={at}>{stamp(at)}</time>

function Order({order, reload}: {order: ActivityOrder; reload: () => void}) {
  const currency = order as Currency // of amounts that are there
  const operator = hasRole('operator')
  const times = (
    [
      ['reserved_at', order.reserved_at],
      ['created_at', order.created_at],
      ['pay_by', order.order_state === 'pending' ? order.expires_at : undefined],
      ['paid_at', order.paid_at],
      ['closed_at', order.closed_at],
      ['refunded_at', order.refunded_at],
    ] as const
  ).filter(([, at]) => at)
  return (
    <div class="stack sections">
      <section class="stack">
        <p class="row facts">
          <State order={order} />
          {typeof order.amount === 'number' && (
            <span>
              {w('amount')} <b class="tabular">{money(order.amount, currency)}</b>
            </span>
          )}
          <span>
            {w('user')} <b>{order.user_id}</b>
          </span>
          <span>
            {w('order_of')}{' '}
            <Link href={`/console/sales/${encodeURIComponent(order.activity_id)}/orders`}>
              <span dir="auto">{order.activity_title}</span>
            </Link>
          </span>
        </p>
        <p class="row facts">
          {times.map(([word, at]) => (
            <span key={word}>
              {w(word)} {moment(at as string)}
            </span>
          ))}
        </p>
        {order.order_state === null && <p class="note">{w(missing(order))}</p>}
        {order.paying_until && <p class="note">{w('order_paying', {t: stamp(order.paying_until)})}</p>}
      </section>
      <section>
        <h2>{w('bought')}</h2>
        <Table
          label={w('bought')}
          rows={order.lines}
          rowKey={(l) => l.sku_id}
          empty={w('none')}
          reload={reload}
          columns={[
            {title: w('sku'), cell: (l) => <span dir="auto">{l.name ?? l.sku_id}</span>},
            {title: w('qty'), number: true, cell: (l) => count(l.qty)},
            {
              title: w('price'),
              number: true,
              cell: (l) => (typeof l.unit_price === 'number' ? money(l.unit_price, currency) : w('none')),
            },
          ]}
        />
      </section>
      <section>
        <h2>{w('contact')}</h2>
        {order.contact ? (
          <p dir="auto">
            {order.contact.name}
            <br />
            <span class="tabular">{order.contact.phone}</span>
            {order.contact.address_lines?.map((line, i) => (
              <span key={i}>
                <br />
                {line}
              </span>
            ))}
          </p>
        ) : (
          <p class="muted">{w('contact_none')}</p>
        )}
      </section>
      <section>
        <h2>{w('payments')}</h2>
        <Table
          label={w('payments')}
          rows={order.payments}
          rowKey={(p) => p.payment_id}
          empty={w('payments_none')}
          reload={reload}
          columns={[
            {title: w('started_at'), cell: (p) => moment(p.created_at)},
            {
              title: w('state'),
              cell: (p) => (
                <Badge tone={p.state === 'succeeded' ? 'good' : p.state === 'failed' ? 'quiet' : 'warning'}>
                  {w(`payment_${p.state}`)}
                </Badge>
              ),
            },
            {title: w('amount'), number: true, cell: (p) => money(p.amount, p)},
            {title: w('taken'), number: true, cell: taken},
            {title: w('finished_at'), cell: (p) => (p.finished_at ? moment(p.finished_at) : w('none'))},
            {title: w('provider'), cell: (p) => p.provider},
            {title: w('reference'), cell: (p) => <span class="tabular">{p.payment_id}</span>},
          ]}
        />
      </section>
      <section>
        <h2>{w('refunds')}</h2>
        <Table
          label={w('refunds')}
          rows={order.refunds}
          rowKey={(r) => r.refund_id}
          empty={w('order_refunds_none')}
          reload={reload}
          columns={[
            {title: w('started_at'), cell: (r) => moment(r.created_at)},
            {title: w('state'), cell: (r) => <RefundState refund={r} />},
            {title: w('reason'), cell: (r) => reasonName(r.reason)},
            {title: w('amount'), number: true, cell: (r) => money(r.amount, r)},
            {title: w('finished_at'), cell: (r) => (r.refunded_at ? moment(r.refunded_at) : w('none'))},
            ...(operator
              ? [
                  {title: w('refund_attempts'), number: true, cell: (r: OrderRefund) => r.attempts},
                  {title: w('refund_last_error'), cell: (r: OrderRefund) => r.last_error ?? w('none')},
                ]
              : []),
            {title: w('reference'), cell: (r) => <span class="tabular">{r.refund_id}</span>},
          ]}
        />
      </section>
      <section>
        <h2>{w('changes')}</h2>
        <Table
          label={w('changes')}
          rows={order.changes.map((c, i) => ({...c, i}))}
          rowKey={(c) => String(c.i)}
          empty={w('order_changes_none')}
          reload={reload}
          columns={[
            {title: w('at'), cell: (c) => moment(c.at)},
            {title: w('what'), cell: (c) => whatChanged(c.what)},
            {title: w('actor'), cell: ({actor, role}) => (actor ? actorOf({actor, role}) : w('none'))},
            {title: w('details'), cell: (c) => <span dir="auto">{about(c)}</span>},
          ]}
        />
      </section>
    </div>
  )
}

// missing says why there is no order.
function missing({state}: ActivityOrder): Word {
  if (state === 'reserved') return 'order_none_reserved'
  return state === 'sold' ? 'order_none_sold' : 'order_none_ended'
}

function State({order}: {order: ActivityOrder}) {
  const state = order.order_state ?? order.state
  const tones = {paid: 'good', sold: 'good', pending: 'warning', reserved: 'warning'} as const
  const reason = order.close_reason ?? order.reason
  return (
    <span>
      <Badge tone={tones[state as keyof typeof tones] ?? 'quiet'}>{w(state)}</Badge>
      {reason && reason !== state && <span class="muted"> {reasonName(reason)}</span>}
    </span>
  )
}

export function RefundState({refund: r}: {refund: Pick<OrderRefund, 'state' | 'next_attempt_at' | 'settled'>}) {
  const tone = r.state === 'refunded' ? 'good' : r.state === 'refund_failed' ? 'bad' : 'warning'
  return (
    <>
      <Badge tone={tone}>{w(`refund_${r.state}`)}</Badge>
      {r.settled && (
        <p class="muted small" dir="auto">
          {w('settled_as', {by: r.settled.by, reference: r.settled.reference})} ({r.settled.reason})
        </p>
      )}
      {r.state === 'refund_pending' && r.next_attempt_at && (
        <p class="muted small">{w('refund_next', {t: stamp(r.next_attempt_at)})}</p>
      )}
    </>
  )
}

type Payment = ActivityOrder['payments'][number]

// taken is what the provider took. Of an unknown currency the amount can only be shown in its smallest unit.
function taken({paid_amount: amount, paid_currency: currency, paid_currency_digits: digits}: Payment): string {
  if (amount === undefined || !currency) return w('none')
  return digits === undefined
    ? w('minor_units', {n: count(amount), currency})
    : money(amount, {currency, currency_digits: digits})
}

// about is what a change is about. The reason of a state is one of a few words, that of a person a text.
function about({what, details = {}}: OrderChange): string {
  const text = (name: string) => (typeof details[name] === 'string' ? details[name] : '')
  const reason = text('reason')
  const worded = reason && what.startsWith('order.') ? reasonName(reason) : reason
  return [worded, text('payment_id') || text('refund_id'), text('reference')].filter(Boolean).join(' · ')
}

// Cancel closes an order that is not paid, and refunds one that is. Nothing is offered for an order that has ended, or
// that cannot be found although it was paid. The order is read again with the dialog: it may be paid since.
function Cancel({order, refresh, done}: {order: ActivityOrder; refresh: () => void; done: (text: string) => void}) {
  const [open, setOpen] = useState(false)
  const {order_state: state, amount} = order
  const held = order.state === 'reserved' || order.state === 'sold'
  if (!held || state === 'closed' || state === 'refunded' || (order.state === 'sold' && !state)) return null
  const paid = state === 'paid' && typeof amount === 'number' ? money(amount, order as Currency) : ''
  const label = paid ? w('cancel_refund', {amount: paid}) : w('cancel_order')
  return (
    <>
      <button class="danger" aria-hidden={open ? 'true' : undefined} onClick={() => (setOpen(true), refresh())}>
        {label}
      </button>
      {open && (
        <Dialog title={w('cancel_one_ask', {order: order.order_sn})} onClose={() => setOpen(false)}>
          <CancelForm
            id={order.activity_id}
            sns={[order.order_sn]}
            text={paid ? w('cancel_paid_text', {amount: paid}) : w('cancel_unpaid_text')}
            label={label}
            close={() => setOpen(false)}
            done={([result]) => {
              setOpen(false)
              done(w(`cancelled_${result?.outcome ?? 'not_found'}`))
            }}
          />
        </Dialog>
      )}
    </>
  )
}
