// The board of one sale, live by server-sent events, by polling after two failures.

import {useEffect, useState} from 'preact/hooks'
import type {Failure} from '../api/client.ts'
import {boardEvents, getBoard} from '../api/merchant.ts'
import type {Activity, Board, BoardUpdate, SaleMode, StockView} from '../api/types.ts'
import {hasRole, lost, tick} from '../base/app.ts'
import {count, stamp, time} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Badge, Bar} from '../base/parts.tsx'
import {follow} from '../base/stream.ts'
import {apply, conversion, latestPoint, reasons, total, withoutRedis} from './board-data.ts'
import {Chart} from './chart.tsx'
import {Failed, timeText} from './parts.tsx'
import {RoomCard} from './room.tsx'
import {reasonName, w} from './words.ts'

const ROWS = 60

// Mode shows how the sale decides purchases.
export const Mode = ({mode}: {mode: SaleMode}) => (
  <Badge tone={mode === 'gate' ? 'quiet' : 'warning'}>{w(`mode_${mode}`)}</Badge>
)

interface Props {
  id: string
  activity: Activity
  board?: Board
  onBoard: (b: Board) => void
}

export function BoardView({id, activity, board, onBoard}: Props) {
  const [mode, setMode] = useState<'stream' | 'poll'>('stream')
  const [failure, setFailure] = useState<Failure>()
  useEffect(() => {
    const stop = new AbortController()
    let latest: Board | undefined
    const show = (b: Board) => onBoard((latest = b))
    const poll = async () => {
      const r = await getBoard(id)
      if (stop.signal.aborted) return false
      if (r.ok) show(r.data)
      else if (r.code === 'unauthenticated') lost()
      setFailure(r.ok ? undefined : r)
      return r.ok
    }
    void poll().then(() =>
      follow({
        url: () => boardEvents(id),
        events: {
          board: (data) => show(data as Board),
          point: (data) => latest && show(apply(latest, data as BoardUpdate)),
          stock: (data) => latest && show({...latest, stock: data as StockView}),
        },
        poll,
        done: () => false,
        onMode: setMode,
        signal: stop.signal,
      }),
    )
    return () => stop.abort()
  }, [id])
  if (!board) return <Failed failure={failure} retry={() => location.reload()} />
  const {units, orders, totals} = board
  const refused = total(totals.refused)
  const latest = latestPoint(board)
  const redisless = withoutRedis(board)
  return (
    <div class="board">
      <p class="row as-of">
        {activity.state === 'ended' ? (
          <Badge tone="quiet">{w('state_ended')}</Badge>
        ) : (
          <Badge tone={mode === 'stream' ? 'good' : 'warning'}>{mode === 'stream' ? w('live') : w('polling')}</Badge>
        )}
        <AsOf at={board.as_of} />
        <TimeLeft board={board} />
        {hasRole('operator') && <Mode mode={board.mode} />}
        {redisless && <Badge tone={redisless.tone}>{w(redisless.badge)}</Badge>}
      </p>
      {redisless?.note && (
        <p class="note" role="status">
          {w(redisless.note)}
        </p>
      )}
      {board.mode !== 'gate' && (
        <p class="note" role="status">
          {w(`mode_${board.mode}_text`)}
        </p>
      )}
      <Failed failure={failure} retry={() => location.reload()} />
      <dl class="stats">
        <Stat label={w('left')} value={count(units.left)} note={w('of_total', {n: count(units.total)})} />
        <Stat label={w('held')} value={count(units.held)} note={`${count(orders.pending)} ${w('to_pay')}`} />
        <Stat label={w('sold')} value={count(units.sold)} note={w('units_word')} />
        <Stat label={w('paid')} value={count(orders.paid)} note={w('conversion', {n: conversion(orders)})} />
        <Stat
          label={w('revenue')}
          value={board.revenue === undefined ? w('none') : money(board.revenue, board)}
          note={w('revenue_hint')}
          amount
        />
      </dl>
      <div
        class="split"
        role="img"
        aria-label={w('share', {left: count(units.left), held: count(units.held), sold: count(units.sold)})}
      >
        {(['sold', 'held', 'left'] as const).map((key) => (
          <i key={key} class={key} style={{flexGrow: Math.max(0, units[key])}} />
        ))}
      </div>
      <p class="legend" aria-hidden="true">
        {(['sold', 'held', 'left'] as const).map((key) => (
          <span key={key}>
            <i class={`swatch ${key}`} /> {w(key)} {count(units[key])}
          </span>
        ))}
      </p>
      <section class="card pad">
        <div class="row between">
          <h2>{w('chart_accepted')}</h2>
          <p class="tabular">
            <b>{count(latest?.accepted ?? 0)}</b> /s · {count(totals.accepted)} {w('since_publish')}
          </p>
        </div>
        <Chart board={board} kind="accepted" label={w('chart_accepted')} />
      </section>
      <section class="card pad">
        <div class="row between">
          <h2>{w('chart_refused')}</h2>
          <p class="tabular">
            <b>{count(latest ? total(latest.refused) : 0)}</b> /s · {count(refused)} {w('since_publish')}
          </p>
        </div>
        <Chart board={board} kind="refused" label={w('chart_refused')} />
        <PointTable board={board} />
      </section>
      <div class="two">
        <section class="card pad">
          <h2>{w('orders_by_state')}</h2>
          <p>
            <AsOf at={orders.as_of ?? board.as_of} />
          </p>
          <OrderBars orders={orders} />
        </section>
        <section class="card pad">
          <h2>{w('requests')}</h2>
          <table>
            <tbody>
              {Object.entries(totals.refused)
                .sort((a, b) => b[1] - a[1])
                .map(([code, n]) => (
                  <tr key={code}>
                    <th scope="row">{reasonName(code)}</th>
                    <td class="number">{count(n)}</td>
                  </tr>
                ))}
              <tr>
                <th scope="row">{w('accepted')}</th>
                <td class="number">{count(totals.accepted)}</td>
              </tr>
              <tr>
                <th scope="row">{w('paths')}</th>
                <td class="number">{count(totals.paths)}</td>
              </tr>
              {totals.solved + totals.failed > 0 && (
                <>
                  <tr>
                    <th scope="row">{w('challenges_solved')}</th>
                    <td class="number">{count(totals.solved)}</td>
                  </tr>
                  <tr>
                    <th scope="row">{w('challenges_failed')}</th>
                    <td class="number">{count(totals.failed)}</td>
                  </tr>
                </>
              )}
            </tbody>
          </table>
        </section>
      </div>
      <RoomCard activity={activity} board={board} />
      {hasRole('operator') ? (
        <Stock stock={board.stock} activity={activity} />
      ) : (
        <Left stock={board.stock} activity={activity} />
      )}
    </div>
  )
}

