import assert from 'node:assert/strict'
import {test} from 'node:test'
import type {Board, BoardPoint} from '../../src/api/types.ts'
import {apply, conversion, lastSecond, latestPoint, reasons, series, stack, windowOf, withoutRedis} from '../../src/console/board-data.ts'
import {differences} from '../../src/console/conflict.tsx'
import {fromLocal, toLocal} from '../../src/console/local-time.ts'
import {diff, edited, effect, patchOf} from '../../src/console/rule.ts'

const t0 = Date.parse('2026-11-23T10:00:00Z')
const point = (s: number, accepted: number, refused = {}): BoardPoint => ({
  at: new Date(t0 + s * 1000).toISOString(),
  left: 0,
  held: 0,
  sold: 0,
  accepted,
  paths: 0,
  refused,
})
const board = (points: BoardPoint[]) => ({points, units: {}, orders: {}, totals: {}}) as unknown as Board

test('an update replaces the point of its second and drops old ones', () => {
  let b = board([point(0, 1), point(1, 2)])
  b = apply(b, {as_of: '', state: 'open', point: point(1, 5)} as never)
  assert.deepEqual(b.points.map((p) => p.accepted), [1, 5])
  b = apply(b, {as_of: '', state: 'open', point: point(900, 9)} as never)
  assert.deepEqual(b.points.map((p) => p.accepted), [5, 9])
  assert.equal(apply(b, {as_of: 'x', state: 'paused', point: null} as never).state, 'paused')
})

test('a chart begins with the sale; the share of paid orders is whole percent', () => {
  const start = {starts_at: '2026-11-23T10:00:00Z'}
  const s = t0 / 1000
  assert.equal(windowOf(start, s - 1), 900) // before the start
  assert.equal(windowOf(start, s + 10), 60)
  assert.equal(windowOf(start, s + 99), 100)
  assert.equal(windowOf(start, s + 4000), 900)
  assert.deepEqual(series([point(0, 7), point(98, 1)], s + 99, 100, (p) => p.accepted).slice(0, 2), [7, 0])
  assert.equal(conversion({pending: 1, paid: 2, closed: 0, rejected: 0}), 66)
  assert.equal(conversion({pending: 0, paid: 0, closed: 0, rejected: 0}), 0)
  const full = {...board([]), room: {waiting: 1, admitted: 0, lapsed: 0, estimate_s: 1}}
  assert.equal(apply(full, {as_of: '', state: 'open', point: null} as never).room, undefined)
})

test('the latest figures are those of seconds that the server sends: they settle for 3 s', () => {
  const asOf = (ms: number, points: BoardPoint[]): Board => ({
    ...board(points),
    as_of: new Date(t0 + ms).toISOString(),
  })
  assert.equal(lastSecond(asOf(10_900, [])), t0 / 1000 + 7)
  assert.equal(latestPoint(asOf(10_000, [point(6, 1), point(7, 5)]))?.accepted, 5)
  assert.equal(latestPoint(asOf(10_999, [point(7, 5)]))?.accepted, 5)
  assert.equal(latestPoint(asOf(12_500, [point(7, 5)]))?.accepted, 5) // a sample was late
  assert.equal(latestPoint(asOf(13_000, [point(7, 5)])), undefined)
  assert.equal(latestPoint(asOf(10_000, [])), undefined)
})

test('a sale with degraded_sale shows whether it would go on without Redis, and why not', () => {
  const of = (mode: Board['mode'], degraded_readiness: Board['degraded_readiness']) => withoutRedis({mode, degraded_readiness})
  assert.equal(of('gate', 'off'), undefined)
  assert.equal(of('gate', 'inactive'), undefined)
  assert.deepEqual(of('gate', 'ready'), {tone: 'good', badge: 'redisless_ready'})
  assert.equal(of('direct', 'ready'), undefined)
  for (const mode of ['gate', 'direct', 'returning'] as const)
    for (const why of ['unread', 'outdated', 'importing'] as const)
      assert.deepEqual(of(mode, why), {tone: 'warning', badge: 'redisless_stops', note: `redisless_${why}`})
  // A change arrives with the events of each second.
  const b = apply({...board([]), degraded_readiness: 'ready'}, {degraded_readiness: 'outdated', point: null} as never)
  assert.equal(b.degraded_readiness, 'outdated')
})

