// What the hourly comparisons with the payment providers found and could not repair.

import {listPaymentDifferences} from '../api/merchant.ts'
import type {PaymentDifference} from '../api/types.ts'
import {stamp} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Table, usePages} from './parts.tsx'
import {differenceName, w} from './words.ts'

const amount = (a: PaymentDifference['provider_amount']) => (a ? money(a.amount, a) : w('none'))

export function PaymentDifferences() {
  const list = usePages(listPaymentDifferences, [])
  return (
    <section class="stack">
      <h2>{w('payment_differences')}</h2>
      <p class="note">{w('payment_differences_text')}</p>
      <Table
        label={w('payment_differences')}
        rows={list.items}
        rowKey={(d) => d.difference_id}
        empty={w('payment_differences_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('order_sn'),
            cell: (d) => (
              <>
                <span class="tabular">{d.order_sn ?? w('none')}</span>
                <br />
                <span class="muted small">
                  <time dateTime={d.at}>{stamp(d.at)}</time>
                  <br />
                  {d.provider} <bdi class="tabular">{d.payment_id}</bdi>
                </span>
              </>
            ),
          },
          {title: w('difference_kind'), cell: (d) => differenceName(d.kind)},
          {title: w('difference_provider'), number: true, cell: (d) => amount(d.provider_amount)},
          {title: w('difference_recorded'), number: true, cell: (d) => amount(d.recorded_amount)},
          {title: w('difference_seen'), cell: (d) => <time dateTime={d.first_seen_at}>{stamp(d.first_seen_at)}</time>},
        ]}
      />
    </section>
  )
}
