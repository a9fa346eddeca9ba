// Checks of a ticket against the published draw, computed in the browser as docs/draw.md specifies.

import type {Draw, RoomState} from '../../api/types.ts'

type Bytes = Uint8Array<ArrayBuffer>

// Ticket is what a ticket consists of, without its MAC.
export interface Ticket {
  sequence: number
  nonce: Bytes
}

export type CheckName = 'commitment' | 'proof' | 'root' | 'key_hash' | 'key' | 'seed' | 'place'

export interface Check {
  name: CheckName
  ok?: boolean // undefined: the values are not published yet
  lost?: boolean // the system has lost this ticket, which keeps its place
  place?: number // that the draw gives
}

// Before is what the page read earlier.
export interface Before {
  key_sha256?: string
  root?: string
}

// LOST is the commitment of a ticket that the system has lost before the draw.
const LOST = '0'.repeat(64)

const ROUNDS = 10
const text = new TextEncoder()

export function parseTicket(ticket: string): Ticket | undefined {
  const [sequence, nonce] = ticket.split('.')
  try {
    const raw = atob((nonce ?? '').replace(/-/g, '+').replace(/_/g, '/'))
    if (!/^[1-9]\d{0,15}$/.test(sequence ?? '') || raw.length !== 16) return undefined
    return {sequence: Number(sequence), nonce: Uint8Array.from(raw, (c) => c.charCodeAt(0))}
  } catch {
    return undefined
  }
}

export const hex = (bytes: Bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')

// unhex returns no bytes for a text that is not hexadecimal.
export const unhex = (value = ''): Bytes =>
  /^([0-9a-f]{2})*$/.test(value) ? Uint8Array.from(value.match(/../g) ?? [], (b) => Number.parseInt(b, 16)) : new Uint8Array()

function join(...parts: Bytes[]): Bytes {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0))
  let at = 0
  for (const p of parts) {
    all.set(p, at)
    at += p.length
  }
  return all
}

const sha256 = async (...parts: Bytes[]): Promise<Bytes> => new Uint8Array(await crypto.subtle.digest('SHA-256', join(...parts)))

// uint64 is a number up to 2^53 as 8 bytes, big-endian.
function uint64(n: number): Bytes {
  const bytes = new Uint8Array(8)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, Math.floor(n / 2 ** 32))
  view.setUint32(4, n % 2 ** 32)
  return bytes
}

export const commit = (activity: string, user: string, nonce: Bytes) =>
  sha256(text.encode(`flashsale ticket v1\n${activity}\n${user}\n`), nonce)

// rootOf computes the root from a leaf and its audit path (RFC 9162, 2.1.3.2); undefined if the path has a wrong length.
export async function rootOf(sequence: number, commitment: Bytes, path: Bytes[], count: number): Promise<Bytes | undefined> {
  const node = (left: Bytes, right: Bytes) => sha256(Uint8Array.of(1), left, right)
  const half = (n: number) => Math.floor(n / 2)
  let at = sequence - 1
  let last = count - 1
  if (at > last) return undefined
  let r = await sha256(Uint8Array.of(0), uint64(sequence), commitment)
  for (const sibling of path) {
    if (!last) return undefined
    if (at % 2 || at === last) {
      r = await node(sibling, r)
      while (at % 2 === 0 && at) {
        at = half(at)
        last = half(last)
      }
    } else r = await node(r, sibling)
    at = half(at)
    last = half(last)
  }
  return last ? undefined : r
}

export async function seedOf(key: Bytes, root: Bytes, beacon: Bytes): Promise<Bytes> {
  const hmac = await crypto.subtle.importKey('raw', key, {name: 'HMAC', hash: 'SHA-256'}, false, ['sign'])
  return new Uint8Array(await crypto.subtle.sign('HMAC', hmac, join(root, beacon)))
}

// placeOf is the image of a sequence number under the permutation of the draw: a Feistel network with cycle walking.
export async function placeOf(sequence: number, count: number, seed: Bytes): Promise<number> {
  let bits = 0
  for (let n = count - 1; n; n = Math.floor(n / 2)) bits++
  const size = 2 ** Math.max(4, Math.ceil(bits / 2)) // of a half; at most 2^27
  let x = sequence - 1
  do {
    let left = Math.floor(x / size)
    let right = x % size
    for (let round = 0; round < ROUNDS; round++) {
      const digest = await sha256(seed, Uint8Array.of(round), uint64(right))
      const f = new DataView(digest.buffer).getUint32(4) % size
      ;[left, right] = [right, left ^ f]
    }
    x = left * size + right
  } while (x >= count)
  return x + 1
}

// verify computes all checks of a ticket. Values that are not published yet leave a check open.
export async function verify(activity: string, user: string, ticket: Ticket, state: RoomState, before: Before): Promise<Check[]> {
  const {draw, proof} = state
  const open = (name: CheckName): Check => ({name})
  const checks: Check[] = [{name: 'key_hash', ok: !before.key_sha256 || before.key_sha256 === draw.key_sha256}]
  const count = draw.early_tickets ?? 0
  if (!draw.root || !proof) return [...checks, ...(['commitment', 'proof', 'key', 'seed', 'place'] as const).map(open)]
  checks.push({name: 'root', ok: !before.root || before.root === draw.root})
  const lost = proof.commitment === LOST
  const commitment = lost ? unhex(LOST) : await commit(activity, user, ticket.nonce)
  const own = hex(commitment) === proof.commitment && proof.sequence === ticket.sequence
  checks.push({name: 'commitment', ok: lost && own ? undefined : own, lost})
  const root = await rootOf(ticket.sequence, commitment, proof.path.map(unhex), count)
  checks.push({name: 'proof', ok: !!root && hex(root) === draw.root})
  if (!draw.key || !draw.seed) return [...checks, ...(['key', 'seed', 'place'] as const).map(open)]
  return [...checks, ...(await verifyPlace(ticket, state.place, draw, count))]
}

async function verifyPlace({sequence}: Ticket, published: number | undefined, draw: Draw, count: number): Promise<Check[]> {
  const key = unhex(draw.key)
  const seed = key.length ? await seedOf(key, unhex(draw.root), unhex(draw.beacon)) : key
  const place = sequence <= count ? await placeOf(sequence, count, seed) : 0
  return [
    {name: 'key', ok: hex(await sha256(key)) === draw.key_sha256},
    {name: 'seed', ok: hex(seed) === draw.seed},
    {name: 'place', ok: published === undefined ? undefined : published === place, place},
  ]
}
