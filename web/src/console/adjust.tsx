import {useState} from 'preact/hooks'
import {adjust} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {userID} from '../base/app.ts'
import {Dialog} from '../base/dialog.tsx'
import {Field, Wrong} from '../base/parts.tsx'
import {fieldErrors} from '../base/problem.ts'
import {newKey} from '../base/random.ts'
import {retryable} from '../base/retry.ts'
import {useForm} from './parts.tsx'
import {sentence, w} from './words.ts'

export function AdjustButton({activity, done}: {activity: Activity; done: () => void}) {
  const [open, setOpen] = useState(false)
  const [note, setNote] = useState('')
  return (
    <>
      <button aria-hidden={open ? 'true' : undefined} onClick={() => (setNote(''), setOpen(true))}>
        {w('adjust')}
      </button>
      <span class="hidden" role="status">
        {note}
      </span>
      {open && (
        <Dialog title={w('adjust')} onClose={() => setOpen(false)}>
          <Form
            activity={activity}
            close={() => setOpen(false)}
            done={(text) => {
              setOpen(false)
              setNote(text)
              done()
            }}
          />
        </Dialog>
      )}
    </>
  )
}

interface Attempt {
  sku: string
  delta: string
  reason: string
  key: string
}

// unanswered holds the attempts whose outcome is unknown, by user and sale. The dialog begins with such an attempt
// when it is opened again, so that the same change is not made under a second key.
const unanswered = new Map<string, Attempt>()

function Form({activity, close, done}: {activity: Activity; close: () => void; done: (text: string) => void}) {
  useForm()
  const [owner] = useState(() => `${userID()} ${activity.activity_id}`)
  const [before] = useState(() => unanswered.get(owner))
  const [sku, setSku] = useState(before?.sku ?? activity.items[0]?.sku_id ?? '')
  const [delta, setDelta] = useState(before?.delta ?? '')
  const [reason, setReason] = useState(before?.reason ?? '')
  // The key belongs to these values: it is kept over retries, and renewed when one of them changes.
  const [key, setKey] = useState(before?.key ?? newKey)
  const [busy, setBusy] = useState(false)
  const [message, setMessage] = useState(before ? w('waiting_retry') : '')
  const [errors, setErrors] = useState<Record<string, string>>({})
  const change = (set: (value: string) => void) => (e: {currentTarget: {value: string}}) => {
    set(e.currentTarget.value)
    setKey(newKey())
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    const n = Number(delta)
    const wrong: Record<string, string> = {}
    if (!/^[+-]?\d+$/.test(delta.trim()) || n === 0) wrong.delta = w('invalid_request')
    if (!reason.trim()) wrong.reason = w('invalid_request')
    setErrors(wrong)
    if (Object.keys(wrong).length) return
    setBusy(true)
    unanswered.set(owner, {sku, delta, reason, key})
    const r = await adjust(activity.activity_id, {sku_id: sku, delta: n, reason: reason.trim()}, key)
    setBusy(false)
    // A lost session says nothing of an attempt before it.
    const known = r.ok || !(retryable(r) || r.code === 'unauthenticated')
    if (known && unanswered.get(owner)?.key === key) unanswered.delete(owner)
    if (r.ok) return done(w('adjusted', {delta: n > 0 ? `+${n}` : n}))
    setErrors(fieldErrors(r))
    setMessage(retryable(r) ? w('waiting_retry') : sentence(r))
  }
  return (
    <form class="stack" onSubmit={submit} noValidate>
      <p>{w('adjust_text')}</p>
      <Field label={w('sku')} name="adjust-sku" error={errors.sku_id}>
        {(ids) => (
          <select {...ids} value={sku} onChange={change(setSku)}>
            {activity.items.map((i) => (
              <option key={i.sku_id} value={i.sku_id}>
                {i.name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={w('delta')} name="adjust-delta" error={errors.delta}>
        {(ids) => <input {...ids} inputMode="text" placeholder="+20" value={delta} onInput={change(setDelta)} />}
      </Field>
      <Field label={w('reason')} name="adjust-reason" error={errors.reason}>
        {(ids) => <input {...ids} maxLength={200} value={reason} onInput={change(setReason)} />}
      </Field>
      <Wrong text={message} />
      <div class="dialog-actions">
        <button type="button" onClick={close}>
          {w('cancel')}
        </button>
        <button class="primary" type="submit" aria-disabled={busy}>
          {w('apply')}
        </button>
      </div>
    </form>
  )
}
