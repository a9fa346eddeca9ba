// The challenge of one sale: requests it, answers it, and keeps the pass over reloads.

import {answerChallenge, createChallenge} from '../../api/challenge.ts'
import type {Failure} from '../../api/client.ts'
import type {Challenge, ChallengeAnswer, ChallengePass, ChallengePoint, Permit} from '../../api/types.ts'
import {clock, lost, tick, userID} from '../../base/app.ts'
import {retryable, retryDelay} from '../../base/retry.ts'
import {effect, signal, untracked} from '../../base/signal.ts'
import {sleep} from '../../base/timer.ts'
import type {Room} from '../room/room.tsx'
import type {SaleModel} from '../sale-model.ts'
import {stateOf, type Shown} from '../saleview.ts'
import {readPass, writePass} from './pass.ts'
import {payloadOf, solvePow} from './pow.ts'

// SPARE_MS is the time before the end of a pass from which it is not used: a path may take some attempts.
export const SPARE_MS = 5000

// REPEATS bounds the proofs of work that follow a wrong one without a press.
const REPEATS = 2

export type Stage = 'closed' | 'idle' | 'loading' | 'pow' | 'click' | 'provider' | 'sending' | 'solved'
export type Notice = 'expired' | 'refused' | 'wrong' | 'late' | 'unsolvable' | ''

export class ChallengeModel {
  readonly pass = signal<ChallengePass | undefined>(undefined)
  readonly task = signal<Challenge | undefined>(undefined)
  readonly busy = signal<'loading' | 'sending' | ''>('')
  readonly notice = signal<Notice>('')
  readonly problem = signal<{failure: Failure; waitS: number} | undefined>(undefined)
  readonly tried = signal(0) // hashes
  private readonly stop = new AbortController()
  private work = new AbortController() // ends the present challenge
  private kind: 'pow' | undefined // that was requested instead of the sale's
  private readonly ends: (() => void)[] = []

  constructor(
    readonly sale: SaleModel,
    readonly room: Room | undefined,
  ) {
    let before: string | undefined
    this.ends.push(
      effect(() => {
        const user = userID()
        untracked(() => {
          if (user === before) return
          before = user
          this.cancel()
          this.pass.value = readPass(user, sale.id)
        })
      }),
      effect(() => {
        // The path route has refused the pass, or has got none.
        if (sale.refusal.value?.code !== 'captcha_required') return
        untracked(() => {
          sale.refusal.value = undefined
          const had = !!this.pass.value
          this.drop()
          this.notice.value = had ? 'refused' : ''
          void this.request()
        })
      }),
      effect(() => {
        const until = Date.parse(this.pass.value?.expires_at ?? '')
        if (tick.value > until - SPARE_MS) {
          untracked(() => {
            this.drop()
            this.notice.value = 'expired'
          })
        }
      }),
    )
  }

  close(): void {
    this.stop.abort()
    this.work.abort()
    for (const end of this.ends) end()
    this.room?.close()
  }

  get permit(): Permit {
    return {...this.room?.permit, captcha_pass: this.pass.value?.captcha_pass}
  }

  // required is false after the merchant has switched the challenge off.
  get required(): boolean {
    return !!this.sale.sale.value?.captcha
  }

  get opensAt(): number {
    return Date.parse(this.sale.sale.value?.captcha_opens_at ?? '')
  }

  get stage(): Stage {
    if (this.pass.value) return 'solved'
    const open = this.room ? this.room.stage === 'admitted' : !(tick.value < this.opensAt)
    return !open || !userID() ? 'closed' : this.busy.value || this.task.value?.kind || 'idle'
  }

  // choosing is whether the buyer may take another way: before and beside a challenge, and while a call waits.
  get choosing(): boolean {
    const {stage} = this
    if (stage === 'idle' || stage === 'click' || stage === 'provider') return true
    return !!this.problem.value && !!this.busy.value && (this.kind ?? this.task.value?.kind) !== 'pow'
  }

  // view replaces what the page would show without a challenge. Before the start the button stays as it is.
  view(shown: Shown): Shown {
    const inner = this.room ? this.room.view(shown) : shown
    const {stage} = this
    if (!this.required || stage === 'solved' || !inner.enabled || inner.button === 'buy_join') return inner
    return {view: 'entry', button: stage === 'idle' ? 'buy_join' : 'buy', enabled: stage === 'idle'}
  }

