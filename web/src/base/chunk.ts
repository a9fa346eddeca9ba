// Parts of the page that few visits need. They are files of their own, loaded on demand.

import {getConfig} from '../api/session.ts'
import {retryDelay} from './retry.ts'
import {signal} from './signal.ts'
import {sleep} from './timer.ts'

// chunk loads a part, and again after a failure. A part of a version that is no longer served is absent: then the page
// is loaded again, unless that has happened already.
export async function chunk<T>(load: () => Promise<T>): Promise<T> {
  for (let n = 0; ; n++) {
    try {
      return await load()
    } catch {
      await sleep(retryDelay(n, 0))
      const [how] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[]
      if (how?.type !== 'reload' && (await getConfig()).ok) location.reload()
    }
  }
}

export interface Part<T> {
  load: () => Promise<T> // until it is loaded
  preload: () => Promise<void> // one attempt
  shown: () => T | undefined // begins to load it; undefined until it is loaded
}

// part is a part of the page, loaded once.
export function part<T>(load: () => Promise<T>): Part<T> {
  const loaded = signal<T | undefined>(undefined)
  let loading: Promise<T> | undefined
  const begin = () => (loading ??= chunk(load).then((it) => (loaded.value = it)))
  return {
    load: begin,
    preload: async () => {
      try {
        loaded.value ??= await load()
      } catch {
        // It is loaded when it is needed.
      }
    },
    shown: () => {
      if (!loaded.value) void begin()
      return loaded.value
    },
  }
}

// adopt adds the style of a part. The policy of the page allows no style but its own; a constructed sheet is made by the
// script.
export function adopt(css: string): void {
  if (!('adoptedStyleSheets' in document)) return
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(css)
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
}
