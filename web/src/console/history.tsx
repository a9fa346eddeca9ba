import {listAdjustments, listChanges, listReconciliations} from '../api/merchant.ts'
import type {Activity, Repair} from '../api/types.ts'
import {count, stamp} from '../base/format.ts'
import {Table, usePages} from './parts.tsx'
import {w, type Word} from './words.ts'

const WHAT: Partial<Record<string, Word>> = {
  'activity.create': 'what_create',
  'activity.patch': 'what_patch',
  'activity.publish': 'what_publish',
  'activity.pause': 'what_pause',
  'activity.resume': 'what_resume',
  'activity.end': 'what_end',
  'activity.reconcile': 'what_reconcile',
  'activity.restore': 'what_restore',
  'stock.adjust': 'what_adjust',
  'orders.cancel': 'what_cancel_orders',
  'order.reserve': 'what_order_reserve',
  'order.create': 'what_order_create',
  'order.pay': 'what_order_pay',
  'order.close': 'what_order_close',
  'order.refund': 'what_order_refund',
  'order.release': 'what_order_release',
  'order.reject': 'what_order_reject',
  'refund.retry': 'what_refund_retry',
  'refund.settle': 'what_refund_settle',
  'refund.found': 'what_refund_found',
  'dead_letter.replay': 'what_dead_letter_replay',
  'dead_letter.reject': 'what_dead_letter_reject',
}

// whatChanged words an action of the change log; an unknown one is shown as it is.
export function whatChanged(action: string): string {
  const key = WHAT[action]
  return key ? w(key) : action
}

// actorOf names who made a change. Changes without a role are those of the automatic reconciler.
export function actorOf({actor, role}: {actor: string; role?: string}): string {
  const key = ({buyer: 'role_buyer', merchant: 'role_merchant', operator: 'role_operator'} as const)[role ?? '']
  return key ? `${actor} (${w(key)})` : actor
}

const at = (moment: string) => <time dateTime={moment}>{stamp(moment)}</time>

export function HistoryView({activity}: {activity: Activity}) {
  const id = activity.activity_id
  const changes = usePages((cursor) => listChanges(id, cursor), [id])
  const adjustments = usePages((cursor) => listAdjustments(id, cursor), [id])
  const reconciliations = usePages((cursor) => listReconciliations(id, cursor), [id])
  const nameOf = (sku: string) => activity.items.find((i) => i.sku_id === sku)?.name ?? sku
  return (
    <div class="stack sections">
      <section>
        <h2>{w('changes')}</h2>
        <Table
          label={w('changes')}
          rows={changes.items}
          rowKey={(c) => c.change_id}
          empty={w('changes_none')}
          more={changes.next ? changes.more : undefined}
          failure={changes.failure}
          reload={changes.reload}
          columns={[
            {title: w('at'), cell: (c) => at(c.at)},
            {
              title: w('actor'),
              cell: actorOf,
            },
            {title: w('what'), cell: (c) => whatChanged(c.what)},
            {
              title: w('details'),
              cell: (c) => (c.details === undefined ? '' : <code>{JSON.stringify(c.details)}</code>),
            },
          ]}
        />
      </section>
      <section>
        <h2>{w('adjustments')}</h2>
        <Table
          label={w('adjustments')}
          rows={adjustments.items}
          rowKey={(a) => a.adjustment_id}
          empty={w('adjustments_none')}
          more={adjustments.next ? adjustments.more : undefined}
          failure={adjustments.failure}
          reload={adjustments.reload}
          columns={[
            {title: w('at'), cell: (a) => at(a.created_at)},
            {title: w('actor'), cell: (a) => a.created_by},
            {title: w('sku'), cell: (a) => nameOf(a.sku_id)},
            {title: w('delta'), number: true, cell: (a) => (a.delta > 0 ? `+${a.delta}` : a.delta)},
            {title: w('reason'), cell: (a) => a.reason},
            {title: w('state'), cell: (a) => w(`adjustment_${a.state}`)},
          ]}
        />
      </section>
      <section>
        <h2>{w('reconciliations')}</h2>
        <Table
          label={w('reconciliations')}
          rows={reconciliations.items}
          rowKey={(r) => r.compared_at}
          empty={w('reconciliations_none')}
          more={reconciliations.next ? reconciliations.more : undefined}
          failure={reconciliations.failure}
          reload={reconciliations.reload}
          columns={[
            {title: w('at'), cell: (r) => at(r.compared_at)},
            {title: w('actor'), cell: (r) => r.actor},
            {title: w('repairs'), cell: (r) => <Repairs list={r.repairs} />},
            {title: w('differences'), number: true, cell: (r) => count(r.left)},
          ]}
        />
      </section>
    </div>
  )
}

export function Repairs({list}: {list: Repair[]}) {
  return (
    <ul>
      {list.map((r, i) => (
        <li key={i}>
          {r.sku_id && `${w('sku')} ${r.sku_id} `}
          <b>{r.delta > 0 ? `+${r.delta}` : r.delta}</b> {r.why}{' '}
          {r.order_sn && <span class="muted tabular">{r.order_sn}</span>}
        </li>
      ))}
    </ul>
  )
}