  // request gets a challenge: that of the sale, or a proof of work. A proof of work is solved at once.
  async request(kind?: 'pow'): Promise<void> {
    const work = this.begin()
    this.kind = kind
    this.busy.value = 'loading'
    const r = await this.repeat(() => createChallenge(this.sale.id, {kind, room_ticket: this.room?.ticket}), work)
    if (work.aborted) return
    this.busy.value = ''
    if (!r?.ok) return
    this.task.value = r.data
    if (r.data.kind === 'pow') await this.compute(r.data, work, kind, 0)
  }

  // submit answers an image. After a wrong answer the next one comes after a pause, which that response names.
  async submit(points: ChallengePoint[]): Promise<void> {
    const task = this.task.value
    if (!task || this.busy.value) return
    this.notice.value = '' // of the answer before
    const outcome = await this.answer(task, {points}, this.work.signal)
    if (outcome === 'done') return
    this.notice.value = outcome
    await this.request()
  }

  // cancel ends the present challenge.
  cancel(): void {
    this.begin()
    this.busy.value = ''
  }

  private begin(): AbortSignal {
    this.work.abort()
    this.work = new AbortController()
    this.task.value = undefined
    this.problem.value = undefined
    this.tried.value = 0
    return this.work.signal
  }

  private drop(): void {
    this.pass.value = undefined
    writePass(userID(), this.sale.id, undefined)
  }

  private async compute(task: Challenge, work: AbortSignal, kind: 'pow' | undefined, repeats: number): Promise<void> {
    const {pow} = task
    if (!pow) return
    let number: number | undefined
    try {
      number = await solvePow(pow, (n) => (this.tried.value = n), work)
    } catch {
      if (work.aborted) return
      this.cancel()
      this.notice.value = 'unsolvable'
      return
    }
    if (number === undefined || work.aborted) return
    const outcome = await this.answer(task, {payload: payloadOf(pow, number)}, work)
    if (outcome === 'done') return
    this.notice.value = outcome
    if (repeats >= REPEATS) return this.cancel()
    const next = this.begin()
    const r = await this.repeat(() => createChallenge(this.sale.id, {kind, room_ticket: this.room?.ticket}), next)
    if (!r?.ok || next.aborted) return
    this.task.value = r.data
    if (r.data.kind === 'pow') await this.compute(r.data, next, kind, repeats + 1)
  }

  private async answer(task: Challenge, body: ChallengeAnswer, work: AbortSignal): Promise<'done' | 'wrong' | 'late'> {
    const user = userID()
    const until = Date.parse(task.expires_at)
    if (clock.now() >= until) return 'late'
    this.busy.value = 'sending'
    const r = await this.repeat(() => answerChallenge(this.sale.id, task.captcha_id, body), work, until)
    if (work.aborted || user !== userID()) return 'done'
    this.busy.value = ''
    this.task.value = undefined
    if (r?.ok) {
      this.notice.value = ''
      this.pass.value = r.data
      writePass(user, this.sale.id, r.data)
    }
    if (!r || r.ok) return 'done'
    return r.code === 'captcha_wrong' ? 'wrong' : retryable(r) ? 'late' : 'done'
  }

  // repeat calls until the server responds, or until the next call would be too late. A refusal is shown, but for a wrong
  // answer. A repeated answer counts as wrong if the first one was received.
  private async repeat<T extends {ok: true} | Failure>(
    call: () => Promise<T>,
    work: AbortSignal,
    until = Number.POSITIVE_INFINITY,
  ): Promise<T | undefined> {
    for (let n = 0; !work.aborted; n++) {
      const r = await call()
      if (work.aborted) return undefined
      this.problem.value = undefined
      if (r.ok || r.code === 'captcha_wrong') return r
      if (r.code === 'unauthenticated') {
        this.sale.refusal.value = r
        lost()
        return r
      }
      // A press may be early by the server's clock.
      const early = r.code === 'activity_not_started' ? Date.parse(String(r.problem.opens_at)) - clock.now() : Number.NaN
      const ms = early < 5000 ? Math.max(early, 200) + Math.random() * 300 : retryable(r) ? retryDelay(n, r.retryAfterS) : 0
      if (ms && clock.now() + ms >= until) return r
      if (!(early < 5000)) this.problem.value = {failure: r, waitS: Math.ceil(ms / 1000)}
      if (!ms) {
        if (r.code === 'room_required') this.room?.again()
        this.sale.refresh()
        return r
      }
      await sleep(ms, work)
    }
    return undefined
  }

  get over(): boolean {
    const sale = this.sale.sale.value
    return !sale || stateOf(sale, clock.now()) === 'ended'
  }
}
