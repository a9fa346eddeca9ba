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

addEventListener('popstate', () => {
  if (ask && !ask()) history.pushState(null, '', here.value)
  else changed()
})

export function go(to: string, replace = false): void {
  if (!replace && ask && !ask()) return
  if (replace) history.replaceState(null, '', to)
  else history.pushState(null, '', to)
  changed()
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
  go(link.pathname + link.search)
  scrollTo(0, 0)
}
