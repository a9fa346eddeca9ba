// What is left of a buyer's allowance in a sale, as the gate has it.

import {useEffect, useRef, useState} from 'preact/hooks'
import {listReservations} from '../../api/buying.ts'
import type {OwnPage} from '../../api/types.ts'
import {around} from '../../base/loop.ts'
import {sleep} from '../../base/timer.ts'

export type Allowance = Pick<OwnPage, 'cancellations_left' | 'barred_until'>

// useAllowance reads it, and again after a change of `since`, which the gate has a moment later. It is undefined until it
// is known: nothing waits for it.
export function useAllowance(activity_id?: string, since?: string): Allowance | undefined {
  const [allowance, setAllowance] = useState<Allowance>()
  const before = useRef(since)
  useEffect(() => {
    const changed = before.current !== undefined && before.current !== since
    before.current = since
    if (!activity_id) return
    const end = new AbortController()
    const read = async () => {
      if (changed) await sleep(around(2000), end.signal)
      if (end.signal.aborted) return
      const r = await listReservations(activity_id)
      if (r.ok && !end.signal.aborted) setAllowance(r.data)
    }
    void read()
    return () => end.abort()
  }, [activity_id, since])
  return allowance
}
