// The address of the page as a signal, and links that change it without a reload.

import {signal} from './signal.ts'

export const here = signal(new URL(location.href))

const listeners = new Set<() => void>()

// onMove calls fn after each change of the path, for the focus.
export const onMove = (fn: () => void) => void listeners.add(fn)

function changed(): void {
  const before = here.value
  here.value = new URL(location.href)
  if (before.pathname !== here.value.pathname) for (const fn of listeners) fn()
}

let ask: (() => boolean) | undefined

const unload = (event: Event) => event.preventDefault()

// keep makes leaving this path depend on fn, which asks, until the returned function is called.
export function keep(fn: () => boolean): () => void {
  ask = fn
  addEventListener('beforeunload', unload)
  return () => {
    if (ask !== fn) return
    ask = undefined
    removeEventListener('beforeunload', unload)
  }
}

// The state of each entry of the history is its number, so that a declined move is taken back in its direction.
let entry = (history.state as number | null) ?? 0

addEventListener('popstate', () => {
  // A declined move was taken back, or a link to a part of this page made an entry without a number.
  if (location.pathname + location.search === here.value.pathname + here.value.search) {
    entry = (history.state as number | null) ?? entry
    return history.replaceState(entry, '')
  }
  const to = (history.state as number | null) ?? 0
  if (ask && !ask()) return history.go(entry - to || 1)
  entry = to
  changed()
})

// go moves to an address of this document. It returns false if leaving the present one was declined.
export function go(to: string, replace = false): boolean {
  if (!replace && ask && !ask()) return false
  if (replace) history.replaceState(entry, '', to)
  else history.pushState(++entry, '', to)
  changed()
  return true
}

// setQuery changes parameters of the address in place; empty ones are removed.
export function setQuery(values: Record<string, string>): void {
  const url = new URL(location.href)
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value)
    else url.searchParams.delete(name)
  }
  go(url.pathname + url.search, true)
}

// followLink handles a click on a link of this document.
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const link = event.currentTarget as HTMLAnchorElement
  if (link.target || link.origin !== location.origin) return
  event.preventDefault()
  if (go(link.pathname + link.search)) scrollTo(0, 0)
}
