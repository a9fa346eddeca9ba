import assert from 'node:assert/strict'
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {test} from 'node:test'
import type {RoomState} from '../../src/api/types.ts'
import {commit, hex, parseTicket, placeOf, rootOf, seedOf, unhex, verify} from '../../src/buyer/room/verify.ts'

// The vector of docs/draw.md: activity 7, users u1 to u5, the nonce of user n is 16 bytes of value n.
const document = readFileSync(path.resolve('..', 'docs/draw.md'), 'utf8')
const published = JSON.parse(/## Test vector[\s\S]*?```json\n([\s\S]*?)```/.exec(document)?.[1] ?? '') as RoomState['draw']
const rows = [...document.matchAll(/^\| (\d) \| `([0-9a-f]{64})` \| (\d) \|$/gm)].map((m) => ({
  sequence: Number(m[1]),
  commitment: m[2] as string,
  place: Number(m[3]),
}))
const nonce = (n: number) => new Uint8Array(16).fill(n)

const sha256 = async (...parts: Uint8Array[]) => new Uint8Array(await crypto.subtle.digest('SHA-256', Buffer.concat(parts)))
const node = (l: Uint8Array, r: Uint8Array) => sha256(Uint8Array.of(1), l, r)
const leaf = (n: number) => sha256(Uint8Array.of(0), Buffer.from(`000000000000000${n}`, 'hex'), unhex(rows[n - 1]?.commitment))

// pathsOf returns the audit paths of five leaves, written down by hand: ((1 2) (3 4)) 5.
async function pathsOf() {
  const [a, b, c, d, e] = (await Promise.all([1, 2, 3, 4, 5].map(leaf))) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array]
  const [ab, cd] = [await node(a, b), await node(c, d)]
  return [[b, cd, e], [a, cd, e], [d, ab, e], [c, ab, e], [await node(ab, cd)]].map((p) => p.map((h) => Buffer.from(h).toString('hex')))
}

const state = async (n: number): Promise<RoomState> => ({
  state: 'waiting',
  place: rows[n - 1]?.place,
  proof: {sequence: n, commitment: rows[n - 1]?.commitment as string, path: (await pathsOf())[n - 1] as string[]},
  draw: published,
})

test('commitments, root, seed and places are those of the specification', async () => {
  assert.equal(rows.length, 5)
  const paths = await pathsOf()
  for (const {sequence, commitment, place} of rows) {
    assert.equal(hex(await commit('7', `u${sequence}`, nonce(sequence))), commitment)
    const root = await rootOf(sequence, unhex(commitment), (paths[sequence - 1] as string[]).map(unhex), 5)
    assert.equal(root && hex(root), published.root)
    assert.equal(await placeOf(sequence, 5, unhex(published.seed)), place)
  }
  assert.equal(hex(await seedOf(unhex(published.key), unhex(published.root), unhex(published.beacon))), published.seed)
})

test('places are a permutation, also of one ticket and of sizes around a power of two', async () => {
  for (const count of [1, 2, 255, 256, 257, 300]) {
    const places = await Promise.all(Array.from({length: count}, (_, i) => placeOf(i + 1, count, unhex(published.seed))))
    assert.deepEqual(places.sort((a, b) => a - b), Array.from({length: count}, (_, i) => i + 1))
  }
})

test('a ticket that the system has lost is an empty leaf', async () => {
  const empty = new Uint8Array(32)
  const lost = await sha256(Uint8Array.of(0), Buffer.from('0000000000000002', 'hex'), empty)
  const [a, cd, e] = [await leaf(1), await node(await leaf(3), await leaf(4)), await leaf(5)]
  const root = hex(new Uint8Array(await node(await node(await node(a, lost), cd), e)))
  const proof = {sequence: 2, commitment: hex(empty), path: [a, cd, e].map((h) => hex(new Uint8Array(h)))}
  const draw = {activity_id: '7', key_sha256: published.key_sha256, root, early_tickets: 5}
  const checks = await verify('7', 'u2', {sequence: 2, nonce: nonce(2)}, {state: 'early', proof, draw}, {})
  const of = (name: string) => checks.find((c) => c.name === name)
  assert.deepEqual(of('commitment'), {name: 'commitment', ok: undefined, lost: true})
  assert.equal(of('proof')?.ok, true)
})

test('a ticket is read; what is none is refused', () => {
  assert.deepEqual(parseTicket(`4711.${Buffer.from(nonce(255)).toString('base64url')}.q83v`), {sequence: 4711, nonce: nonce(255)})
  for (const text of ['', '1', '0.AQEBAQEBAQEBAQEBAQEBAQ.x', 'x.AQEBAQEBAQEBAQEBAQEBAQ.x', '1.AQEB.x', '1.!!.x']) {
    assert.equal(parseTicket(text), undefined, text)
  }
})

test('all checks of an honest draw pass', async () => {
  for (let n = 1; n <= 5; n++) {
    const checks = await verify('7', `u${n}`, {sequence: n, nonce: nonce(n)}, await state(n), {key_sha256: published.key_sha256})
    assert.equal(checks.length, 7)
    for (const c of checks) assert.equal(c.ok, true, c.name)
    assert.equal(checks.at(-1)?.place, rows[n - 1]?.place)
  }
})

test('checks of values that are not published are open', async () => {
  const {proof} = await state(2)
  const draw = {activity_id: '7', key_sha256: published.key_sha256}
  const open = async (s: RoomState) =>
    (await verify('7', 'u2', {sequence: 2, nonce: nonce(2)}, s, {})).filter((c) => c.ok === undefined).map((c) => c.name)
  assert.deepEqual(await open({state: 'early', draw}), ['commitment', 'proof', 'key', 'seed', 'place'])
  assert.deepEqual(await open({state: 'early', proof, draw: {...draw, root: published.root, early_tickets: 5}}), ['key', 'seed', 'place'])
})

test('each lie fails its check', async () => {
  const honest = await state(3)
  const zero = '0'.repeat(64)
  const proof = honest.proof as NonNullable<RoomState['proof']>
  const lies: [string, Partial<RoomState>, string?][] = [
    ['key_hash', {draw: {...published, key_sha256: zero}}],
    ['root', {draw: {...published, root: zero}}],
    ['commitment', {proof: {...proof, commitment: 'ab'.repeat(32)}}],
    ['proof', {proof: {...proof, commitment: zero}}], // as if it were lost
    ['commitment', {proof: {...proof, sequence: 4}}],
    ['commitment', {}, 'another'],
    ['proof', {}, 'another'],
    ['proof', {proof: {...proof, path: proof.path.slice(1)}}],
    ['proof', {proof: {...proof, path: [...proof.path, zero]}}],
    ['proof', {draw: {...published, early_tickets: 2}}],
    ['key', {draw: {...published, key: zero}}],
    ['seed', {draw: {...published, beacon: 'beac02'}}],
    ['place', {place: 1}],
  ]
  for (const [name, lie, user = 'u3'] of lies) {
    const before = {key_sha256: published.key_sha256, root: published.root}
    const checks = await verify('7', user, {sequence: 3, nonce: nonce(3)}, {...honest, ...lie}, before)
    assert.equal(checks.find((c) => c.name === name)?.ok, false, name)
  }
})
