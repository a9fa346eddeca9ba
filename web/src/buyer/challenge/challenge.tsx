// The challenge on the page of a sale, a chunk that is loaded where the sale has one.

import {tick} from '../../base/app.ts'
import {mayCompute} from '../../base/compute.ts'
import {adopt} from '../../base/chunk.ts'
import {count, time} from '../../base/format.ts'
import {Bar} from '../../base/parts.tsx'
import {code, say} from '../../base/problem.ts'
import {words} from '../../base/words.ts'
import {challenge as en} from '../../words/challenge.en.ts'
import {challenge as zh} from '../../words/challenge.zh.ts'
import {Countdown} from '../countdown.tsx'
import type {Deadline, Entry} from '../entry.ts'
import {ChallengeModel, SPARE_MS} from './challenge-model.ts'
import css from './challenge.css?inline'
import {Letters} from './letters.tsx'

const w = words({en, zh})
export type Say = typeof w

adopt(css)

export class Challenge extends ChallengeModel implements Entry {
  readonly solves = true

  // first reports whether the button and the status line are those of the challenge, not of the waiting room.
  private get first(): boolean {
    const {stage} = this
    return this.required && stage !== 'solved' && stage !== 'closed'
  }

  get title(): string {
    return this.room?.title ?? ''
  }

  get label(): string {
    return this.first ? w('start') : (this.room?.label ?? '')
  }

  // deadline is the end of the turn, or of the pass if that is earlier.
  get deadline(): Deadline | undefined {
    const turn = this.room?.deadline
    const until = this.required ? Date.parse(this.pass.value?.expires_at ?? '') - SPARE_MS : Number.NaN
    return turn && !(until < turn.until) ? turn : until > tick.value ? {label: w('pass_left'), until} : undefined
  }

  text(): string {
    return this.first ? code('captcha_required') : (this.room?.text() ?? '')
  }

  async join(): Promise<void> {
    await (this.first ? this.request() : this.room?.join())
  }

  // line is the sentence of the challenge's own status line.
  line(): string {
    const problem = this.problem.value
    if (problem && this.notice.value === 'wrong') return w('paused', {n: problem.waitS})
    if (problem) return say(problem.failure, problem.waitS, tick.value)
    const {stage} = this
    const notice = this.notice.value
    const said = notice === 'wrong' ? `${code('captcha_wrong')} ` : notice && stage !== 'solved' ? `${w(notice)} ` : ''
    if (stage === 'closed') return this.room ? w('closed_room') : w(stage, {t: time(this.opensAt, tick.value, true)})
    if (stage === 'solved') return w(stage, {t: time(this.pass.value?.expires_at ?? '', tick.value)})
    return said + (stage === 'idle' && said ? '' : w(stage))
  }

  readonly part = () => (
    <>
      {this.room?.part()}
      <Part challenge={this} />
    </>
  )
}

function Part({challenge}: {challenge: Challenge}) {
  const {view} = challenge.sale.view.value
  if (!challenge.required || challenge.over || view === 'created' || view === 'paid' || view === 'signed_out') return null
  const {stage} = challenge
  const task = challenge.task.value
  const most = task?.pow?.max_number ?? 1
  const good = stage === 'solved'
  const bad = !good && challenge.notice.value === 'wrong' && !challenge.problem.value
  const able = mayCompute()
  const turn = challenge.room?.deadline
  return (
    <section class="challenge" aria-labelledby="challenge-title">
      <h2 id="challenge-title">{w('title')}</h2>
      {turn && !good && <Countdown ms={turn.until - tick.value} label={turn.label} />}
      {(stage === 'closed' || stage === 'idle') && <p class="muted">{w('about')}</p>}
      <p class={good ? 'good' : bad ? 'bad' : ''} role="status">
        {(good || bad) && <span aria-hidden="true">{good ? '●' : '✕'} </span>}
        {challenge.line()}
      </p>
      {stage === 'pow' && (
        <>
          <Bar value={challenge.tried.value} max={most} label={w('tried', {n: count(challenge.tried.value)})} />
          <button type="button" onClick={() => challenge.cancel()}>
            {w('stop')}
          </button>
        </>
      )}
      {stage === 'click' && task?.click && (
        <Letters key={task.captcha_id} click={task.click} w={w} onSubmit={(points) => void challenge.submit(points)} />
      )}
      {stage === 'provider' && (
        <a class="button primary" href={`/sales/${encodeURIComponent(challenge.sale.id)}/challenge`}>
          {w('open_provider')}
        </a>
      )}
      {challenge.choosing && (
        <div class="challenge-ways">
          {stage === 'idle' && (
            <button type="button" onClick={() => void challenge.request()}>
              {w('start')}
            </button>
          )}
          {able && (
            <button type="button" class="quiet" aria-describedby="challenge-compute" onClick={() => void challenge.request('pow')}>
              {w('compute')}
            </button>
          )}
          <p id="challenge-compute" class="muted small">
            {w(able ? 'compute_hint' : 'compute_role')}
          </p>
        </div>
      )}
    </section>
  )
}
