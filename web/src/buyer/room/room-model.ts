// The waiting room of one sale: joins it, keeps the ticket over reloads, and follows it until its turn.

import {getRoomTicket, joinRoom} from '../../api/room.ts'
import type {Failure} from '../../api/client.ts'
import type {Permit, RoomState} from '../../api/types.ts'
import {clock, lost, tick, userID, visible} from '../../base/app.ts'
import {retryable, retryDelay} from '../../base/retry.ts'
import {effect, signal, untracked} from '../../base/signal.ts'
import {flightKey} from '../../base/storage.ts'
import {sleep} from '../../base/timer.ts'
import type {SaleModel} from '../sale-model.ts'
import {stateOf, type Shown} from '../saleview.ts'
import {Line} from './line.ts'
import {parseTicket, verify, type Check} from './verify.ts'

// EARLY_MS is the time before the start at which early joining closes.
export const EARLY_MS = 60_000

// ADMITTED_S is the time between two reads of an admitted ticket: the server names none. LONG_MS is that of a ticket
// without a next read, which a press or another tab ends.
const ADMITTED_S = 10
const LONG_MS = 3_600_000
const MISSING_MS = 60_000

// Kept is the ticket as it is stored. It is useless without its buyer's session. key_sha256 and root are those that the
// page read first.
interface Kept {
  ticket: string
  key_sha256?: string
  root?: string
}

export type Stage = 'closed' | 'open' | 'joining' | 'reading' | 'early' | 'early_closed' | 'drawing' | 'waiting' | 'admitted' | 'lapsed'

export class RoomModel {
  readonly kept = signal<Kept | undefined>(undefined)
  readonly state = signal<RoomState | undefined>(undefined)
  readonly joining = signal(false)
  readonly problem = signal<{failure: Failure; waitS: number} | undefined>(undefined)
  readonly openedAgain = signal(false)
  readonly checks = signal<Check[]>([])
  readonly line = new Line()
  private readonly stop = new AbortController()
  private pause = new AbortController()
  private readonly ends: (() => void)[] = []
  private readAt = 0
  private verified = ''

  constructor(readonly sale: SaleModel) {
    let before: string | undefined
    this.ends.push(
      effect(() => {
        const user = userID()
        untracked(() => {
          if (user !== before) this.load()
          before = user
        })
      }),
      effect(() => {
        if (visible.value && performance.now() - this.readAt > 2000) untracked(() => this.again())
      }),
      effect(() => {
        // The path route has refused the ticket: its turn has passed.
        const code = sale.refusal.value?.code
        if (code !== 'room_required') return
        untracked(() => {
          sale.refusal.value = undefined
          if (this.state.value) this.state.value = {...this.state.value, state: 'lapsed'}
          this.again()
        })
      }),
    )
    addEventListener('storage', (event) => event.key === this.key() && this.load(), {signal: this.stop.signal})
    void this.follow()
  }

  close(): void {
    this.stop.abort()
    this.pause.abort()
    for (const end of this.ends) end()
  }

  get ticket(): string | undefined {
    return this.kept.value?.ticket
  }

  get permit(): Permit {
    return {room_ticket: this.ticket}
  }

  get sequence(): number {
    return parseTicket(this.ticket ?? '')?.sequence ?? 0
  }

  get opensAt(): number {
    return Date.parse(this.sale.sale.value?.room_opens_at ?? '')
  }

  get startsAt(): number {
    return Date.parse(this.sale.sale.value?.starts_at ?? '')
  }

  // earlyUntil is the end of early joining. A room that opens later has no early tickets.
  get earlyUntil(): number {
    return this.startsAt - EARLY_MS
  }

  get stage(): Stage {
    const now = tick.value
    if (this.joining.value) return 'joining'
    if (!this.kept.value) return now < this.opensAt ? 'closed' : 'open'
    const state = this.state.value?.state
    if (!state) return 'reading'
    if (state !== 'early') return state
    return now >= this.startsAt ? 'drawing' : now >= this.earlyUntil ? 'early_closed' : 'early'
  }

  // view replaces what the page would show without a room, where the buyer could buy now or at the start.
  view(shown: Shown): Shown {
    if (!shown.enabled && shown.view !== 'scheduled') return shown
    const {stage} = this
    if (stage === 'admitted') return shown.view === 'lit' || shown.view === 'back' ? {...shown, view: 'entry'} : shown
    const joins = stage === 'open' || stage === 'lapsed' || stage === 'closed' || stage === 'joining'
    return {view: 'entry', button: joins ? 'buy_join' : 'buy', enabled: stage === 'open' || stage === 'lapsed'}
  }

