// What a form shows after a change that another editor forestalled, or that the state of the object refused.

import type {Failure, Result} from '../api/client.ts'
import {refusedState, sentence, w} from './words.ts'

export interface Difference {
  label: string
  yours: string
  theirs: string
}

type Texts = Record<string, string>

// differences lists the fields whose typed value is not the stored one. A field that one side lacks counts as empty.
export function differences(labels: Texts, yours: Texts, theirs: Texts): Difference[] {
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

// settle reads an object again after a refused change of it. It returns the message for the form, and the fresh object
// if another editor changed it meanwhile.
export async function settle<T extends {version: number}>(
  f: Failure,
  known: T,
  read: () => Promise<Result<T>>,
): Promise<{message: string; fresh?: T}> {
  if (f.code !== 'state_conflict') return {message: sentence(f)}
  const r = await read()
  if (!r.ok) return {message: w('state_changed')}
  return r.data.version === known.version ? {message: refusedState(f)} : {message: sentence(f), fresh: r.data}
}
