// A draft that is made of a sale, and one that is deleted.

import {useRef, useState} from 'preact/hooks'
import {deleteActivity, duplicateActivity} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {lost} from '../base/app.ts'
import {Wrong} from '../base/parts.tsx'
import {newKey} from '../base/random.ts'
import {go} from '../base/route.ts'
import {Confirm} from './parts.tsx'
import {refusedItem, refusedState, sentence, w} from './words.ts'

// DuplicateButton opens the form of the draft that it makes. A press that is repeated makes no second draft.
export function DuplicateButton({activity}: {activity: Activity}) {
  const [key, setKey] = useState(newKey)
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const run = async () => {
    if (busy) return
    setBusy(true)
    setWrong('')
    const r = await duplicateActivity(activity.activity_id, key)
    if (r.ok) return go(`/console/sales/${encodeURIComponent(r.data.activity_id)}/edit`)
    setBusy(false)
    if (r.code === 'unauthenticated') lost()
    if (r.code === 'not_found') setKey(newKey()) // the draft of an earlier press may have been deleted
    setWrong(refusedItem(r, activity.items) || (r.code === 'state_conflict' ? refusedState(r) : sentence(r)))
  }
  return (
    <>
      <button aria-disabled={busy} onClick={() => void run()}>
        {w('duplicate')}
      </button>
      <Wrong text={wrong} />
    </>
  )
}

// DeleteButton deletes a draft, if it is still the one that is shown.
export function DeleteButton({activity, gone, changed}: {activity: Activity; gone: () => void; changed: () => void}) {
  const {activity_id: id, title, version} = activity
  const deleted = useRef(false)
  const run = async () => {
    const r = await deleteActivity(id, version)
    deleted.current = r.ok
    return r
  }
  return (
    <Confirm
      label={w('delete')}
      title={w('delete_ask', {title})}
      danger
      run={run}
      done={() => (deleted.current ? gone() : changed())}
    >
      <p>{w('delete_text')}</p>
    </Confirm>
  )
}
