import assert from 'node:assert/strict'
import {test} from 'node:test'
import type {Failure} from '../../src/api/client.ts'
import type {Reservation, Sale, SaleItem} from '../../src/api/types.ts'
import {heldUnits, latest, shown, stateOf, type Known, type View} from '../../src/buyer/saleview.ts'

const start = Date.parse('2026-11-23T10:00:00Z')
const item = (left: number): SaleItem => ({
  sku_id: '1',
  name: 'A',
  image_url: '',
  price: 1,
  list_price: 0,
  currency: 'EUR',
  currency_digits: 2,
  total: 10,
  left,
  paused: false,
})
const sale = (more: Partial<Sale> = {}): Sale => ({
  activity_id: '1',
  title: 'T',
  state: 'scheduled',
  starts_at: '2026-11-23T10:00:00Z',
  ends_at: '2026-11-23T11:00:00Z',
  server_time: '2026-11-23T09:00:00Z',
  per_user_limit: 1,
  pay_within_s: 900,
  captcha: false,
  waiting_room: false,
  description: '',
  image_url: '',
  items: [item(5)],
  ...more,
})
const known = (more: Partial<Known> = {}): Known => ({
  sale: sale(),
  now: start + 1,
  signedIn: true,
  phase: {kind: 'idle'},
  held: 0,
  wasSoldOut: false,
  ...more,
})
const own = (status: Reservation['status'], more: Partial<Reservation> = {}): Reservation => ({
  order_sn: '9',
  activity_id: '1',
  status,
  lines: [{sku_id: '1', qty: 1}],
  events_url: '',
  ...more,
})
const refusal = (code: string, problem = {}): Failure => ({ok: false, status: 409, code, problem, retryAfterS: 0})
const soldOut = [item(0)]

test('the clock lights the button, not the state of a cached sale', () => {
  assert.equal(stateOf(sale(), start - 1), 'scheduled')
  assert.equal(stateOf(sale(), start), 'open')
  assert.equal(stateOf(sale({state: 'open'}), start + 3_600_000), 'ended')
  assert.equal(stateOf(sale({state: 'open'}), start - 300_000), 'open') // the server's word, where its time is not known
  assert.deepEqual(shown(known({now: start - 1})), {view: 'scheduled', button: 'buy', enabled: false})
  assert.deepEqual(shown(known({now: start})), {view: 'lit', button: 'buy', enabled: true})
})

test('each state has its view', () => {
  const views: [Partial<Known>, string, boolean][] = [
    [{sale: undefined}, 'loading', false],
    [{signedIn: false}, 'signed_out', true],
    [{phase: {kind: 'asking'}}, 'asking', false],
    [{phase: {kind: 'waiting', failure: refusal('overloaded'), waitS: 1}}, 'waiting', false],
    [{own: own('queued'), ownSince: start}, 'queued', false],
    [{own: own('queued'), ownSince: start - 31_000}, 'queued_long', false],
    [{own: own('created'), held: 1}, 'created', true],
    [{own: own('paid'), held: 1}, 'paid', false],
    [{own: own('closed', {reason: 'expired'})}, 'closed', true],
    [{own: own('failed', {reason: 'sold_out'})}, 'failed', true],
    [{sale: sale({items: soldOut})}, 'sold_out', false],
    [{sale: sale({items: soldOut, may_return_until: '2026-11-23T10:20:00Z'})}, 'may_return', false],
    [{wasSoldOut: true}, 'back', true],
    [{sale: sale({state: 'paused'})}, 'paused', false],
    [{sale: sale({state: 'ended'})}, 'ended', false],
    [{refusal: refusal('limit_reached')}, 'refused', false],
    [{refusal: refusal('path_expired')}, 'refused', true],
    [{barred: start + 3_600_000}, 'barred', false],
    [{barred: start}, 'lit', true],
    [{barred: start + 3_600_000, own: own('closed', {reason: 'cancelled'})}, 'barred', false],
    [{barred: start + 3_600_000, own: own('created'), held: 1}, 'created', true],
    [{barred: start + 3_600_000, sale: sale({items: soldOut})}, 'sold_out', false],
    [{barred: start + 3_600_000, sale: sale({state: 'paused'})}, 'paused', false],
    [{barred: start + 3_600_000, signedIn: false}, 'signed_out', true],
  ]
  for (const [more, view, enabled] of views) {
    const s = shown(known(more))
    assert.equal(s.view, view, JSON.stringify(more))
    assert.equal(s.enabled, enabled, JSON.stringify(more))
  }
})

test('a visitor sees that nothing can be bought', () => {
  const views: [Partial<Sale>, View][] = [
    [{}, 'signed_out'],
    [{state: 'paused'}, 'paused'],
    [{items: soldOut}, 'sold_out'],
    [{items: soldOut, may_return_until: '2026-11-23T10:20:00Z'}, 'may_return'],
    [{state: 'ended'}, 'ended'],
  ]
  for (const [more, view] of views) assert.equal(shown(known({signedIn: false, sale: sale(more)})).view, view, JSON.stringify(more))
})

test('an old refusal does not promise what the fresh sale does not', () => {
  const old = refusal('sold_out', {may_return_until: '2026-11-23T10:20:00Z'})
  assert.equal(shown(known({sale: sale({items: soldOut}), refusal: old})).view, 'sold_out')
})

test('a purchase comes before the end of the sale', () => {
  assert.equal(shown(known({sale: sale({state: 'ended'}), own: own('created')})).view, 'created')
  assert.equal(shown(known({sale: sale({state: 'paused'}), own: own('queued'), ownSince: start})).view, 'queued')
})

test('units held and the purchase that the page is about', () => {
  const list = [own('closed', {order_sn: '3'}), own('created', {order_sn: '2', lines: [{sku_id: '1', qty: 2}]}), own('paid', {order_sn: '1'})]
  assert.equal(heldUnits(list), 3)
  assert.equal(latest(list)?.order_sn, '2')
})
