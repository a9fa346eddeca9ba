import {listActivities} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {count, stamp} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Field, Link} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {DeleteButton, DuplicateButton} from './drafts.tsx'
import {Head, SearchField, StateBadge, Table, usePages} from './parts.tsx'
import {merchantColumn} from './who.tsx'
import {w} from './words.ts'

const STATES = ['draft', 'scheduled', 'open', 'paused', 'ended'] as const

export function ActivitiesPage() {
  const query = here.value.searchParams
  const state = STATES.find((s) => s === query.get('state'))
  const q = query.get('q') ?? ''
  const sort = query.get('sort') === 'start' ? 'start' : undefined
  const list = usePages((cursor) => listActivities({state, q, sort}, cursor), [state, q, sort])
  const at = (id: string) => `/console/sales/${encodeURIComponent(id)}`
  return (
    <>
      <Head title={w('sales')}>
        <Link class="button primary" href="/console/sales/new">
          {w('new_sale')}
        </Link>
      </Head>
      <div class="filter" role="group" aria-label={w('state')}>
        {[undefined, ...STATES].map((one) => (
          <button
            key={one ?? ''}
            class="chip"
            aria-pressed={one === state}
            onClick={() => setQuery({state: one ?? ''})}
          >
            {one ? w(`state_${one}`) : w('all')}
          </button>
        ))}
      </div>
      <SearchField label={w('search_title')} q={q}>
        <Field label={w('sort')} name="sort">
          {(ids) => (
            <select {...ids} value={sort ?? ''} onChange={(e) => setQuery({sort: e.currentTarget.value})}>
              <option value="">{w('sort_created')}</option>
              <option value="start">{w('sort_start')}</option>
            </select>
          )}
        </Field>
      </SearchField>
      <Table
        label={w('sales')}
        rows={list.items}
        rowKey={(a) => a.activity_id}
        empty={w(q ? 'search_none' : state ? 'sales_none_state' : 'sales_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('sale_title'),
            cell: (a) => (
              <Link class="strong" href={at(a.activity_id)}>
                {a.title}
              </Link>
            ),
          },
          ...merchantColumn<Activity>(),
          {title: w('state'), cell: (a) => <StateBadge state={a.state} />},
          {
            title: `${w('starts')} – ${w('ends')}`,
            cell: (a) => (
              <>
                <time dateTime={a.starts_at}>{stamp(a.starts_at)}</time>
                <br />
                <time dateTime={a.ends_at}>{stamp(a.ends_at)}</time>
              </>
            ),
          },
          {
            title: w('left'),
            number: true,
            cell: (a) => (
              <>
                {a.totals ? count(a.totals.left) : w('none')}
                <br />
                <small class="muted">{a.totals && w('of_total', {n: count(a.totals.units)})}</small>
              </>
            ),
          },
          {
            title: w('sold'),
            number: true,
            cell: (a) =>
              a.state === 'draft' || !a.totals ? (
                w('none')
              ) : (
                <Link href={`${at(a.activity_id)}/orders?state=paid`}>{count(a.totals.sold)}</Link>
              ),
          },
          {
            title: w('revenue'),
            number: true,
            cell: (a) => (a.state === 'draft' || !a.totals ? w('none') : money(a.totals.revenue, a)),
          },
          {
            title: w('actions'),
            cell: (a) => (
              <div class="stack">
                <DuplicateButton activity={a} />
                {a.state === 'draft' && <DeleteButton activity={a} gone={list.reload} changed={list.reload} />}
              </div>
            ),
          },
        ]}
      />
    </>
  )
}
