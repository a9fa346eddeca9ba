// Server time. It is measured against GET /v1/time and carried on by the monotonic clock, so that neither a wrong
// device clock nor a change of it moves the start of a sale.

export interface Sample {
  offset: number // server time minus monotonic time, ms
  rtt: number // ms; half of it bounds the error of offset
  at: number // monotonic time of the sample, ms
}

const KEPT = 5
const DRIFT_MS_PER_S = 0.1 // 100 ppm, more than a working oscillator has

// best returns the sample whose error bound is smallest now, drift since its measurement included.
export function best(samples: readonly Sample[], now: number): Sample | undefined {
  const error = (s: Sample) => s.rtt / 2 + ((now - s.at) / 1000) * DRIFT_MS_PER_S
  let found: Sample | undefined
  for (const s of samples) if (!found || error(s) < error(found)) found = s
  return found
}

// jumped reports that a sample contradicts the others: the monotonic clock stopped meanwhile, as in a suspended
// machine.
export function jumped(old: Sample, fresh: Sample): boolean {
  const bound = old.rtt / 2 + fresh.rtt / 2 + (Math.abs(fresh.at - old.at) / 1000) * DRIFT_MS_PER_S + 20
  return Math.abs(old.offset - fresh.offset) > bound
}

export interface ClockSource {
  ask: () => Promise<number | undefined> // server time in ms, or undefined if there is none
  now: () => number // monotonic, ms
}

export class Clock {
  private samples: Sample[] = []
  private listeners = new Set<() => void>()
  private running: Promise<void> | undefined

  constructor(private source: ClockSource, private fallback: () => number = Date.now) {}

  // synced reports whether server time is known; until then now returns the device's time.
  get synced(): boolean {
    return this.samples.length > 0
  }

  // now is the server time in ms.
  now(): number {
    const mono = this.source.now()
    const s = best(this.samples, mono)
    return s ? mono + s.offset : this.fallback()
  }

  onSync(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  // sync takes n samples, one after the other. Calls at the same time share one run.
  sync(n: number): Promise<void> {
    this.running ??= this.run(n).finally(() => {
      this.running = undefined
    })
    return this.running
  }

  private async run(n: number): Promise<void> {
    for (let i = 0; i < n; i++) {
      const fresh = await this.sample()
      if (!fresh) return
      const known = best(this.samples, fresh.at)
      if (known && jumped(known, fresh)) {
        this.samples = []
        n = KEPT
      }
      this.samples = [...this.samples, fresh].slice(-KEPT)
      for (const listener of this.listeners) listener()
    }
  }

  private async sample(): Promise<Sample | undefined> {
    const before = this.source.now()
    const server = await this.source.ask()
    if (server === undefined) return undefined
    const after = this.source.now()
    return {offset: server - (before + after) / 2, rtt: after - before, at: after}
  }
}
