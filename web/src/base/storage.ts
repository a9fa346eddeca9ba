// The purchase in flight of one buyer in one activity, kept over reloads and shared by tabs. It holds no token: a path
// is useless without its buyer's session.

import type {Line} from '../api/types.ts'

export interface Flight {
  path: string
  order_sn: string
  lines: Line[]
  accepted: boolean // the server responded 202 to the path
}

const PREFIX = 'flashsale:flight:'

export const flightKey = (user: string, activity: string) => `${PREFIX}${user}:${activity}`

// parse returns undefined for anything that is not a whole flight, so that damaged storage is no failure.
export function parse(text: string | null): Flight | undefined {
  try {
    const f = JSON.parse(text ?? '') as Flight
    const line = (l: Line) => typeof l.sku_id === 'string' && Number.isInteger(l.qty)
    const lines = f.lines.length > 0 && f.lines.every(line)
    return typeof f.path === 'string' && typeof f.order_sn === 'string' && lines ? f : undefined
  } catch {
    return undefined
  }
}

export interface FlightStore {
  read: () => Flight | undefined
  write: (f: Flight) => void
  remove: () => void
}

// memory holds, by key, what could not be stored.
const memory = new Map<string, string>()

// flightStore keeps the flight in localStorage, or in memory until the page is left where storage is blocked or full.
export function flightStore(user: string, activity: string): FlightStore {
  const key = flightKey(user, activity)
  return {
    read: () => {
      try {
        return parse(memory.get(key) ?? localStorage.getItem(key))
      } catch {
        return undefined
      }
    },
    write: (f) => {
      const text = JSON.stringify(f)
      try {
        localStorage.setItem(key, text)
        memory.delete(key)
      } catch {
        memory.set(key, text)
      }
    },
    remove: () => {
      memory.delete(key)
      try {
        localStorage.removeItem(key)
      } catch {
        // Nothing is stored.
      }
    },
  }
}

// removeFlights drops every purchase in flight, at sign-out.
export function removeFlights(): void {
  memory.clear()
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key)
  } catch {
    // Nothing is stored.
  }
}

// locked runs fn while no other tab runs one under the same name. Without Web Locks (http on a foreign host) it runs at
// once; the server still accepts each path once.
export function locked<T>(name: string, fn: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!('locks' in navigator)) return fn()
  return navigator.locks.request(name, {signal}, fn) as Promise<T>
}
