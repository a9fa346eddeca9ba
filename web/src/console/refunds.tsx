// Refunds that wait for an operator.

import {useRef, useState} from 'preact/hooks'
import type {Failure} from '../api/client.ts'
import {listRefunds, retryRefund, settleRefund} from '../api/merchant.ts'
import type {FailedRefund} from '../api/types.ts'
import {lost} from '../base/app.ts'
import {Dialog} from '../base/dialog.tsx'
import {stamp} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {fieldErrors} from '../base/problem.ts'
import {PaymentDifferences} from './differences.tsx'
import {RefundState} from './order.tsx'
import {Confirm, Head, Table, useForm, usePages} from './parts.tsx'
import {reasonName, refusedState, sentence, w} from './words.ts'

export function RefundsPage() {
  const list = usePages(listRefunds, [])
  const [note, setNote] = useState('')
  const done = (text: string) => {
    setNote(text)
    list.reload()
  }
  return (
    <>
      <Head title={w('refunds')} />
      <section class="stack">
        <p class="note">{w('refunds_text')}</p>
        <p role="status">{note}</p>
        <Table
          label={w('refunds')}
          rows={list.items}
          rowKey={(r) => r.refund_id}
          empty={w('refunds_none')}
          more={list.next ? list.more : undefined}
          failure={list.failure}
          reload={list.reload}
          columns={[
            {
              title: w('order_sn'),
              cell: (r) => (
                <>
                  <span class="tabular">{r.order_sn}</span>
                  <br />
                  <span class="muted small">
                    <time dateTime={r.created_at}>{stamp(r.created_at)}</time>
                    <br />
                    {reasonName(r.reason)} · {r.provider} <span class="tabular">{r.refund_id}</span>
                  </span>
                </>
              ),
            },
            {title: w('amount'), number: true, cell: (r) => money(r.amount, r)},
            {
              title: w('state'),
              cell: (r) => (
                <>
                  <RefundState refund={r} />
                  <p class="muted small">
                    {w('refund_attempts')} {r.attempts}
                    {r.last_error && <span dir="auto"> · {r.last_error}</span>}
                  </p>
                </>
              ),
            },
            {
              title: w('actions'),
              cell: (r) =>
                r.state === 'refund_failed' && (
                  <div class="row">
                    <Retry refund={r} done={done} />
                    <Settle refund={r} done={done} reload={list.reload} />
                  </div>
                ),
            },
          ]}
        />
      </section>
      <PaymentDifferences />
    </>
  )
}

const said = (r: FailedRefund) => ({order: r.order_sn, amount: money(r.amount, r)})

function Retry({refund, done}: {refund: FailedRefund; done: (text: string) => void}) {
  const {amount} = said(refund)
  const outcome = useRef('')
  const run = async () => {
    const r = await retryRefund(refund.refund_id)
    if (r.ok) {
      const word = ({refund_pending: 'refund_retried', refunded: 'refund_made', refund_failed: 'refund_still'} as const)[r.data.state]
      outcome.current = w(word, said(r.data))
    }
    return r
  }
  return (
    <Confirm label={w('refund_retry')} title={w('refund_retry_ask', {amount})} run={run} done={() => done(outcome.current)}>
      <p>{w('refund_retry_text')}</p>
    </Confirm>
  )
}

function Settle({refund, done, reload}: {refund: FailedRefund; done: (text: string) => void; reload: () => void}) {
  const [open, setOpen] = useState(false)
  const close = (changed: boolean) => {
    setOpen(false)
    if (changed) reload()
  }
  return (
    <>
      <button class="danger" aria-hidden={open ? 'true' : undefined} onClick={() => setOpen(true)}>
        {w('refund_settle')}
      </button>
      {open && (
        <Dialog title={w('refund_settle_ask', {amount: said(refund).amount})} onClose={() => close(true)}>
          <SettleForm
            refund={refund}
            close={close}
            done={(text) => {
              setOpen(false)
              done(text)
            }}
          />
        </Dialog>
      )}
    </>
  )
}

interface SettleProps {
  refund: FailedRefund
  close: (changed: boolean) => void // whether the refund was changed by another call
  done: (text: string) => void
}

function SettleForm({refund, close, done}: SettleProps) {
  const [reference, setReference] = useState('')
  const [reason, setReason] = useState('')
  useForm(reference + reason !== '')
  const [errors, setErrors] = useState<Record<string, string>>({})
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const [changed, setChanged] = useState(false)
  const refused = (f: Failure) => {
    if (f.code === 'unauthenticated') lost()
    setErrors(fieldErrors(f))
    // The server's sentence says whether the provider has made the refund: money may have been returned twice. The list
    // is read after it: without its row there would be no dialog.
    const conflict = f.code === 'state_conflict'
    setWrong(conflict ? refusedState(f) : sentence(f))
    if (conflict) setChanged(true)
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    const body = {reference: reference.trim(), reason: reason.trim()}
    const missing = Object.fromEntries(
      Object.entries(body).flatMap(([name, value]) => (value ? [] : [[name, w('invalid_request')]])),
    )
    setErrors(missing)
    if (Object.keys(missing).length) return
    setBusy(true)
    const r = await settleRefund(refund.refund_id, body)
    setBusy(false)
    if (!r.ok) return refused(r)
    done(w('refund_settled', {...said(r.data), reference: r.data.settled?.reference ?? body.reference}))
  }
  return (
    <form class="stack" onSubmit={submit} noValidate>
      <p>{w('refund_settle_text', {amount: said(refund).amount})}</p>
      <p class="muted tabular">{refund.order_sn}</p>
      <Field label={w('refund_reference')} name="settle-reference" error={errors.reference}>
        {(ids) => <input {...ids} maxLength={128} value={reference} onInput={(e) => setReference(e.currentTarget.value)} />}
      </Field>
      <Field label={w('reason')} name="settle-reason" error={errors.reason}>
        {(ids) => <input {...ids} maxLength={255} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />}
      </Field>
      <Wrong text={wrong} />
      <div class="dialog-actions">
        <button type="button" onClick={() => close(changed)}>
          {w('cancel')}
        </button>
        <button class="danger" type="submit" aria-disabled={busy}>
          {w('refund_settle')}
        </button>
      </div>
    </form>
  )
}