const AsOf = ({at}: {at: string}) => (
  <span class="muted tabular small">{w('as_of', {t: time(at, Date.parse(at), true)})}</span>
)

// TimeLeft counts down to the start of a sale, then to its end.
function TimeLeft({board: {state, starts_at, ends_at}}: {board: Board}) {
  if (state === 'ended') return null
  const untilStart = Date.parse(starts_at) - tick.value
  const t = timeText(untilStart > 0 ? untilStart : Date.parse(ends_at) - tick.value)
  return (
    <b class="tabular" role="timer" aria-live="off">
      {w(untilStart > 0 ? 'starts_in' : 'ends_in', {t})}
    </b>
  )
}

function Stat({label, value, note, amount}: {label: string; value: string; note: string; amount?: boolean}) {
  return (
    <div class={amount ? 'card stat amount' : 'card stat'}>
      <dt>{label}</dt>
      <dd>
        <b>{value}</b>
        <span class="muted small">{note}</span>
      </dd>
    </div>
  )
}

function OrderBars({orders}: {orders: Board['orders']}) {
  const all = orders.pending + orders.paid + orders.closed + orders.rejected
  return (
    <ul class="order-bars">
      {(['pending', 'paid', 'closed', 'rejected'] as const).map((key) => (
        <li key={key}>
          <span>{w(key)}</span>
          <b class="number">{count(orders[key])}</b>
          <Bar
            value={orders[key]}
            max={all}
            label={`${w(key)} ${count(orders[key])}`}
            tone={key === 'paid' ? 'good' : 'quiet'}
          />
        </li>
      ))}
    </ul>
  )
}

