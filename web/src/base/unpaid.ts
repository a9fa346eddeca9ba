// The unpaid orders that this browser has seen, for the badge of the header: no request is made for it.

import {effect, signal} from './signal.ts'
import {userID} from './app.ts'
import {flightKey} from './storage.ts'
import {changed} from './tabs.ts'

// By order_sn, the end of the pay window. The key is one of the flights, so that sign-out removes it.
type Unpaid = Record<string, string>

const key = () => flightKey(userID(), 'unpaid')

export const unpaid = signal<Unpaid>({})

const DAY_MS = 86_400_000

// ended holds orders that were seen to be no longer unpaid, here or in another tab. What is read of them later is older:
// the gate follows the orders, and two tabs must not correct each other for as long as that takes.
const ended = new Set<string>()

function read(): Unpaid {
  try {
    return (JSON.parse(localStorage.getItem(key()) ?? '{}') as Unpaid | null) ?? {}
  } catch {
    return {} // damaged, or blocked
  }
}

effect(() => void (unpaid.value = userID() ? read() : {}))

addEventListener('storage', (event) => {
  if (event.key !== key()) return
  const all = read()
  for (const sn of Object.keys(unpaid.value)) if (!all[sn]) ended.add(sn)
  unpaid.value = all
})

// noteOrder keeps an order that is to be paid until expires_at, and drops one that no longer is. Other tabs read theirs
// again if that is news.
export function noteOrder(order_sn: string, expires_at?: string): void {
  const all = read()
  if (!all[order_sn] === !expires_at || (expires_at && ended.has(order_sn))) return
  for (const [sn, until] of Object.entries(all)) if (Date.parse(until) < Date.now() - DAY_MS) delete all[sn]
  if (expires_at) all[order_sn] = expires_at
  else {
    delete all[order_sn]
    ended.add(order_sn)
  }
  unpaid.value = all
  try {
    if (Object.keys(all).length) localStorage.setItem(key(), JSON.stringify(all))
    else localStorage.removeItem(key())
  } catch {
    return // the badge lasts until the page is left
  }
  changed()
}
