import assert from 'node:assert/strict'
import {test} from 'node:test'
import type {Failure, Result} from '../../src/api/client.ts'
import type {Accepted, Path} from '../../src/api/types.ts'
import type {Flight} from '../../src/base/storage.ts'
import {buy, type Purchase} from '../../src/buyer/purchase.ts'

const refuse = (status: number, code: string, more: Record<string, unknown> = {}, retryAfterS = 0): Failure => ({
  ok: false,
  status,
  code,
  problem: more,
  retryAfterS,
})
const done = <T>(data: T): Result<T> => ({ok: true, data, etag: ''})
const path = done<Path>({path: 'secret', order_sn: '1', expires_at: ''})
const accepted = done<Accepted>({order_sn: '1', status: 'queued', result_url: '', events_url: ''})
const lines = [{sku_id: '1', qty: 1}]

function purchase(paths: Result<Path>[], answers: Result<Accepted>[], flight?: Flight) {
  const calls: string[] = []
  const waits: number[] = []
  let stored = flight
  const p: Purchase = {
    shop: {
      createPath: async () => (calls.push('path'), paths.shift() ?? path),
      reserve: async (secret) => (calls.push(`reserve ${secret} ${stored ? 'stored' : 'not stored'}`), answers.shift() ?? accepted),
    },
    store: {
      read: () => stored,
      write: (f) => {
        stored = f
      },
      remove: () => {
        stored = undefined
      },
    },
    lock: (fn) => fn(),
    sleep: async (ms) => void waits.push(ms),
    now: () => 1000,
    asking: () => {},
    waiting: () => {},
    aborted: () => false,
    random: () => 0,
    ended: (sn) => sn === '77',
  }
  return {p, calls, waits, flight: () => stored}
}

test('a press makes a path, stores it, then reserves by it', async () => {
  const {p, calls, flight} = purchase([], [])
  const outcome = await buy(p, lines)
  assert.equal(outcome.kind, 'accepted')
  assert.deepEqual(calls, ['path', 'reserve secret stored'])
  assert.equal(flight()?.accepted, true)
})

test('503, 429 and no response repeat the same path and wait as the server requests', async () => {
  const {p, calls, waits} = purchase([], [refuse(503, 'overloaded', {}, 7), refuse(429, 'rate_limited', {}, 1), refuse(0, 'unavailable')])
  assert.equal((await buy(p, lines)).kind, 'accepted')
  assert.deepEqual(calls, ['path', ...Array<string>(4).fill('reserve secret stored')])
  assert.deepEqual(waits, [7000, 2000, 3000])
})

test('a purchase in flight is continued, never made a second time', async () => {
  const {p, calls} = purchase([], [], {path: 'old', order_sn: '9', lines, accepted: true})
  assert.equal((await buy(p, [{sku_id: '2', qty: 3}])).kind, 'accepted')
  assert.deepEqual(calls, ['reserve old stored'])
})

test('without lines and without a flight nothing is sent', async () => {
  const {p, calls} = purchase([], [])
  assert.equal((await buy(p)).kind, 'none')
  assert.deepEqual(calls, [])
})

test('a refusal drops the flight; a lost session keeps it', async () => {
  const refused = purchase([], [refuse(409, 'sold_out')])
  assert.equal((await buy(refused.p, lines)).kind, 'refused')
  assert.equal(refused.flight(), undefined)
  const lost = purchase([], [refuse(401, 'unauthenticated')])
  assert.equal((await buy(lost.p, lines)).kind, 'refused')
  assert.equal(lost.flight()?.path, 'secret')
})

test('a failed server is asked again, and its path kept', async () => {
  const {p, calls} = purchase([], [refuse(500, 'internal'), refuse(524, 'unavailable')])
  assert.equal((await buy(p, lines)).kind, 'accepted')
  assert.deepEqual(calls, ['path', ...Array<string>(3).fill('reserve secret stored')])
  const odd = purchase([], [refuse(501, 'internal')])
  assert.equal((await buy(odd.p, lines)).kind, 'refused')
  assert.equal(odd.flight()?.path, 'secret')
})

test('the lock is free while a purchase waits', async () => {
  const {p} = purchase([refuse(503, 'overloaded')], [refuse(503, 'overloaded')])
  let held = false
  p.lock = async (fn) => {
    held = true
    return fn().finally(() => (held = false))
  }
  p.sleep = async () => assert.equal(held, false)
  assert.equal((await buy(p, lines)).kind, 'accepted')
})

test('a flight that another tab ended is not made again', async () => {
  const {p, calls} = purchase([], [refuse(503, 'overloaded')])
  p.sleep = async () => p.store.remove()
  assert.equal((await buy(p, lines)).kind, 'none')
  assert.deepEqual(calls, ['path', 'reserve secret stored'])
})

test('a press that the server finds early for long is repeated ever less often', async () => {
  const early = Array.from({length: 5}, () => refuse(409, 'activity_not_started', {starts_at: new Date(900).toISOString()}))
  const {p, waits} = purchase(early, [])
  assert.equal((await buy(p, lines)).kind, 'accepted')
  assert.deepEqual(waits, [50, 100, 200, 400, 800])
})

test('a press that is early by the server is repeated at the start', async () => {
  const {p, calls, waits} = purchase([refuse(409, 'activity_not_started', {starts_at: new Date(1400).toISOString()})], [])
  assert.equal((await buy(p, lines)).kind, 'accepted')
  assert.deepEqual(calls, ['path', 'path', 'reserve secret stored'])
  assert.deepEqual(waits, [400])
})

test('a limit that only an ended purchase holds is waited for, any other is not', async () => {
  const held = (...sns: string[]) => refuse(409, 'limit_reached', {order_sns: sns})
  const freed = purchase([held('77'), held('77')], [])
  assert.equal((await buy(freed.p, lines)).kind, 'accepted')
  assert.deepEqual(freed.waits, [1000, 1000])
  for (const refusal of [held('77', '78'), refuse(409, 'limit_reached', {order_sns: ['77'], barred_until: '2026-01-01T00:00:00Z'}), refuse(409, 'limit_reached')]) {
    assert.equal((await buy(purchase([refusal], []).p, lines)).kind, 'refused')
  }
  // A path that was refused bought nothing: the repetition makes another one, and nothing is stored meanwhile.
  const late = purchase([], [held('77')])
  assert.equal((await buy(late.p, lines)).kind, 'accepted')
  assert.deepEqual(late.calls, ['path', 'reserve secret stored', 'path', 'reserve secret stored'])
  const reloaded = purchase([], [held('77')], {path: 'secret', order_sn: '1', lines, accepted: false})
  assert.equal((await buy(reloaded.p)).kind, 'refused')
  assert.deepEqual(reloaded.calls, ['reserve secret stored'])
  assert.equal(reloaded.flight(), undefined)
  const left = purchase([], [held('77')])
  left.p.aborted = () => left.waits.length > 0
  assert.equal((await buy(left.p, lines)).kind, 'aborted')
  assert.equal(left.flight(), undefined)
  const always = purchase(Array<Result<Path>>(20).fill(held('77')), [])
  assert.equal((await buy(always.p, lines)).kind, 'refused')
  assert.equal(always.waits.length, 10)
})
