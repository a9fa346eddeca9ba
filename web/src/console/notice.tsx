// The notice of a sale: a line to its buyers, which may change while it is open.

import {useState} from 'preact/hooks'
import {patchActivity} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {lost} from '../base/app.ts'
import {Dialog} from '../base/dialog.tsx'
import {count, stamp} from '../base/format.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {fieldErrors} from '../base/problem.ts'
import {useForm} from './parts.tsx'
import {sentence, w} from './words.ts'

const MOST = 200 // characters

export function NoticeButton({activity, done}: {activity: Activity; done: () => void}) {
  const [open, setOpen] = useState(false)
  const close = () => setOpen(false)
  return (
    <>
      <button aria-hidden={open ? 'true' : undefined} onClick={() => setOpen(true)}>
        {w('notice')}
      </button>
      {open && (
        <Dialog title={w('notice')} onClose={close}>
          <Form activity={activity} close={close} done={done} />
        </Dialog>
      )}
    </>
  )
}

function Form({activity, close, done}: {activity: Activity; close: () => void; done: () => void}) {
  const [text, setText] = useState(activity.notice?.text ?? '')
  useForm(text !== (activity.notice?.text ?? ''))
  const [busy, setBusy] = useState(false)
  const [message, setMessage] = useState('')
  const [error, setError] = useState('')
  const length = [...text].length
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    setBusy(true)
    const r = await patchActivity(activity.activity_id, {notice: text.trim()}, activity.version)
    setBusy(false)
    if (r.ok) {
      close()
      return done()
    }
    if (r.code === 'unauthenticated') lost()
    setError(fieldErrors(r).notice ?? '')
    setMessage(sentence(r))
    if (r.code === 'state_conflict') done() // the next press is for the version that is read now
  }
  return (
    <form class="stack" onSubmit={submit} noValidate>
      <p>{w('notice_text')}</p>
      <Field
        label={w('notice_label')}
        name="notice"
        hint={w('characters', {n: count(length), most: count(MOST)})}
        error={error || (length > MOST ? w('too_long') : '')}
      >
        {(ids) => <input {...ids} dir="auto" value={text} onInput={(e) => setText(e.currentTarget.value)} />}
      </Field>
      <Wrong text={message} />
      <div class="dialog-actions">
        <button type="button" onClick={close}>
          {w('cancel')}
        </button>
        <button class="primary" type="submit" aria-disabled={busy || length > MOST}>
          {w('save')}
        </button>
      </div>
    </form>
  )
}

// NoticeLine is the notice as buyers read it now.
export function NoticeLine({activity: {notice}}: {activity: Activity}) {
  return (
    <div aria-live="polite">
      {notice && (
        <p class="note">
          {w('notice')}: <b dir="auto">{notice.text}</b> <span class="muted small">{stamp(notice.at)}</span>
        </p>
      )}
    </div>
  )
}
