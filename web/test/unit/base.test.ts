import assert from 'node:assert/strict'
import {test} from 'node:test'
import {best, Clock, jumped} from '../../src/base/clock.ts'
import {retryAfter} from '../../src/api/client.ts'
import {fromMinor, toMinor} from '../../src/base/minor.ts'
import {money} from '../../src/base/money.ts'
import {getSession} from '../../src/api/session.ts'
import {loadSession, session, userID} from '../../src/base/app.ts'
import {retryable, retryDelay} from '../../src/base/retry.ts'
import {computed, effect, signal} from '../../src/base/signal.ts'
import {flightStore, parse, removeFlights} from '../../src/base/storage.ts'
import {choose, fill} from '../../src/base/words.ts'
import {clockFace} from '../../src/base/format.ts'
import {at} from '../../src/base/timer.ts'

test('the clock takes the sample with the smallest round trip', async () => {
  const trips = [400, 80, 900, 20, 300]
  const lags = [300, 60, 100, 11, 200] // of the way back; an offset errs by the difference of both ways
  let mono = 1_000_000
  const clock = new Clock({
    now: () => mono,
    ask: async () => {
      const trip = trips.shift() as number
      const back = lags.shift() as number
      mono += trip - back
      const server = mono + 7_000_000
      mono += back
      return server
    },
  })
  await clock.sync(5)
  assert.equal(trips.length, 0)
  assert.ok(Math.abs(clock.now() - mono - 7_000_000) <= 10, String(clock.now() - mono))
})

test('a sample that contradicts the others replaces them', () => {
  const old = {offset: 1000, rtt: 20, at: 0}
  assert.equal(jumped(old, {offset: 1015, rtt: 20, at: 60_000}), false)
  assert.equal(jumped(old, {offset: 9000, rtt: 20, at: 60_000}), true)
  assert.equal(best([old, {offset: 1, rtt: 500, at: 1000}], 2000), old)
})

test('servers whose clocks differ make no endless requests', async () => {
  let calls = 0
  let mono = 0
  const clock = new Clock({
    now: () => mono,
    ask: async () => {
      assert.ok(++calls < 50, 'the run does not end')
      mono += 2
      return mono + (calls % 2 ? 5000 : 0)
    },
  })
  await clock.sync(5)
  assert.ok(calls <= 5, String(calls))
})

test('a timer waits for server time and follows corrections', async () => {
  let server = 0
  const listeners = new Set<() => void>()
  const clock = {now: () => server, onSync: (fn: () => void) => (listeners.add(fn), () => listeners.delete(fn))} as unknown as Clock
  let fired = 0
  at(clock, 1000, () => fired++)
  assert.equal(fired, 0)
  server = 1000
  for (const fn of [...listeners]) fn()
  assert.equal(fired, 1)
  assert.equal(listeners.size, 0)
})

test('waits carry jitter and obey Retry-After', () => {
  assert.equal(retryDelay(0, 0, () => 0), 1000)
  assert.equal(retryDelay(9, 0, () => 0), 5000)
  assert.equal(retryDelay(0, 9, () => 0), 9000)
  assert.ok(retryDelay(0, 0, () => 0.99) > 1400)
  assert.deepEqual([0, 1, 2, 3, 9].map((n) => retryDelay(n, 0, () => 0)), [1000, 2000, 3000, 5000, 5000])
})

test('signals run their effects and computed values are fresh', () => {
  const a = signal(1)
  const twice = computed(() => a.value * 2)
  const seen: number[] = []
  const stop = effect(() => void seen.push(twice.value))
  a.value = 2
  a.value = 2
  stop()
  a.value = 3
  assert.deepEqual(seen, [2, 4])
  const b = signal(0)
  effect(() => {
    if (b.value < 3) b.value++
  })
  assert.equal(b.value, 3)
})

test('damaged storage is no flight', () => {
  for (const text of [null, '', '{', '{}', '{"path":"a","order_sn":"1","lines":[]}', '[]', '{"path":1,"order_sn":"1","lines":[{"sku_id":"1","qty":1}]}']) {
    assert.equal(parse(text), undefined, String(text))
  }
  assert.ok(parse('{"path":"a","order_sn":"1","lines":[{"sku_id":"1","qty":1}],"accepted":false}'))
})

test('an amount that can be read in two ways is refused', () => {
  for (const [text, digits, want] of [
    ['9000', 2, 900000],
    ['9000.00', 2, 900000],
    [' 12,50 ', 2, 1250],
    ['0.05', 2, 5],
    ['100', 0, 100],
    ['1234.500', 3, 1234500],
    ['0,500', 3, 500],
    ['01.500', 3, 1500],
    ['9,000', 2, undefined],
    ['2.500', 2, undefined],
    ['10,000', 0, undefined],
    ['1.500', 3, undefined],
    ['12,500', 3, undefined],
    ['1,234.50', 2, undefined],
    ['1 234', 2, undefined],
    ['12.5', 2, undefined],
    ['12.', 2, undefined],
    ['.50', 2, undefined],
    ['-1', 2, undefined],
    ['', 2, undefined],
  ] as const)
    assert.equal(toMinor(text, digits), want, `${text} with ${digits} decimals`)
})

