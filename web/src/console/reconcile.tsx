import {useRef, useState} from 'preact/hooks'
import type {Result} from '../api/client.ts'
import {listActivities, listReconciliations, reconcile} from '../api/merchant.ts'
import type {Reconciliation} from '../api/types.ts'
import {lost} from '../base/app.ts'
import {count, stamp} from '../base/format.ts'
import {Field} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {Repairs} from './history.tsx'
import {Failed, Head, Table, usePages} from './parts.tsx'
import {w} from './words.ts'

export function ReconcilePage() {
  const sales = usePages((cursor) => listActivities({}, cursor), [])
  const published = sales.items?.filter((a) => a.state !== 'draft') ?? []
  const id = here.value.searchParams.get('sale') ?? published[0]?.activity_id ?? ''
  const history = usePages(
    (cursor) =>
      id ? listReconciliations(id, cursor) : Promise.resolve({ok: true as const, data: {items: []}, etag: ''}),
    [id],
  )
  const [outcome, setOutcome] = useState<{id: string; result: Result<Reconciliation>}>()
  const [running, setRunning] = useState('') // the sale that is compared
  const shown = useRef(id)
  shown.current = id
  const result = outcome?.id === id && outcome.result.ok ? outcome.result.data : undefined
  const failure = outcome?.id === id && !outcome.result.ok ? outcome.result : undefined
  const run = async () => {
    if (running || !id) return
    setRunning(id)
    setOutcome(undefined)
    const r = await reconcile(id)
    setRunning('')
    setOutcome({id, result: r})
    if (r.ok) {
      if (shown.current === id) history.reload()
    } else if (r.code === 'unauthenticated') lost()
  }
  return (
    <>
      <Head title={w('reconcile_nav')} />
      <p class="muted">{w('reconcile_text')}</p>
      <Failed failure={sales.failure} retry={sales.next ? sales.more : sales.reload} />
      <div class="filter-form">
        <Field label={w('reconcile_sale')} name="sale">
          {(ids) => (
            <select {...ids} value={id} onChange={(e) => setQuery({sale: e.currentTarget.value})}>
              {id && !published.some((a) => a.activity_id === id) && <option value={id}>{id}</option>}
              {published.map((a) => (
                <option key={a.activity_id} value={a.activity_id}>
                  {a.title} ({a.activity_id})
                </option>
              ))}
            </select>
          )}
        </Field>
        <button class="primary" aria-disabled={!!running || !id} onClick={() => void run()}>
          {w('reconcile')}
        </button>
        {sales.next && (
          <button class="quiet" onClick={sales.more}>
            {w('more_sales')}
          </button>
        )}
      </div>
      <p role="status">{running && running === id && w('reconcile_run')}</p>
      <Failed failure={failure} retry={() => void run()} />
      {result && (
        <section class="card pad stack">
          <p class="muted">{w('as_of', {t: stamp(result.looked_at)})}</p>
          <h2>{w('repairs')}</h2>
          {result.repairs.length ? <Repairs list={result.repairs} /> : <p>{w('repairs_none')}</p>}
          <h2>{w('differences')}</h2>
          {result.differences.length ? (
            <Repairs list={result.differences} />
          ) : (
            <p class="good">✓ {w('differences_none')}</p>
          )}
        </section>
      )}
      <section class="section">
        <h2>{w('history')}</h2>
        <Table
          label={w('reconciliations')}
          rows={history.items}
          rowKey={(r) => r.compared_at}
          empty={w('reconciliations_none')}
          more={history.next ? history.more : undefined}
          failure={history.failure}
          reload={history.reload}
          columns={[
            {title: w('at'), cell: (r) => <time dateTime={r.compared_at}>{stamp(r.compared_at)}</time>},
            {title: w('actor'), cell: (r) => r.actor},
            {title: w('repairs'), cell: (r) => <Repairs list={r.repairs} />},
            {title: w('differences'), number: true, cell: (r) => count(r.left)},
          ]}
        />
      </section>
    </>
  )
}
