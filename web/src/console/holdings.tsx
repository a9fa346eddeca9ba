import {useState} from 'preact/hooks'
import {holdingsCSV, listHoldings} from '../api/merchant.ts'
import type {Activity, HoldingList} from '../api/types.ts'
import {count, stamp} from '../base/format.ts'
import {money, type Currency} from '../base/money.ts'
import {Field, Link} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {orderPath} from './order.tsx'
import {Table, usePages} from './parts.tsx'
import {reasonName, w} from './words.ts'

const STATES = ['pending', 'paid', 'closed', 'refunded', 'reserved', 'sold', 'released', 'rejected'] as const

export function HoldingsView({activity}: {activity: Activity}) {
  const q = here.value.searchParams
  const filter = {
    state: STATES.find((s) => s === q.get('state')),
    user_id: q.get('user_id') ?? '',
    order_sn: q.get('order_sn') ?? '',
  }
  const [counts, setCounts] = useState<HoldingList['counts']>()
  const list = usePages(
    async (cursor) => {
      const r = await listHoldings(activity.activity_id, filter, cursor)
      if (r.ok && !cursor) setCounts(r.data.counts)
      return r
    },
    [activity.activity_id, filter.state, filter.user_id, filter.order_sn],
  )
  const submit = (event: Event) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    setQuery(
      Object.fromEntries(['state', 'user_id', 'order_sn'].map((name) => [name, String(form.get(name) ?? '').trim()])),
    )
  }
  const nameOf = (sku: string) => activity.items.find((i) => i.sku_id === sku)?.name ?? sku
  return (
    <>
      {counts && (
        <p class="row facts">
          {(['reserved', 'sold', 'released', 'rejected'] as const).map((key) => (
            <span key={key}>
              {w(key)} <b class="tabular">{count(counts[key])}</b>
            </span>
          ))}
        </p>
      )}
      <form class="filter-form" onSubmit={submit}>
        <Field label={w('state')} name="state">
          {(ids) => (
            <select {...ids} value={filter.state ?? ''} onChange={(e) => setQuery({state: e.currentTarget.value})}>
              <option value="">{w('any_state')}</option>
              {STATES.map((s) => (
                <option key={s} value={s}>
                  {w(s)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={w('user')} name="user_id">
          {(ids) => <input {...ids} defaultValue={filter.user_id} maxLength={64} />}
        </Field>
        <Field label={w('order_sn')} name="order_sn">
          {(ids) => <input {...ids} defaultValue={filter.order_sn} inputMode="numeric" maxLength={32} />}
        </Field>
        <button type="submit">{w('filter')}</button>
        <a class="button" href={holdingsCSV(activity.activity_id, filter)} download>
          {w('csv')}
        </a>
      </form>
      <Table
        label={w('orders')}
        rows={list.items}
        rowKey={(h) => h.order_sn}
        empty={w('holdings_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('order_sn'),
            cell: (h) => (
              <Link class="tabular" href={orderPath(activity.activity_id, h.order_sn)}>
                {h.order_sn}
              </Link>
            ),
          },
          {title: w('user'), cell: (h) => h.user_id},
          {
            title: w('state'),
            cell: (h) => {
              const reason = h.reason ? ` (${reasonName(h.reason)})` : ''
              return `${w(h.state)}${h.order_state ? ` · ${w(h.order_state)}` : ''}${reason}`
            },
          },
          {title: w('lines'), cell: (h) => h.lines.map((l) => `${nameOf(l.sku_id)} × ${l.qty}`).join(', ')},
          {
            title: w('amount'),
            number: true,
            cell: (h) => (typeof h.amount === 'number' ? money(h.amount, h as Currency) : w('none')),
          },
          {title: w('reserved_at'), cell: (h) => <time dateTime={h.reserved_at}>{stamp(h.reserved_at)}</time>},
          {title: w('contact'), cell: (h) => (h.contact ? `${h.contact.name} ${h.contact.phone}` : w('none'))},
        ]}
      />
    </>
  )
}
