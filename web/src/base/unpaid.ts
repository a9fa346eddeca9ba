// The unpaid orders that this browser has seen, for the badge of the header: no request is made for it.

import {effect, signal} from './signal.ts'
import {clock, userID} from './app.ts'
import {flightKey} from './storage.ts'
import {changed} from './tabs.ts'

// By order_sn, the end of the pay window. The key is one of the flights, so that sign-out removes it.
type Unpaid = Record<string, string>

const keyOf = (user: string) => flightKey(user, 'unpaid')

const DAY_MS = 86_400_000

export const unpaid = signal<Unpaid>({})

// ended holds orders that this page has seen closed or paid. What the gate has of them later is older.
const ended = new Set<string>()

// read returns what is stored, undefined where storage is blocked.
function read(user: string): Unpaid | undefined {
  let text: string | null
  try {
    text = localStorage.getItem(keyOf(user))
  } catch {
    return undefined
  }
  try {
    const stored: unknown = JSON.parse(text ?? '{}')
    return stored && typeof stored === 'object' && !Array.isArray(stored) ? {...(stored as Unpaid)} : {}
  } catch {
    return {} // damaged
  }
}

effect(() => {
  const user = userID()
  unpaid.value = (user && read(user)) || {}
})

addEventListener('storage', (event) => {
  const user = userID()
  if (user && event.key === keyOf(user)) unpaid.value = read(user) ?? {}
})

// noteOrder keeps an order of a user that is to be paid until expires_at, and drops one that was closed or paid: then it
// has no expires_at. The other tabs read theirs again if that is news.
export function noteOrder(user: string, order_sn: string, expires_at?: string): void {
  if (!user || user !== userID() || ended.has(order_sn)) return
  const all = read(user) ?? {...unpaid.value}
  if (!expires_at) ended.add(order_sn)
  if (!all[order_sn] === !expires_at) return
  for (const [sn, until] of Object.entries(all)) if (Date.parse(until) < clock.now() - DAY_MS) delete all[sn]
  if (expires_at) all[order_sn] = expires_at
  else delete all[order_sn]
  unpaid.value = all
  try {
    if (Object.keys(all).length) localStorage.setItem(keyOf(user), JSON.stringify(all))
    else localStorage.removeItem(keyOf(user))
  } catch {
    // The badge lasts until the page is left.
  }
  if (!expires_at) changed()
}
