// The challenge of a third party: requests it, answers it by the token of the widget, and returns to the sale.

import {answerChallenge, createChallenge} from '../api/challenge.ts'
import type {Failure} from '../api/client.ts'
import type {Challenge, ChallengeAnswer} from '../api/types.ts'
import {session, userID} from '../base/app.ts'
import {effect, signal, untracked} from '../base/signal.ts'
import {flightKey} from '../base/storage.ts'
import {writePass} from '../buyer/challenge/pass.ts'
import {payloadOf, solvePow} from '../buyer/challenge/pow.ts'

export type Stage = 'loading' | 'pow' | 'provider' | 'sending' | 'failed' | 'solved'

export class CheckModel {
  readonly stage = signal<Stage>('loading')
  readonly task = signal<Challenge | undefined>(undefined)
  readonly wrong = signal(false)
  readonly failure = signal<Failure | undefined>(undefined)

  constructor(readonly activity: string) {}

  get back(): string {
    return `/sales/${encodeURIComponent(this.activity)}`
  }

  // start waits for the session. A buyer who is not signed in signs in on the page of the sale.
  start(): void {
    effect(() => {
      const known = session.value
      untracked(() => {
        if (known && !known.signed_in) location.replace(this.back)
        else if (known && !this.task.value) void this.request()
      })
    })
  }

  // request gets a challenge. While the provider does not respond it is a proof of work.
  async request(kind?: 'pow'): Promise<void> {
    this.stage.value = 'loading'
    this.failure.value = undefined
    const r = await createChallenge(this.activity, {kind, room_ticket: this.ticket()})
    if (!r.ok) return this.failed(r)
    this.task.value = r.data
    const {pow} = r.data
    // A merchant may have changed the kind.
    if (!pow && !r.data.widget) return location.replace(this.back)
    this.stage.value = pow ? 'pow' : 'provider'
    if (!pow) return
    try {
      const number = await solvePow(pow, () => {}, new AbortController().signal)
      if (number !== undefined) await this.answer(r.data, {payload: payloadOf(pow, number)})
    } catch {
      this.failed()
    }
  }

  async answer(task: Challenge, body: ChallengeAnswer): Promise<void> {
    if (task !== this.task.value) return
    this.stage.value = 'sending'
    const r = await answerChallenge(this.activity, task.captcha_id, body)
    if (r.ok) {
      writePass(userID(), this.activity, r.data)
      this.stage.value = 'solved'
      return location.replace(this.back)
    }
    this.wrong.value = r.code === 'captcha_wrong'
    if (this.wrong.value && task.kind === 'provider') return this.request()
    this.failed(r)
  }

  readonly failed = (failure?: Failure): void => {
    this.failure.value = failure
    this.stage.value = 'failed'
  }

  // ticket is that of the waiting room, as the page of the sale has stored it.
  private ticket(): string | undefined {
    try {
      const kept = JSON.parse(localStorage.getItem(`${flightKey(userID(), this.activity)}:room`) ?? 'null') as {ticket: string} | null
      return kept?.ticket
    } catch {
      return undefined
    }
  }
}
