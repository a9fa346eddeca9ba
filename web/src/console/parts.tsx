// Parts of the console's views: reading, lists, confirmation.

import type {ComponentChildren} from 'preact'
import {useEffect, useRef, useState} from 'preact/hooks'
import type {Failure, Result} from '../api/client.ts'
import type {Page} from '../api/types.ts'
import {config, lost} from '../base/app.ts'
import {Dialog} from '../base/dialog.tsx'
import {clockFace} from '../base/format.ts'
import {Badge, Field, Skeleton, Wrong} from '../base/parts.tsx'
import {keep, setQuery} from '../base/route.ts'
import {signal, untracked} from '../base/signal.ts'
import {sentence, w} from './words.ts'

// Head is the heading of a view and the title of the document.
export function Head({title, children}: {title: string; children?: ComponentChildren}) {
  useEffect(() => {
    document.title = `${title} · ${config.value.brand.name}`
  }, [title])
  return (
    <div class="head">
      <h1 dir="auto">{title}</h1>
      {children && <div class="row">{children}</div>}
    </div>
  )
}

// useRead calls read now, and again by reload. A newer call takes the place of one that still waits.
export function useRead<T>(read: () => Promise<Result<T>>, deps: unknown[]) {
  const [data, setData] = useState<T>()
  const [failure, setFailure] = useState<Failure>()
  const turn = useRef(0)
  const reload = async (): Promise<boolean> => {
    const mine = ++turn.current
    const r = await read()
    if (mine !== turn.current) return r.ok
    if (r.ok) setData(r.data)
    else if (r.code === 'unauthenticated') lost()
    setFailure(r.ok ? undefined : r)
    return r.ok
  }
  useEffect(() => {
    setData(undefined)
    void reload()
    return () => {
      turn.current++
    }
  }, deps)
  return {data, setData, failure, reload}
}

// Pages is a list of which the first pages are loaded.
export interface Pages<T> {
  items?: T[]
  next?: string // the cursor of the next page
  failure?: Failure
  more: () => void
  reload: () => void
}

// usePages reads a list page by page.
export function usePages<T>(read: (cursor?: string) => Promise<Result<Page<T>>>, deps: unknown[]): Pages<T> {
  const [items, setItems] = useState<T[]>()
  const [next, setNext] = useState<string>()
  const [failure, setFailure] = useState<Failure>()
  const turn = useRef(0)
  const load = async (cursor?: string) => {
    const mine = ++turn.current
    const r = await read(cursor)
    if (mine !== turn.current) return
    setFailure(r.ok ? undefined : r)
    if (!r.ok) {
      if (r.code === 'unauthenticated') lost()
      return
    }
    setItems((old) => (cursor && old ? [...old, ...r.data.items] : r.data.items))
    setNext(r.data.next_cursor)
  }
  useEffect(() => {
    setItems(undefined)
    void load()
    return () => {
      turn.current++
    }
  }, deps)
  return {items, next, failure, more: () => void load(next), reload: () => void load()}
}

export function Failed({failure, retry}: {failure?: Failure; retry: () => void}) {
  return failure ? (
    <p class="banner quiet" role="alert">
      <span aria-hidden="true">▲ </span>
      {sentence(failure)}{' '}
      <button class="plain" onClick={retry}>
        {w('retry')}
      </button>
    </p>
  ) : null
}

// forms is the number of forms that are open. While there is one, the page stays when the session ends: what was typed
// would be lost.
export const forms = signal(0)

// useForm counts the form that calls it. While it is dirty, leaving it is confirmed first, until the returned function
// says that it is saved.
export function useForm(dirty = false): () => void {
  useEffect(() => {
    forms.value = untracked(() => forms.value) + 1
    return () => {
      forms.value = untracked(() => forms.value) - 1
    }
  }, [])
  const kept = useRef<(() => void) | undefined>(undefined)
  useEffect(() => {
    if (dirty) kept.current = keep(() => confirm(w('leave_ask')))
    return () => kept.current?.()
  }, [dirty])
  return () => kept.current?.()
}

// timeText is a remaining time with its days.
export function timeText(ms: number): string {
  const {days, face} = clockFace(ms)
  return days ? `${w('days', {n: days})} ${face}` : face
}

