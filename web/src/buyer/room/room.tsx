// The waiting room on the page of a sale, a chunk that is loaded where the sale has one.

import {useState} from 'preact/hooks'
import {clock, tick} from '../../base/app.ts'
import {adopt} from '../../base/chunk.ts'
import {count, time} from '../../base/format.ts'
import {Bar} from '../../base/parts.tsx'
import {code, say} from '../../base/problem.ts'
import {locale, words} from '../../base/words.ts'
import {room as en} from '../../words/room.en.ts'
import {room as zh} from '../../words/room.zh.ts'
import type {Deadline, Entry} from '../entry.ts'
import type {SaleModel} from '../sale-model.ts'
import {stateOf} from '../saleview.ts'
import {RoomModel} from './room-model.ts'
import css from './room.css?inline'
import type {CheckName} from './verify.ts'

const w = words({en, zh})

adopt(css)

const moment = (ms: number, seconds = false) => time(ms, tick.value, seconds)

// duration is a wait in words, rounded up: 40 s, 3 min.
function duration(s: number): string {
  const minutes = s >= 90
  const value = minutes ? Math.ceil(s / 60) : Math.max(1, Math.ceil(s))
  return value.toLocaleString(locale.value, {style: 'unit', unit: minutes ? 'minute' : 'second', unitDisplay: 'short'})
}

export class Room extends RoomModel implements Entry {
  get label(): string {
    return w(this.stage === 'lapsed' ? 'join_again' : 'join')
  }

  // deadline is the end of the turn. It moves on while the sale is paused, and none is shown.
  get deadline(): Deadline | undefined {
    const until = Date.parse(this.state.value?.admitted_until ?? '')
    const {value: sale} = this.sale.sale
    const open = sale && stateOf(sale, tick.value) === 'open'
    return open && this.stage === 'admitted' && until > tick.value ? {label: w('your_turn'), until} : undefined
  }

  // text is the sentence of the status line.
  text(): string {
    const problem = this.problem.value
    if (problem) return say(problem.failure, problem.waitS, tick.value)
    const {stage, line} = this
    const t = moment(this.startsAt, true)
    switch (stage) {
      case 'closed':
        return w('opens', {t: moment(this.opensAt, true)})
      case 'open':
        return tick.value < this.earlyUntil ? w('open_early', {t: moment(this.earlyUntil, true)}) : w('open_late')
      case 'waiting':
        if (line.stalled) return w('stalled')
        return code('room_waiting', {ahead: count(line.spoken.ahead), t: duration(line.spoken.estimateS)})
      default:
        return w(stage, {t})
    }
  }

  // title is what a tab in the background shows before the title of the sale.
  get title(): string {
    const {stage, line} = this
    if (stage === 'admitted') return '● '
    return stage === 'waiting' ? `${count(line.ahead)} · ` : ''
  }

  readonly part = () => <Part room={this} sale={this.sale} />
}

function Part({room, sale: model}: {room: Room; sale: SaleModel}) {
  const {view} = model.view.value
  const sale = model.sale.value
  if (!sale || view === 'created' || view === 'paid' || stateOf(sale, clock.now()) === 'ended') return null
  const state = room.state.value
  const {sequence, stage, line} = room
  const wrong = room.checks.value.some((c) => c.ok === false)
  const early = room.opensAt < room.earlyUntil
  return (
    <section class="room" aria-labelledby="room-title">
      <h2 id="room-title">{w('title')}</h2>
      {room.openedAgain.value && (
        <p class="note" role="status">
          {w('opened_again')}
        </p>
      )}
      {wrong && (
        <p class="error" role="alert">
          <span aria-hidden="true">✕ </span>
          {w('failed_check')}
        </p>
      )}
      {sequence ? (
        <dl class="room-facts">
          <Fact name={w('ticket')} value={count(sequence)} />
          <Fact name={w('place')} value={state?.place ? count(state.place) : state?.state === 'early' ? w('place_later', {t: moment(room.startsAt)}) : '–'} />
          {stage === 'waiting' && <Fact name={w('ahead')} value={count(line.ahead)} />}
        </dl>
      ) : (
        <p class="muted">
          {w('about')} {early && clock.now() < room.earlyUntil && `${w('about_early', {from: moment(room.opensAt), to: moment(room.earlyUntil)})} `}
          {w('about_late')}
        </p>
      )}
      {stage === 'waiting' && <Bar value={line.first - line.ahead} max={Math.max(1, line.first)} label={w('progress', {n: count(line.ahead)})} />}
      {state && <Verification room={room} />}
    </section>
  )
}

const Fact = ({name, value}: {name: string; value: string}) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
)

const checkNames: CheckName[] = ['key_hash', 'commitment', 'proof', 'root', 'key', 'seed', 'place']

function Verification({room}: {room: Room}) {
  const [open, setOpen] = useState(false)
  const state = room.state.value
  if (!state) return null
  const {draw, proof} = state
  const checks = room.checks.value
  const passed = checks.filter((c) => c.ok).length
  const unproven = !!draw.root && !proof
  const late = unproven && room.sequence > (draw.early_tickets ?? 0)
  const values: [string, string | undefined][] = [
    [w('key_sha256'), draw.key_sha256],
    [w('leaf'), proof?.commitment],
    [w('root'), draw.root],
    [w('early_tickets'), draw.early_tickets === undefined ? undefined : count(draw.early_tickets)],
    [w('beacon'), draw.beacon],
    [w('key'), draw.key],
    [w('seed'), draw.seed],
  ]
  return (
    <details class="room-draw" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{passed > 0 && !unproven ? w('verified', {n: passed}) : w('verify')}</summary>
      <p class="muted small">{w(late ? 'verify_late' : unproven ? 'verify_unproven' : globalThis.crypto.subtle ? 'verify_hint' : 'verify_insecure')}</p>
      {!unproven && checks.length > 0 && (
        <ul class="room-checks">
          {checkNames.flatMap((name) => checks.filter((c) => c.name === name)).map(({name, ok, lost, place}) => (
            <li key={name} class={ok === undefined ? 'muted' : ok ? 'good' : 'bad'}>
              <span aria-hidden="true">{ok === undefined ? '○' : ok ? '●' : '✕'}</span>
              <span>{lost ? w('leaf_lost') : w(`check_${name}`, {n: place ? count(place) : '–'})}</span>
              {!lost && <b>{ok === undefined ? w('pending') : ok ? w('passed') : w('wrong')}</b>}
            </li>
          ))}
        </ul>
      )}
      <dl class="room-values">
        {values.map(([name, value]) => (value ? <Fact key={name} name={name} value={value} /> : null))}
      </dl>
      <p class="room-links">
        <a href={`/v1/activities/${encodeURIComponent(room.sale.id)}/room/draw`} target="_blank" rel="noreferrer">
          {w('draw_json')}
        </a>
        {draw.tickets_url && (
          <a href={draw.tickets_url} target="_blank" rel="noreferrer">
            {w('draw_tickets')}
          </a>
        )}
      </p>
    </details>
  )
}
