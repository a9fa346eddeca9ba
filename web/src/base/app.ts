// What both documents share while they are open: settings, session, server time, connection.

import {signal} from './signal.ts'
import type {Failure} from '../api/client.ts'
import {getConfig, getSession, getTime, signOut as callSignOut} from '../api/session.ts'
import type {Config, Session} from '../api/types.ts'
import {Clock} from './clock.ts'
import {retryable, retryDelay} from './retry.ts'
import {removeFlights} from './storage.ts'
import {sleep} from './timer.ts'

const unknown: Config = {
  sign_in: 'none',
  payment_providers: [],
  captcha_work: 'everyone',
  brand: {name: 'Flashsale', logo_url: ''} as Config['brand'], // colours: those of the sheet
  languages: ['en', 'zh'],
  version: '',
}

export const config = signal<Config>(unknown)
export const configLoaded = signal(false)
// session is undefined until the server responded.
export const session = signal<Session | undefined>(undefined)
// signOutFailure is set while the latest sign-out is refused: the session still exists.
export const signOutFailure = signal<Failure | undefined>(undefined)
export const online = signal(navigator.onLine)
export const visible = signal(!document.hidden)

export const clock = new Clock({
  now: () => performance.now(),
  ask: async () => {
    const r = await getTime()
    return r.ok && Number.isFinite(r.data.server_time) ? r.data.server_time : undefined
  },
})

// tick is the server time (ms), renewed at each of its whole seconds, so that all screens count together.
export const tick = signal(clock.now())
export const ticked = () => (tick.value = clock.now())

export const userID = () => (session.value?.signed_in ? (session.value.user_id ?? '') : '')
export const hasRole = (role: string) =>
  !!session.value?.signed_in && (session.value.roles ?? []).some((r) => r === role || r === 'operator')

let sessionTurn = 0

// loadSession reads the session, repeatedly until the server responds. A later call, or a sign-out, supersedes it.
export async function loadSession(): Promise<void> {
  const turn = ++sessionTurn
  for (let n = 0; ; n++) {
    const r = await getSession()
    if (turn !== sessionTurn) return
    if (r.ok || !retryable(r)) {
      const fresh = r.ok ? r.data : (session.value ?? {signed_in: false})
      // Effects run at each assignment; most reads find the same session.
      if (JSON.stringify(fresh) !== JSON.stringify(session.value)) session.value = fresh
      return
    }
    await sleep(retryDelay(n, r.retryAfterS))
  }
}

async function loadConfig(): Promise<void> {
  for (let n = 0; ; n++) {
    const r = await getConfig()
    if (r.ok) {
      config.value = {...unknown, ...r.data, brand: {...unknown.brand, ...r.data.brand}}
      brand()
      break
    }
    await sleep(retryDelay(n, r.retryAfterS))
  }
  configLoaded.value = true
}

// brand puts the colours of the settings in place of those of the sheet.
function brand(): void {
  for (const name of ['accent', 'accent_ink', 'accent_dark', 'accent_ink_dark'] as const) {
    const value = config.value.brand[name]
    if (!/^#[0-9a-f]{6}$/i.test(value)) continue
    document.documentElement.style.setProperty(`--brand-${name.replace(/_/g, '-')}`, value)
  }
}

// lost notes that the session ended on the server.
export function lost(): void {
  if (session.value?.signed_in !== false) session.value = {signed_in: false}
}

export async function signOut(): Promise<void> {
  const r = await callSignOut()
  signOutFailure.value = r.ok ? undefined : r
  if (!r.ok) return
  sessionTurn++
  removeFlights()
  session.value = {signed_in: false}
  // The provider's page comes next where there is one; anything but an address is ignored.
  if (r.data && /^(https?:\/\/|\/(?!\/))/.test(r.data.next) && r.data.next !== '/') location.assign(r.data.next)
}

const MINUTE_MS = 60_000

// start loads everything once and keeps it fresh.
export function start(): void {
  void loadConfig()
  void loadSession()
  void keepTime()
  void keepTicking()
  addEventListener('online', () => {
    online.value = true
    void loadSession()
  })
  addEventListener('offline', () => {
    online.value = false
  })
  document.addEventListener('visibilitychange', () => {
    visible.value = !document.hidden
    ticked()
    if (document.hidden) return
    void clock.sync(2)
    // Another tab may have signed out, or in as another user.
    void loadSession()
  })
}

async function keepTicking(): Promise<void> {
  clock.onSync(ticked)
  for (let gap = 0; ; ) {
    // The monotonic clock stops in a suspended machine; the device's clock does not.
    const now = Date.now() - performance.now()
    if (gap && Math.abs(now - gap) > 1500) void clock.sync(2)
    gap = now
    ticked()
    await sleep(1000 - (clock.now() % 1000) + 5)
  }
}

async function keepTime(): Promise<void> {
  for (let n = 0; ; n++) {
    await clock.sync(clock.synced ? 1 : 5)
    await sleep(clock.synced ? MINUTE_MS * (0.9 + Math.random() * 0.2) : retryDelay(n, 0))
  }
}
