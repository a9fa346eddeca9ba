// What a form shows after a refused change: fields, or the values that differ from those of another editor.

import type {Failure} from '../api/client.ts'
import {w} from './words.ts'

export interface Difference {
  label: string
  yours: string
  theirs: string
}

// differences lists the fields whose typed value is not the stored one.
export function differences(
  labels: Record<string, string>,
  yours: Record<string, string>,
  theirs: Record<string, string>,
): Difference[] {
  return Object.keys(labels)
    .filter((key) => (yours[key] ?? '') !== (theirs[key] ?? ''))
    .map((key) => ({label: labels[key] as string, yours: yours[key] ?? '', theirs: theirs[key] ?? ''}))
}

export function Conflict({list}: {list: Difference[]}) {
  return (
    <div class="note" role="alert">
      <p>
        <span aria-hidden="true">▲ </span>
        <b>{w('conflict')}</b>
      </p>
      {list.length > 0 && (
        <>
          <p>{w('conflict_yours')}</p>
          <ul>
            {list.map((d) => (
              <li key={d.label}>
                {d.label}: <b>{d.yours || w('none')}</b> ({d.theirs || w('none')})
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  )
}

export const stale = (f: Failure) => f.status === 412
