// Values that run the effects that read them when they change, with the names of @preact/signals (signal, computed,
// effect, untracked). That package with its core takes 2.7 of the 30 KB that the buyer's document may have; this module
// takes 0.3. It has no batches: an effect runs at each change. A computed value is evaluated at each read.

export interface Signal<T> {
  value: T
}

interface Effect {
  run: () => void
  sources: Set<Set<Effect>>
}

let current: Effect | undefined

export function signal<T>(value: T): Signal<T> {
  const readers = new Set<Effect>()
  return {
    get value() {
      if (current) {
        readers.add(current)
        current.sources.add(readers)
      }
      return value
    },
    set value(next) {
      if (Object.is(next, value)) return
      value = next
      for (const reader of [...readers]) if (readers.has(reader)) reader.run()
    },
  }
}

export const computed = <T>(fn: () => T): {readonly value: T} => ({
  get value() {
    return fn()
  },
})

export function untracked<T>(fn: () => T): T {
  const outer = current
  current = undefined
  try {
    return fn()
  } finally {
    current = outer
  }
}

// effect runs fn now and whenever a signal that it read last has changed. A change made by fn itself runs it once more
// after its end, at most 100 times. changed, if given, is called instead of the second and later runs; it may run the
// effect later. It returns a function that ends the effect.
export function effect(fn: () => void, changed?: (run: () => void) => void): () => void {
  let running = false
  let again = false
  const clear = () => {
    for (const readers of self.sources) readers.delete(self)
    self.sources.clear()
  }
  const self: Effect = {
    sources: new Set(),
    run: () => (changed ? changed(run) : run()),
  }
  const run = () => {
    again = true
    if (running) return
    running = true
    const outer = current
    try {
      for (let n = 0; again && n < 100; n++) {
        again = false
        clear()
        current = self
        fn()
      }
    } finally {
      current = outer
      running = false
    }
  }
  run()
  return clear
}
