import {listDeadLetters, rejectDeadLetter, replayDeadLetter} from '../api/merchant.ts'
import {stamp} from '../base/format.ts'
import {Badge, Link} from '../base/parts.tsx'
import {here} from '../base/route.ts'
import {Confirm, Head, Table, usePages} from './parts.tsx'
import {w} from './words.ts'

const STATES = ['open', 'replayed', 'rejected', 'all'] as const

export function DeadLettersPage() {
  const asked = here.value.searchParams.get('state') ?? ''
  const state = STATES.find((s) => s === asked) ?? 'open'
  const list = usePages((cursor) => listDeadLetters(state, cursor), [state])
  return (
    <>
      <Head title={w('dead_letters')} />
      <div class="filter" role="group" aria-label={w('state')}>
        {STATES.map((one) => (
          <Link
            key={one}
            class="button chip"
            aria-current={one === state ? 'page' : undefined}
            href={`/console/operator/dead-letters${one === 'open' ? '' : `?state=${one}`}`}
          >
            {one === 'all' ? w('all') : w(`dl_${one}`)}
          </Link>
        ))}
      </div>
      <Table
        label={w('dead_letters')}
        rows={list.items}
        rowKey={(d) => d.dead_letter_id}
        empty={w('dl_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {title: w('at'), cell: (d) => <time dateTime={d.failed_at}>{stamp(d.failed_at)}</time>},
          {
            title: w('dl_why'),
            cell: (d) => (
              <>
                <b>{d.why}</b>
                <br />
                <span class="muted small">
                  {d.where} · {d.topic}
                  {d.activity_id && ` · ${w('sales')} ${d.activity_id}`}
                  {d.merchant_id && ` · ${w('merchant')} ${d.merchant_id}`}
                </span>
                <details>
                  <summary>{w('dl_item')}</summary>
                  <pre>{pretty(d.item)}</pre>
                </details>
              </>
            ),
          },
          {title: w('dl_times'), number: true, cell: (d) => d.occurrences},
          {
            title: w('state'),
            cell: (d) => (
              <>
                <Badge tone={d.state === 'open' ? 'warning' : 'quiet'}>{w(`dl_${d.state}`)}</Badge>
                {d.decided_by && (
                  <p class="muted small">
                    {d.decided_by} {d.decided_at && stamp(d.decided_at)}
                  </p>
                )}
              </>
            ),
          },
          {
            title: w('actions'),
            cell: (d) =>
              d.state === 'open' && (
                <div class="row">
                  <Confirm
                    label={w('replay')}
                    title={w('replay_ask')}
                    run={() => replayDeadLetter(d.dead_letter_id)}
                    done={list.reload}
                  >
                    <p>{w('replay_text', {topic: d.topic})}</p>
                  </Confirm>
                  <Confirm
                    label={w('reject')}
                    title={w('reject_ask')}
                    danger
                    run={() => rejectDeadLetter(d.dead_letter_id)}
                    done={list.reload}
                  >
                    <p>{w('reject_text')}</p>
                    {d.order_sn && <p class="muted tabular">{d.order_sn}</p>}
                  </Confirm>
                </div>
              ),
          },
        ]}
      />
    </>
  )
}

function pretty(item: string): string {
  try {
    return JSON.stringify(JSON.parse(item), null, 2)
  } catch {
    return item
  }
}
