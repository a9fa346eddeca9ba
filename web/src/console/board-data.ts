// The points of the board as series for the chart and rows for the table.

import type {Board, BoardPoint, BoardUpdate} from '../api/types.ts'

export const WINDOW_S = 900

// SETTLE_S is the age from which the server sends a second, as each process of seckill adds its counts a little later:
// settleAfter in services/inventory/internal/board.
export const SETTLE_S = 3

// lastSecond is the newest second (s) that is complete in a board as of that moment.
export const lastSecond = (board: Board) => Math.floor(Date.parse(board.as_of) / 1000) - SETTLE_S

// TOLERANCE_S allows for late samples: a figure that is this much older still counts as the present one.
const TOLERANCE_S = 2

// latestPoint returns the newest point, or undefined if no purchase was tried in the last complete seconds.
export function latestPoint(board: Board): BoardPoint | undefined {
  const last = board.points.at(-1)
  return last && Date.parse(last.at) / 1000 >= lastSecond(board) - TOLERANCE_S ? last : undefined
}

// apply adds an update to a snapshot. A point of a second that is there replaces it; old ones are dropped.
export function apply(board: Board, update: BoardUpdate): Board {
  const {point, ...rest} = update
  let points = board.points
  if (point) {
    const from = Date.parse(point.at) - WINDOW_S * 1000
    points = points.filter((p) => p.at !== point.at && Date.parse(p.at) > from)
    points.push(point)
    points.sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
  }
  return {...board, ...rest, room: update.room, points} // without the gate there is no room
}

// reasons lists the codes of refusal, most frequent first.
export function reasons(points: readonly BoardPoint[]): string[] {
  const sums = new Map<string, number>()
  for (const p of points) for (const [code, n] of Object.entries(p.refused)) sums.set(code, (sums.get(code) ?? 0) + n)
  return [...sums].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([code]) => code)
}

// LEAST_S is the shortest window of a chart.
const LEAST_S = 60

// windowOf returns how many seconds up to `end` (s) a chart shows: since the start of the sale, at most 15 minutes.
export function windowOf(board: Pick<Board, 'starts_at'>, end: number): number {
  const since = end - Math.floor(Date.parse(board.starts_at) / 1000) + 1
  return since <= 0 ? WINDOW_S : Math.min(WINDOW_S, Math.max(LEAST_S, since))
}

// series has one value for each of the last n seconds up to `end` (s); seconds without a point are 0.
export function series(points: readonly BoardPoint[], end: number, n: number, value: (p: BoardPoint) => number): number[] {
  const values = new Array<number>(n).fill(0)
  for (const p of points) {
    const i = Math.floor(Date.parse(p.at) / 1000) - (end - n + 1)
    if (i >= 0 && i < n) values[i] = value(p)
  }
  return values
}

// conversion is the share of purchases that were paid, in whole percent.
export function conversion({pending, paid, closed, rejected}: Omit<Board['orders'], 'as_of'>): number {
  const all = pending + paid + closed + rejected
  return all ? Math.floor((100 * paid) / all) : 0
}

// stack makes cumulative series of several, for bands drawn on one another; the last is the largest.
export function stack(list: readonly number[][]): number[][] {
  const sums: number[][] = []
  for (const values of list) {
    const below = sums.at(-1)
    sums.push(values.map((v, i) => v + (below?.[i] ?? 0)))
  }
  return sums
}

// withoutRedis returns what the board shows of a sale with degraded_sale: whether it would go on without Redis, and why
// not. A sale that goes on without Redis already shows its mode.
export function withoutRedis({mode, degraded_readiness: ready}: Pick<Board, 'mode' | 'degraded_readiness'>) {
  if (ready === 'off' || ready === 'inactive') return undefined
  if (ready === 'ready') return mode === 'gate' ? {tone: 'good', badge: 'redisless_ready'} as const : undefined
  return {tone: 'warning', badge: 'redisless_stops', note: `redisless_${ready}`} as const
}

export const total = (refused: Record<string, number>) => Object.values(refused).reduce((sum, n) => sum + n, 0)