test('an amount in a form is read as what was stored', () => {
  for (const digits of [0, 2, 3, 4])
    for (const minor of [1, 5, 99, 500, 999, 1000, 1500, 9900, 12345, 999999, 1000000, 1500000, 100000000000])
      assert.equal(toMinor(fromMinor(minor, digits), digits), minor, `${fromMinor(minor, digits)} with ${digits} decimals`)
})

test('a pause may be a number or a date', () => {
  const read = (value: string, date?: string) => retryAfter(new Headers({'Retry-After': value, ...(date && {Date: date})}))
  assert.equal(read('5'), 5)
  assert.equal(read('Sat, 28 Nov 2026 12:01:00 GMT', 'Sat, 28 Nov 2026 12:00:00 GMT'), 60)
  assert.equal(read('Sat, 28 Nov 2026 11:00:00 GMT', 'Sat, 28 Nov 2026 12:00:00 GMT'), 0)
  assert.ok(Math.abs(read(new Date(Date.now() + 60_000).toUTCString()) - 60) < 2)
  assert.equal(read('99999999'), 3600)
  for (const value of ['', '0', '-5', 'soon']) assert.equal(read(value), 0, value)
})

test('money has the decimals that the server names', () => {
  const shown = (minor: number, currency: string, currency_digits: number) => money(minor, {currency, currency_digits})
  assert.equal(shown(900000, 'EUR', 2), '€9,000.00')
  assert.equal(shown(250, 'USD', 2), 'US$2.50')
  assert.equal(shown(10000, 'JPY', 0), 'JP¥10,000')
  assert.equal(shown(100, 'CNY', 2), 'CN¥1.00')
  assert.equal(shown(990000, 'HUF', 2), 'HUF\u00a09,900.00')
  assert.equal(shown(1500, 'KWD', 3), 'KWD\u00a01.500')
})

test('language, texts and countdowns', () => {
  assert.equal(choose(['fr-FR', 'zh-Hant-TW', 'en']), 'zh')
  assert.equal(choose(['fr']), 'en')
  assert.equal(fill('{a} and {b}', {a: 1}), '1 and {b}')
  assert.deepEqual(clockFace(272_001), {days: 0, face: '04:33'})
  assert.deepEqual(clockFace(90_061_000), {days: 1, face: '01:01:01'})
  assert.deepEqual(clockFace(-5), {days: 0, face: '00:00'})
})

test('failures that may pass are repeated', () => {
  const f = (status: number) => ({ok: false as const, status, code: '', problem: {}, retryAfterS: 0})
  for (const status of [0, 429, 500, 502, 503, 504, 520, 524]) assert.equal(retryable(f(status)), true, String(status))
  for (const status of [400, 401, 403, 404, 409, 501]) assert.equal(retryable(f(status)), false, String(status))
})

test('a flight that cannot be stored is kept in memory', () => {
  const full = {getItem: () => null, removeItem: () => {}, setItem: () => assert.fail('full')}
  Object.defineProperty(globalThis, 'localStorage', {value: full, configurable: true})
  const flight = {path: 'a', order_sn: '1', lines: [{sku_id: '1', qty: 1}], accepted: false}
  flightStore('u', '1').write(flight)
  assert.deepEqual(flightStore('u', '1').read(), flight)
  assert.equal(flightStore('v', '1').read(), undefined)
  flightStore('u', '1').remove()
  assert.equal(flightStore('u', '1').read(), undefined)
  flightStore('u', '1').write(flight)
  removeFlights()
  assert.equal(flightStore('u', '1').read(), undefined)
})

test('a page in place of an answer is a failure that is repeated', async (t) => {
  t.mock.method(globalThis, 'fetch', async () => new Response('<html>', {headers: {'Content-Type': 'text/html'}}))
  const r = await getSession()
  assert.equal(r.ok, false)
  assert.equal(r.ok || retryable(r), true)
})

test('the session is read until the server responds, and kept meanwhile', async (t) => {
  t.mock.timers.enable({apis: ['setTimeout']})
  const answers = [new Response('', {status: 503}), new Response('', {status: 429}), Response.json({signed_in: true, user_id: '42'})]
  const fetched = t.mock.method(globalThis, 'fetch', async () => answers.shift() as Response)
  session.value = undefined
  let done = false
  void loadSession().then(() => (done = true))
  for (let i = 0; i < 50 && !done; i++) {
    await new Promise(setImmediate)
    assert.ok(done || session.value === undefined, 'signed out without a definite answer')
    t.mock.timers.tick(500)
  }
  assert.equal(userID(), '42')
  assert.equal(fetched.mock.callCount(), 3)
})
