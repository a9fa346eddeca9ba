// Suspects of a sale, and the review of orders before fulfilment.

import {useState} from 'preact/hooks'
import {suspectsCSV, cancelReviewed, getSuspects, listReview} from '../api/merchant.ts'
import type {SuspectLists, SuspectCause, Activity, CancelResult, ReviewItem} from '../api/types.ts'
import {Dialog} from '../base/dialog.tsx'
import {count, time} from '../base/format.ts'
import {money, type Currency} from '../base/money.ts'
import {clock} from '../base/app.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {Failed, Table, useForm, usePages, useRead, type Pages} from './parts.tsx'
import {reasonName, sentence, w} from './words.ts'

const MOST = 256 // orders in one call

const causeNames = (causes: SuspectCause[]) => causes.map((c) => w(`cause_${c}`)).join(', ')

export function SuspectsView({activity}: {activity: Activity}) {
  const id = activity.activity_id
  const suspects = useRead(() => getSuspects(id), [id])
  const review = usePages((cursor) => listReview(id, cursor), [id])
  return (
    <div class="stack sections">
      <section class="stack">
        <Summary suspects={suspects.data} />
        <Failed failure={suspects.failure} retry={suspects.reload} />
        <p>
          <a class="button" href={suspectsCSV(id)} download>
            {w('csv')}
          </a>
        </p>
      </section>
      <Review
        activity={activity}
        list={review}
        done={() => {
          review.reload()
          void suspects.reload()
        }}
      />
      <Suspects suspects={suspects.data} reload={suspects.reload} />
    </div>
  )
}

function Summary({suspects}: {suspects?: SuspectLists}) {
  return (
    <>
      <p class="note">{w('suspects_text')}</p>
      {suspects && !suspects.requests_available && (
        <p class="banner quiet" role="status">
          <span aria-hidden="true">▲ </span>
          {w('suspects_down')}
        </p>
      )}
      {suspects?.requests_available && (
        <p class="row facts">
          <span>{w('as_of', {t: time(suspects.as_of, clock.now(), true)})}</span>
          {Object.entries(suspects.refused)
            .sort((a, b) => b[1] - a[1])
            .map(([code, n]) => (
              <span key={code}>
                {reasonName(code)} <b class="tabular">{count(n)}</b>
              </span>
            ))}
          <span>
            {w('challenges_failed')} <b class="tabular">{count(suspects.challenges.failed)}</b>
          </span>
        </p>
      )}
    </>
  )
}

function Review({activity, list, done}: {activity: Activity; list: Pages<ReviewItem>; done: () => void}) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [asking, setAsking] = useState(false)
  const [note, setNote] = useState('')
  // Orders that a reload of the list dropped are not selected any more.
  const sns = (list.items ?? []).map((o) => o.order_sn).filter((sn) => chosen.has(sn))
  const choose = (sn: string, on: boolean) => {
    const next = new Set(chosen)
    if (on) next.add(sn)
    else next.delete(sn)
    setChosen(next)
  }
  const nameOf = (sku: string) => activity.items.find((i) => i.sku_id === sku)?.name ?? sku
  return (
    <section class="stack">
      <h2>{w('review')}</h2>
      <p class="note">{w('review_text')}</p>
      <p class="row">
        <button
          class="danger"
          disabled={sns.length === 0 || sns.length > MOST}
          aria-hidden={asking ? 'true' : undefined}
          onClick={() => (setNote(''), setAsking(true))}
        >
          {w('cancel_orders')}
        </button>
        <span class="muted">{w('selected', {n: sns.length})}</span>
        <span role="status">{note}</span>
      </p>
      {asking && (
        <Dialog title={w('cancel_ask', {n: sns.length})} onClose={() => setAsking(false)}>
          <CancelForm
            id={activity.activity_id}
            sns={sns}
            close={() => setAsking(false)}
            done={(results) => {
              setAsking(false)
              setChosen(new Set())
              const n = (outcome: CancelResult['outcome']) => results.filter((r) => r.outcome === outcome).length
              const [cancelled, refunding] = [n('cancelled'), n('refunding')]
              setNote(w('cancel_done', {cancelled, refunding, other: results.length - cancelled - refunding}))
              done()
            }}
          />
        </Dialog>
      )}
      <Table
        label={w('review')}
        rows={list.items}
        rowKey={(o) => o.order_sn}
        empty={w('review_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('select'),
            cell: (o) => (
              <input
                type="checkbox"
                aria-label={w('select_order', {order: o.order_sn})}
                checked={chosen.has(o.order_sn)}
                onChange={(e) => choose(o.order_sn, e.currentTarget.checked)}
              />
            ),
          },
          {title: w('order_sn'), cell: (o) => <span class="tabular">{o.order_sn}</span>},
          {title: w('user'), cell: (o) => o.user_id},
          {title: w('causes'), cell: (o) => causeNames(o.causes)},
          {title: w('state'), cell: (o) => `${w(o.state)}${o.order_state ? ` · ${w(o.order_state)}` : ''}`},
          {title: w('lines'), cell: (o) => o.lines.map((l) => `${nameOf(l.sku_id)} × ${l.qty}`).join(', ')},
          {
            title: w('amount'),
            number: true,
            cell: (o) => (typeof o.amount === 'number' ? money(o.amount, o as Currency) : w('none')),
          },
        ]}
      />
    </section>
  )
}

