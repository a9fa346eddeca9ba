import {useState} from 'preact/hooks'
import type {Failure} from '../api/client.ts'
import {listActivities, listReconciliations, reconcile} from '../api/merchant.ts'
import type {Reconciliation} from '../api/types.ts'
import {lost} from '../base/app.ts'
import {count, stamp} from '../base/format.ts'
import {Field} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {Repairs} from './history.tsx'
import {Failed, Head, Table, usePages, useRead} from './parts.tsx'
import {w} from './words.ts'

export function ReconcilePage() {
  const sales = useRead(() => listActivities(), [])
  const published = sales.data?.items.filter((a) => a.state !== 'draft') ?? []
  const id = here.value.searchParams.get('sale') ?? published[0]?.activity_id ?? ''
  const history = usePages(
    (cursor) =>
      id ? listReconciliations(id, cursor) : Promise.resolve({ok: true as const, data: {items: []}, etag: ''}),
    [id],
  )
  const [result, setResult] = useState<Reconciliation>()
  const [failure, setFailure] = useState<Failure>()
  const [busy, setBusy] = useState(false)
  const run = async () => {
    if (busy || !id) return
    setBusy(true)
    setResult(undefined)
    const r = await reconcile(id)
    setBusy(false)
    setFailure(r.ok ? undefined : r)
    if (r.ok) {
      setResult(r.data)
      history.reload()
    } else if (r.code === 'unauthenticated') lost()
  }
  return (
    <>
      <Head title={w('reconcile_nav')} />
      <p class="muted">{w('reconcile_text')}</p>
      <Failed failure={sales.failure} retry={sales.reload} />
      <div class="filter-form">
        <Field label={w('reconcile_sale')} name="sale">
          {(ids) => (
            <select
              {...ids}
              value={id}
              onChange={(e) => (setResult(undefined), setQuery({sale: e.currentTarget.value}))}
            >
              {published.map((a) => (
                <option key={a.activity_id} value={a.activity_id}>
                  {a.title} ({a.activity_id})
                </option>
              ))}
            </select>
          )}
        </Field>
        <button class="primary" aria-disabled={busy || !id} onClick={() => void run()}>
          {w('reconcile')}
        </button>
      </div>
      <p role="status">{busy && w('reconcile_run')}</p>
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