  // join gets the ticket of this buyer: the one that exists, or a new one.
  async join(): Promise<void> {
    const user = userID()
    if (this.joining.value || !user) return
    this.joining.value = true
    for (let n = 0; !this.stop.signal.aborted && userID() === user; n++) {
      const r = await joinRoom(this.sale.id)
      if (this.stop.signal.aborted || userID() !== user) break
      if (r.ok) {
        this.store({ticket: r.data.ticket})
        this.line.reset()
        this.state.value = undefined
        this.problem.value = undefined
        break
      }
      if (r.code === 'unauthenticated') {
        this.sale.refusal.value = r
        lost()
        break
      }
      // A press may be early by the server's clock.
      const early = r.code === 'activity_not_started' ? Date.parse(String(r.problem.opens_at)) - clock.now() : Number.NaN
      const ms = early < 5000 ? Math.max(early, 200) + Math.random() * 300 : retryable(r) ? retryDelay(n, r.retryAfterS) : 0
      this.problem.value = early < 5000 ? undefined : {failure: r, waitS: Math.ceil(ms / 1000)}
      if (!ms) {
        this.sale.refresh()
        break
      }
      await sleep(ms, this.stop.signal)
    }
    this.joining.value = false
    this.again()
  }

  // again reads the ticket now.
  again(): void {
    this.pause.abort()
  }

  private key(): string {
    return `${flightKey(userID(), this.sale.id)}:room`
  }

  // load takes the ticket of the present buyer from the storage.
  private load(): void {
    let kept: Kept | undefined
    try {
      const stored = JSON.parse(localStorage.getItem(this.key()) ?? 'null') as Kept | null
      if (stored && parseTicket(stored.ticket)) kept = stored
    } catch {
      // Damaged or blocked: the buyer joins again and gets the same ticket.
    }
    if (kept?.ticket !== this.ticket) {
      this.state.value = undefined
      this.checks.value = []
      this.line.reset()
    }
    this.kept.value = kept
    this.again()
  }

  private store(kept: Kept | undefined): void {
    this.kept.value = kept
    try {
      if (kept) localStorage.setItem(this.key(), JSON.stringify(kept))
      else localStorage.removeItem(this.key())
    } catch {
      // The ticket lasts until the page is left; joining again returns it.
    }
  }

  private async follow(): Promise<void> {
    for (let failures = 0; !this.stop.signal.aborted; ) {
      this.pause = new AbortController()
      const {ticket} = this
      const sale = this.sale.sale.value
      let ms = LONG_MS
      if (sale && stateOf(sale, clock.now()) === 'ended') return
      if (ticket && userID()) {
        this.readAt = performance.now()
        const r = await getRoomTicket(this.sale.id, ticket)
        if (this.stop.signal.aborted) return
        if (ticket !== this.ticket) continue
        if (r.ok) {
          failures = 0
          ms = this.received(r.data, r.retryAfterS ?? 0)
        } else ms = this.failed(r, failures++)
      }
      await sleep(ms, this.pause.signal)
    }
  }

  // received returns the wait until the next read, ms: never less than what the server requested.
  private received(state: RoomState, retryAfterS: number): number {
    const kept = this.kept.value as Kept
    this.problem.value = undefined
    this.line.add(state, clock.now(), this.startsAt)
    this.state.value = state
    const {key_sha256, root} = state.draw
    if (kept.key_sha256 && kept.key_sha256 !== key_sha256 && state.state === 'early' && clock.now() < this.earlyUntil) {
      // Redis lost the room, which has another key now. Joining again makes the buyer part of its draw.
      this.openedAgain.value = true
      this.store({ticket: kept.ticket})
      void this.join()
      return LONG_MS
    }
    if (!kept.key_sha256 || (root && !kept.root)) {
      this.store({...kept, key_sha256: kept.key_sha256 ?? key_sha256, root: kept.root ?? root})
    }
    void this.check(state, kept)
    const turn = (Date.parse(state.admitted_until ?? '') - clock.now()) / 1000 // NaN while it has no end
    const wait = state.state === 'lapsed' ? 0 : retryAfterS || (turn < ADMITTED_S ? Math.max(turn, 0) + 1 : ADMITTED_S)
    return wait ? wait * 1000 * (1 + Math.random() * 0.25) : LONG_MS
  }

  private failed(failure: Failure, n: number): number {
    if (failure.code === 'unauthenticated') {
      this.sale.refusal.value = failure
      lost()
      return LONG_MS
    }
    if (failure.code === 'room_required') {
      this.store(undefined) // the ticket is not one of this buyer
      return LONG_MS
    }
    const ms = retryable(failure) ? retryDelay(n, failure.retryAfterS) : MISSING_MS
    // One lost call is no news.
    if (n > 0) this.problem.value = {failure, waitS: Math.ceil(ms / 1000)}
    return ms
  }

  private async check(state: RoomState, kept: Kept): Promise<void> {
    const ticket = parseTicket(kept.ticket)
    const about = JSON.stringify([kept.ticket, state.place, state.draw, state.proof])
    if (!ticket || !globalThis.crypto.subtle || about === this.verified) return
    this.verified = about
    const checks = await verify(this.sale.id, userID(), ticket, state, kept)
    if (about === this.verified) this.checks.value = checks
  }
}