// CancelForm cancels orders of a sale. text says what will happen to them, label is that of the button that does it.
export function CancelForm({
  id,
  sns,
  text = w('cancel_text'),
  label = w('cancel_orders'),
  close,
  done,
}: {
  id: string
  sns: string[]
  text?: string
  label?: string
  close: () => void
  done: (results: CancelResult[]) => void
}) {
  useForm()
  // The list behind the dialog may be read again: what was asked stays.
  const [orders] = useState(sns)
  const [reason, setReason] = useState('')
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const [missing, setMissing] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    setMissing(!reason.trim())
    if (!reason.trim()) return
    setBusy(true)
    const r = await cancelReviewed(id, {order_sns: orders, reason: reason.trim()})
    setBusy(false)
    if (r.ok) return done(r.data.results)
    setWrong(sentence(r))
  }
  return (
    <form class="stack" onSubmit={submit} noValidate>
      <p>{text}</p>
      <Field label={w('reason')} name="cancel-reason" error={missing ? w('invalid_request') : undefined}>
        {(ids) => <input {...ids} maxLength={200} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />}
      </Field>
      <Wrong text={wrong} />
      <div class="dialog-actions">
        <button type="button" onClick={close}>
          {w('cancel')}
        </button>
        <button class="danger" type="submit" aria-disabled={busy}>
          {label}
        </button>
      </div>
    </form>
  )
}

function Suspects({suspects, reload}: {suspects?: SuspectLists; reload: () => void}) {
  if (!suspects) return null
  return (
    <>
      <section>
        <h2>{w('suspect_users')}</h2>
        <Table
          label={w('suspect_users')}
          rows={suspects.users}
          rowKey={(u) => u.user_id}
          empty={w('suspect_users_none')}
          reload={reload}
          columns={[
            {title: w('user'), cell: (u) => u.user_id},
            {title: w('cause_early'), number: true, cell: (u) => count(u.early)},
            {title: w('cause_rate_limited'), number: true, cell: (u) => count(u.rate_limited)},
            {title: w('cause_failed_challenges'), number: true, cell: (u) => count(u.failed_challenges)},
            {title: w('cause_voided_paths'), number: true, cell: (u) => count(u.voided_paths)},
            {title: w('expired_holds'), number: true, cell: (u) => count(u.expired_holds)},
            {title: w('cancelled_holds'), number: true, cell: (u) => count(u.cancelled_holds)},
            {title: w('purchases'), number: true, cell: (u) => count(u.purchases)},
            {title: w('causes'), cell: (u) => causeNames(u.causes)},
          ]}
        />
      </section>
      <section>
        <h2>{w('suspect_addresses')}</h2>
        <Table
          label={w('suspect_addresses')}
          rows={suspects.addresses}
          rowKey={(a) => a.address}
          empty={w('suspect_addresses_none')}
          reload={reload}
          columns={[
            {title: w('address'), cell: (a) => <span class="tabular">{a.address}</span>},
            {title: w('cause_early'), number: true, cell: (a) => count(a.early)},
            {title: w('cause_rate_limited'), number: true, cell: (a) => count(a.rate_limited)},
            {title: w('cause_failed_challenges'), number: true, cell: (a) => count(a.failed_challenges)},
            {title: w('cause_voided_paths'), number: true, cell: (a) => count(a.voided_paths)},
          ]}
        />
      </section>
    </>
  )
}
