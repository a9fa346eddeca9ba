import {useState} from 'preact/hooks'
import {cancelOrder} from '../../api/orders.ts'
import type {Order} from '../../api/types.ts'
import {lost} from '../../base/app.ts'
import {Dialog} from '../../base/dialog.tsx'
import {Wrong} from '../../base/parts.tsx'
import {say} from '../../base/problem.ts'
import {w} from '../words.ts'
import {useAllowance} from './allowance.ts'
import {own} from './words.ts'

interface Props {
  order_sn: string
  activity_id: string
  onChange: (order?: Order) => void
  onClose: () => void
}

export function CancelDialog({order_sn, activity_id, onChange, onClose}: Props) {
  const left = useAllowance(activity_id)?.cancellations_left
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
      <p class={left === 0 ? 'allowance warning' : 'allowance muted'} aria-live="polite">
        {left === undefined ? '' : left > 0 ? own('cancel_left', {n: left}) : own('cancel_bars')}
      </p>
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
