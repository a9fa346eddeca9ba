// Renders a document from signals.
//
// The whole tree is rendered again when a signal changes that the last rendering read. The trees are small. It happens
// in a microtask: a signal may change while Preact renders, and a rendering cannot begin within another.

import {effect} from './signal.ts'
import {render, type VNode} from 'preact'
import {useEffect} from 'preact/hooks'

export function mount(tree: () => VNode): void {
  const root = document.getElementById('app') as HTMLElement
  let queued = false
  let last: Element | undefined // that had the focus
  addEventListener('focusin', (event) => (last = event.target as Element))
  effect(
    () => {
      render(tree(), root)
      // The focus goes on to what took the place of its element.
      if (last?.isConnected !== false || document.activeElement !== document.body) return
      const next = document.querySelector<HTMLElement>('.action button, .action a') ?? document.getElementById('main')
      next?.focus({preventScroll: true})
    },
    (run) => {
      if (queued) return
      queued = true
      queueMicrotask(() => {
        queued = false
        run()
      })
    },
  )
}

// useEffectOf runs fn now and whenever a signal that it read has changed.
export function useEffectOf(fn: () => void): void {
  useEffect(() => effect(fn), [])
}
