import {useState} from 'preact/hooks'
import {cancelOrder} from '../../api/orders.ts'
import type {Order} from '../../api/types.ts'
import {lost} from '../../base/app.ts'
import {Dialog} from '../../base/dialog.tsx'
import {Wrong} from '../../base/parts.tsx'
import {say} from '../../base/problem.ts'
import {w} from '../words.ts'
import {own} from './words.ts'

interface Props {
  order_sn: string
  onChange: (order?: Order) => void
  onClose: () => void
}

export function CancelDialog({order_sn, onChange, onClose}: Props) {
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const confirm = async () => {
    if (busy) return
    setBusy(true)
    const r = await cancelOrder(order_sn)
    setBusy(false)
    if (r.ok) {
      onClose()
      onChange(r.data)
      return
    }
    if (r.code === 'unauthenticated') lost()
    setWrong(say(r))
    if (r.code === 'state_conflict') onChange()
  }
  return (
    <Dialog title={own('cancel_ask')} onClose={onClose}>
      <p>{own('cancel_hint')}</p>
      <Wrong text={wrong} />
      <div class="dialog-actions">
        <button onClick={onClose}>{own('cancel_keep')}</button>
        <button class="danger" aria-disabled={busy} onClick={() => void confirm()}>
          {w('cancel_order')}
        </button>
      </div>
    </Dialog>
  )
}
