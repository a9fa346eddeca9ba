import {listActivities} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {count, stamp} from '../base/format.ts'
import {Link} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {Head, StateBadge, Table, usePages} from './parts.tsx'
import {merchantColumn} from './who.tsx'
import {w} from './words.ts'

const STATES = ['draft', 'scheduled', 'open', 'paused', 'ended'] as const

export function ActivitiesPage() {
  const asked = here.value.searchParams.get('state') ?? ''
  const state = STATES.find((s) => s === asked)
  const list = usePages((cursor) => listActivities(state, cursor), [state])
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
      <Table
        label={w('sales')}
        rows={list.items}
        rowKey={(a) => a.activity_id}
        empty={w(state ? 'sales_none_state' : 'sales_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('sale_title'),
            cell: (a) => (
              <Link class="strong" href={`/console/sales/${encodeURIComponent(a.activity_id)}`}>
                {a.title}
              </Link>
            ),
          },
          ...merchantColumn<Activity>(),
          {title: w('state'), cell: (a) => <StateBadge state={a.state} />},
          {title: w('starts'), cell: (a) => <time dateTime={a.starts_at}>{stamp(a.starts_at)}</time>},
          {title: w('ends'), cell: (a) => <time dateTime={a.ends_at}>{stamp(a.ends_at)}</time>},
          {title: w('units'), number: true, cell: (a) => count(a.items.reduce((sum, i) => sum + i.stock, 0))},
        ]}
      />
    </>
  )
}
