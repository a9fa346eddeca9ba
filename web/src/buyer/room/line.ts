// The line before one ticket: how many are ahead, how long that takes, and what is announced of it.

import type {RoomState} from '../../api/types.ts'

// SPEAK_MS is the least time between two announcements, and CALM_MS the longest: the status line is read aloud at each
// change. STALL_MS is the time after which a line that does not move is called so.
const SPEAK_MS = 10_000
const CALM_MS = 45_000
const STALL_MS = 15_000
const MEASURE_MS = 10_000

export class Line {
  first = 0 // ahead at the first read
  ahead = 0
  estimateS = 0
  stalled = false
  spoken = {ahead: 0, estimateS: 0}
  private spokenAt = 0
  private from = {at: 0, ahead: 0} // start of the measurement of the pace
  private moved = 0 // when ahead was last seen to change, ms

  reset(): void {
    this.first = this.ahead = this.spokenAt = this.from.at = this.moved = 0
    this.stalled = false
  }

  // add takes a read of the ticket at server time now (ms).
  add(state: RoomState, now: number, startsAt: number): void {
    if (state.state !== 'waiting' || state.ahead === undefined) return this.reset()
    const {ahead} = state
    if (!this.moved || ahead !== this.ahead || now < startsAt) this.moved = now
    this.stalled = now - this.moved > STALL_MS
    this.ahead = ahead
    this.first = Math.max(this.first, ahead)
    this.estimateS = state.estimate_s ?? 0
    // The server's estimate is by the configured rate. A line that is slower than that gets the measured pace.
    if (now >= startsAt) {
      if (!this.from.at) this.from = {at: now, ahead}
      const passed = now - this.from.at
      const admitted = this.from.ahead - ahead
      if (passed >= MEASURE_MS && admitted > 0) this.estimateS = Math.max(this.estimateS, Math.ceil((ahead * passed) / admitted / 1000))
    }
    const since = now - this.spokenAt
    if (!this.spokenAt || since > CALM_MS || (since > SPEAK_MS && ahead < this.spoken.ahead * 0.75)) {
      this.spoken = {ahead, estimateS: this.estimateS}
      this.spokenAt = now
    }
  }
}