// focusWrong moves the focus to the first refused field of a form, once its errors are shown.
export function focusWrong(form: HTMLFormElement): void {
  requestAnimationFrame(() => form.querySelector<HTMLElement>('[aria-invalid=true]')?.focus())
}

// SearchField searches a list by q in the address. Its children are other fields, which act by themselves.
export function SearchField({label, q, children}: {label: string; q: string; children?: ComponentChildren}) {
  const submit = (event: Event) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    setQuery({q: String(form.get('q') ?? '').trim()})
  }
  return (
    <form class="filter-form" role="search" onSubmit={submit}>
      <Field label={label} name="q">
        {(ids) => <input key={q} {...ids} type="search" dir="auto" defaultValue={q} maxLength={100} />}
      </Field>
      <button type="submit">{w('search')}</button>
      {children}
    </form>
  )
}

interface TableProps<T> {
  label: string
  columns: {title: string; number?: boolean; cell: (row: T) => ComponentChildren}[]
  rows?: T[]
  rowKey: (row: T) => string
  rowClass?: (row: T) => string
  empty: string
  more?: () => void
  failure?: Failure
  reload: () => void
}

// Table is a list with its count, its empty state and the way to more rows.
export function Table<T>({label, columns, rows, rowKey, rowClass, empty, more, failure, reload}: TableProps<T>) {
  const acts = columns.at(-1)?.title === w('actions')
  return (
    <>
      <Failed failure={failure} retry={reload} />
      {!rows ? (
        !failure && <Skeleton label={w('loading')} />
      ) : rows.length === 0 ? (
        <p class="empty">{empty}</p>
      ) : (
        <>
          <div class={acts ? 'scroll card pinned' : 'scroll card'} tabIndex={0} role="region" aria-label={label}>
            <table>
              <caption class="hidden">{label}</caption>
              <thead>
                <tr>
                  {columns.map((c) => (
                    <th key={c.title} scope="col" class={c.number ? 'number' : ''}>
                      {c.title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={rowKey(row)} class={rowClass?.(row)}>
                    {columns.map((c) => (
                      <td key={c.title} class={c.number ? 'number' : ''}>
                        {c.cell(row)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div class="row table-foot">
            <span class="muted small">{w(more ? 'rows_more' : 'rows', {n: rows.length})}</span>
            {more && <button onClick={more}>{w('more')}</button>}
          </div>
        </>
      )}
    </>
  )
}

export function StateBadge({state}: {state: string}) {
  const tones = {draft: 'quiet', scheduled: 'accent', open: 'good', paused: 'warning', ended: 'quiet'} as const
  const known = state as keyof typeof tones
  return <Badge tone={tones[known] ?? 'quiet'}>{tones[known] ? w(`state_${known}`) : state}</Badge>
}

interface ConfirmProps {
  label: string
  title: string
  children: ComponentChildren
  danger?: boolean
  primary?: boolean
  run: () => Promise<Result<unknown>>
  done: () => void
  say?: (f: Failure) => string // words a refusal; '' for the common wording
}

// Confirm is a button that says its consequence in a dialog before it acts. While the dialog is open, the button
// behind it is hidden from assistive technology, as both have the same name.
export function Confirm({label, title, children, danger, primary, run, done, say}: ConfirmProps) {
  const [open, setOpen] = useState(false)
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const act = async () => {
    if (busy) return
    setBusy(true)
    const r = await run()
    setBusy(false)
    if (r.ok) {
      setOpen(false)
      done()
      return
    }
    if (r.code === 'unauthenticated') lost()
    setWrong(say?.(r) || sentence(r))
    if (r.code === 'state_conflict') done()
  }
  return (
    <>
      <button
        class={primary ? 'primary' : danger ? 'danger' : ''}
        aria-hidden={open ? 'true' : undefined}
        onClick={() => (setWrong(''), setOpen(true))}
      >
        {label}
      </button>
      {open && (
        <Dialog title={title} onClose={() => setOpen(false)}>
          {children}
          <Wrong text={wrong} />
          <div class="dialog-actions">
            <button onClick={() => setOpen(false)}>{w('cancel')}</button>
            <button class={danger ? 'danger' : 'primary'} aria-disabled={busy} onClick={() => void act()}>
              {label}
            </button>
          </div>
        </Dialog>
      )}
    </>
  )
}