test('series fill absent seconds with 0 and stack up', () => {
  const end = t0 / 1000 + 2
  const s = series([point(0, 3), point(2, 4)], end, 900, (p) => p.accepted)
  assert.deepEqual(s.slice(-3), [3, 0, 4])
  assert.deepEqual(stack([[1, 2], [3, 4]]), [[1, 2], [4, 6]])
  assert.deepEqual(reasons([point(0, 0, {a: 1, b: 5}), point(1, 0, {a: 2})]), ['b', 'a'])
})

test('differences of rules and of forms', () => {
  assert.deepEqual(diff({limit: 1, per: '1s'}, {limit: 2, burst: 5, per: '1s'}), [
    {field: 'burst', from: '', to: '5'},
    {field: 'limit', from: '1', to: '2'},
  ])
  assert.deepEqual(diff(undefined, {name: 'a', limit: 1}), [{field: 'limit', from: '', to: '1'}])
  assert.deepEqual(differences({a: 'A', b: 'B'}, {a: '1', b: '2'}, {a: '1', b: '3'}), [{label: 'B', yours: '2', theirs: '3'}])
})

test('a rule is edited by the fields that were typed', () => {
  const old = {limit: 5, per: '1m', burst: 9, key: 'user+param:activity_id'}
  assert.deepEqual(edited(old, {}), {rule: old, wrong: []})
  assert.equal(effect(old), 'Each user + param activity_id: 5 in 1m. Up to 9 at once. The others are refused.')
  const {rule, wrong} = edited(old, {limit: '0', burst: '', shadow: 'true'})
  assert.deepEqual(wrong, [])
  assert.deepEqual(patchOf(old, rule), {burst: null, limit: 0, refuse_all: true, shadow: true})
  assert.equal(effect(rule), 'Every request is refused.')
  assert.deepEqual(patchOf(rule, edited(rule, {limit: '3', shadow: ''}).rule), {limit: 3, refuse_all: null, shadow: null})
  // What the server would read as a default, or in two ways, is refused.
  for (const [field, text] of [['burst', '0'], ['per', '0s'], ['per', '0m0.0s'], ['per', '1'], ['per', '-1s'], ['limit', ''], ['limit', '1,5'], ['limit', '1e3'], ['cost', '1.5'], ['lease', '1%'], ['lease', '1,5']])
    assert.deepEqual(edited(old, {[field as 'per']: text}).wrong, [field], `${field} ${text}`)
  assert.deepEqual(edited({}, {per: '1s'}).wrong, ['limit'])
})

test('local times and back', () => {
  assert.equal(fromLocal(toLocal('2026-11-23T10:00:01Z')), '2026-11-23T10:00:01Z')
  assert.equal(fromLocal(''), '')
})

// In Berlin the clocks show 02:30 twice on 31 October 2027, and never on 28 March.
test('local times that occur twice or never', () => {
  const before = process.env['TZ']
  process.env['TZ'] = 'Europe/Berlin'
  try {
    for (const utc of ['2027-10-31T00:30:00Z', '2027-10-31T01:30:00Z', '2027-10-31T02:30:00Z', '2027-03-28T00:59:59Z', '2027-03-28T01:00:00Z']) {
      assert.equal(fromLocal(toLocal(utc)), utc)
    }
    assert.deepEqual(['2027-10-31T02:30', '2027-10-31T02:30#1', '2027-10-31T02:30#2', '2027-10-31T03:00'].map(fromLocal), [
      '',
      '2027-10-31T00:30:00Z',
      '2027-10-31T01:30:00Z',
      '2027-10-31T02:00:00Z',
    ])
    assert.equal(fromLocal('2027-03-28T02:30:00'), '')
    assert.equal(fromLocal('2027-02-30T02:30:00'), '')
  } finally {
    if (before === undefined) delete process.env['TZ']
    else process.env['TZ'] = before
  }
})