function PointTable({board}: {board: Board}) {
  const [open, setOpen] = useState(false)
  const [all, setAll] = useState(false)
  const codes = reasons(board.points)
  const rows = open ? board.points.slice(all ? 0 : -ROWS).reverse() : []
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{w('chart_table')}</summary>
      {open && (
        <div class="scroll tall" tabIndex={0} role="region" aria-label={w('per_second')}>
          <table>
            <thead>
              <tr>
                <th scope="col">{w('at')}</th>
                <th scope="col" class="number">
                  {w('accepted')}
                </th>
                {codes.map((code) => (
                  <th key={code} scope="col" class="number">
                    {reasonName(code)}
                  </th>
                ))}
                <th scope="col" class="number">
                  {w('left')}
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((p) => (
                <tr key={p.at}>
                  <td>
                    <time dateTime={p.at}>{stamp(p.at)}</time>
                  </td>
                  <td class="number">{count(p.accepted)}</td>
                  {codes.map((code) => (
                    <td key={code} class="number">
                      {count(p.refused[code] ?? 0)}
                    </td>
                  ))}
                  <td class="number">{p.left === undefined ? '' : count(p.left)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {!all && board.points.length > ROWS && <button onClick={() => setAll(true)}>{w('more')}</button>}
        </div>
      )}
    </details>
  )
}

// Left shows what is left of each SKU: in the gate, or in the database while there is none.
function Left({stock, activity}: {stock: StockView; activity: Activity}) {
  return (
    <section class="card pad">
      <h2>{w('left_by_sku')}</h2>
      <p>
        <AsOf at={stock.as_of} />
      </p>
      <ul class="order-bars">
        {stock.skus.map((s) => {
          const left = s.gate ? s.gate.left : s.mysql.available
          const name = activity.items.find((i) => i.sku_id === s.sku_id)?.name ?? s.sku_id
          return (
            <li key={s.sku_id}>
              <span dir="auto">{name}</span>
              <b class="number">{w('left_of', {n: count(left), total: count(s.total)})}</b>
              <Bar value={left} max={s.total} label={`${name} ${count(left)}`} />
            </li>
          )
        })}
      </ul>
    </section>
  )
}

function Stock({stock, activity}: {stock: StockView; activity: Activity}) {
  const heads = [
    'units',
    'database_available',
    'database_reserved',
    'database_sold',
    'gate_left',
    'gate_held',
    'journal',
    'in_flight',
    'difference',
  ] as const
  return (
    <section class="card pad">
      <h2>{w('three_way')}</h2>
      <p class="hint">
        {w('three_way_hint')} <AsOf at={stock.as_of} />
      </p>
      <div class="scroll pinned" tabIndex={0} role="region" aria-label={w('three_way')}>
        <table>
          <thead>
            <tr>
              <th scope="col">{w('sku')}</th>
              {heads.map((key) => (
                <th key={key} scope="col" class="number">
                  {w(key)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {stock.skus.map((s) => (
              <tr key={s.sku_id}>
                <th scope="row">{activity.items.find((i) => i.sku_id === s.sku_id)?.name ?? s.sku_id}</th>
                {[
                  s.total,
                  s.mysql.available,
                  s.mysql.reserved,
                  s.mysql.sold,
                  s.gate.left,
                  s.gate.held,
                  s.journal,
                  s.in_flight,
                ].map((n, i) => (
                  <td key={i} class="number">
                    {count(n)}
                  </td>
                ))}
                <td class={`number ${s.difference ? 'bad' : 'good'}`}>
                  <b>{s.difference ? `${count(s.difference)} ✕` : w('agree')}</b>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
