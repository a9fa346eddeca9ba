// The state of one sale page: reads the sale, lights the button, makes the purchase and follows it.

import {computed, effect, signal, untracked} from '../base/signal.ts'
import {createPath, getReservation, getSale, listReservations, reserve} from '../api/buying.ts'
import {all, type Failure} from '../api/client.ts'
import {getOrder} from '../api/orders.ts'
import type {Line, Reservation, Sale} from '../api/types.ts'
import {clock, lost, session, tick, ticked, userID, visible} from '../base/app.ts'
import {around, loop, type Loop} from '../base/loop.ts'
import {retryDelay} from '../base/retry.ts'
import {flightKey, flightStore, locked} from '../base/storage.ts'
import {follow} from '../base/stream.ts'
import {onChanged} from '../base/tabs.ts'
import {at, sleep} from '../base/timer.ts'
import {noteOrder} from '../base/unpaid.ts'
import {chunk} from '../base/chunk.ts'
import {confirming} from './paying.tsx'
import {buy} from './purchase.ts'
import type {Entry} from './entry.ts'
import type {Room} from './room/room.tsx'
import {heldUnits, latest, leftOf, shown, stateOf, type Phase} from './saleview.ts'

// REFRESH_MS is the time between two reads of the sale, by its state. Caches in front serve them.
const REFRESH_MS = {scheduled: 20_000, open: 4000, paused: 3000, ended: 30_000}

// needs is how much stands before a purchase in a sale.
const needs = (sale?: Sale) => +!!sale?.waiting_room + +!!sale?.captcha

// note keeps a purchase for the badge while it waits for its payment.
function note(user: string, r: Reservation): void {
  if (r.status === 'created' || terminal(r.status)) noteOrder(user, r.order_sn, r.status === 'created' ? r.expires_at : undefined)
}

const terminal = (status?: string) => !!status && status !== 'queued' && status !== 'created'

export class SaleModel {
  readonly sale = signal<Sale | undefined>(undefined)
  readonly problem = signal<Failure | undefined>(undefined) // of the latest read of the sale
  readonly readAt = signal(0) // server time of the latest read that succeeded, ms
  readonly phase = signal<Phase>({kind: 'idle'})
  readonly reservations = signal<Reservation[]>([])
  readonly refusal = signal<Failure | undefined>(undefined) // of the latest press
  readonly kept = signal(false) // the session was lost, and a purchase waits for the next sign-in
  readonly barred = signal(0) // server time until which this buyer cannot buy, ms; 0: the buyer can
  readonly early = signal(false) // the button was pressed before the start
  readonly sku = signal('')
  readonly quantity = signal(1)
  readonly entry = signal<Entry | undefined>(undefined) // loaded where the sale has a waiting room or a challenge
  // late is an order whose deadline has passed, and whether a payment of it is in flight.
  readonly late = signal<{order_sn: string; confirming: boolean} | undefined>(undefined)
  readonly checked = signal(0) // server time at which the purchase was last polled, ms; 0 while a stream is open
  private readonly ownSeen = signal<{key: string; since: number}>({key: '', since: 0})
  private readonly wasSoldOut = signal(false)
  private readonly stop = new AbortController()
  private buying = false
  private readonly following = new Set<string>()
  private readingOwn?: {user: string; end: Promise<unknown>}
  private listening = false
  private cancelLight = () => {}
  private readonly ends: (() => void)[] = []
  private reading?: Loop

  private readonly read = async () => {
    const r = await getSale(this.id)
    if (this.stop.signal.aborted) return 0
    if (!r.ok) return (this.problem.value = r)
    this.received(r.data)
    return around(REFRESH_MS[stateOf(r.data, clock.now())])
  }

  readonly own = computed(() => latest(this.reservations.value))
  // chosen is what a press buys; while a purchase moves, what it buys.
  readonly chosen = computed((): Line[] => {
    const own = this.own.value
    if (own && !terminal(own.status) && own.lines.length) return own.lines
    return [{sku_id: this.sku.value, qty: Math.min(this.quantity.value, this.most())}]
  })
  readonly view = computed(() => {
    const view = shown({
      sale: this.sale.value,
      now: tick.value,
      signedIn: session.value?.signed_in,
      phase: this.phase.value,
      own: this.own.value,
      ownSince: this.ownSeen.value.since,
      held: heldUnits(this.reservations.value),
      barred: this.barred.value,
      refusal: this.refusal.value,
      sku: this.sku.value,
      wasSoldOut: this.wasSoldOut.value,
    })
    if (!needs(this.sale.value) || !view.button.startsWith('buy')) return view
    return this.entry.value ? this.entry.value.view(view) : {...view, enabled: false}
  })

  constructor(readonly id: string) {}

  start(): void {
    this.reading = loop(this.read)
    addEventListener('storage', this.stored, {signal: this.stop.signal})
    onChanged(() => void this.heard(), this.stop.signal)
    // A moment that seems past by the device's clock may not be by server time.
    this.ends.push(clock.onSync(() => this.sale.value && this.setLight(this.sale.value)))
    let before = ''
    this.ends.push(
      effect(() => {
        const user = userID()
        untracked(() => {
          if (user !== before) {
            this.reservations.value = []
            this.barred.value = 0
          }
          if (before || user) this.kept.value = !user && !!flightStore(before, this.id).read()
          before = user
          if (user) void this.resume(user)
        })
      }),
    )
  }

  close(): void {
    this.stop.abort()
    for (const end of this.ends) end()
    this.cancelLight()
    this.reading?.stop()
    this.entry.value?.close()
  }

  // refresh reads the sale now.
  readonly refresh = () => {
    ticked()
    this.reading?.again()
  }

  private received(sale: Sale): void {
    const before = this.sale.value
    this.problem.value = undefined
    this.readAt.value = clock.now()
    this.show(sale)
    if (needs(sale) > needs(before)) void this.enter(sale)
    // The fresh sale has the state that was the reason.
    if (this.refusal.value?.code.startsWith('activity_')) this.refusal.value = undefined
    // The choice stays on a SKU of this sale; at first it is one that is left.
    if (!sale.items.some((i) => i.sku_id === this.sku.value)) {
      this.sku.value = (sale.items.find((i) => i.left > 0) ?? sale.items[0])?.sku_id ?? ''
    }
    if (before?.starts_at !== sale.starts_at || before.ends_at !== sale.ends_at) this.setLight(sale)
  }

  // enter loads the parts of the sale that stand before a purchase. A challenge may be switched on while it is open.
  private async enter(sale: Sale): Promise<void> {
    const room = sale.waiting_room && !this.entry.value && (await chunk(() => import('./room/room.tsx')))
    const challenge = sale.captcha && !this.entry.value?.solves && (await chunk(() => import('./challenge/challenge.tsx')))
    if (this.stop.signal.aborted) return
    if (room) this.entry.value = new room.Room(this)
    if (challenge) this.entry.value = new challenge.Challenge(this, this.entry.value as Room | undefined)
  }

  private show(sale: Sale): void {
    this.sale.value = sale
    if (stateOf(sale, clock.now()) === 'open' && leftOf(sale) <= 0) this.wasSoldOut.value = true
    ticked()
  }

  // setLight sets a timer for the start itself and one for the end.
  private setLight(sale: Sale): void {
    this.cancelLight()
    const stops = [Date.parse(sale.starts_at), Date.parse(sale.ends_at)]
      .filter((moment) => moment > clock.now())
      .map((moment) =>
        at(clock, moment, () => {
          this.early.value = false
          ticked()
          // All pages light at the same moment; their next reads are spread over 3 s.
          void sleep(500 + Math.random() * 3000, this.stop.signal).then(this.refresh)
        }),
      )
    this.cancelLight = () => {
      for (const stop of stops) stop()
    }
  }

  // press is the one button.
  press(): void {
    const {view, enabled, button} = this.view.value
    if (view === 'scheduled') this.early.value = true
    if (!enabled || !button.startsWith('buy')) return
    if (button === 'buy_join') return void this.entry.value?.join()
    this.early.value = false
    void this.run(this.chosen.value)
  }

  // most is the largest quantity of one press: what the limit leaves to this buyer, at most 100.
  most(): number {
    return Math.max(1, Math.min(100, (this.sale.value?.per_user_limit ?? 1) - heldUnits(this.reservations.value)))
  }

  // run makes or continues the purchase of this buyer.
  private async run(lines?: Line[]): Promise<void> {
    const user = userID()
    if (this.buying || !user) return
    this.buying = true
    this.refusal.value = undefined
    ticked()
    this.phase.value = {kind: 'asking'}
    let outcome
    try {
      outcome = await buy(
        {
          shop: {createPath: () => createPath(this.id, this.entry.value?.permit), reserve: (path, wanted) => reserve(this.id, path, wanted)},
          store: flightStore(user, this.id),
          lock: (fn) => locked(`flashsale:${user}:${this.id}`, fn, this.stop.signal),
          sleep: (ms) => this.pause(ms),
          now: () => clock.now(),
          asking: () => {
            if (this.phase.value.kind !== 'asking') this.phase.value = {kind: 'asking'}
          },
          waiting: (failure, ms) => {
            if (failure.code === 'activity_not_started' || failure.code === 'limit_reached') return
            this.phase.value = {kind: 'waiting', failure, waitS: Math.ceil(ms / 1000)}
          },
          random: Math.random,
          ended: (sn) => this.reservations.value.some((r) => r.order_sn === sn && terminal(r.status) && r.status !== 'paid'),
          aborted: () => this.stop.signal.aborted || userID() !== user,
        },
        lines,
      )
    } catch {
      outcome = {kind: 'aborted' as const} // the lock request was aborted
    }
    this.buying = false
    if (this.stop.signal.aborted) return
    if (outcome.kind === 'accepted') {
      const {order_sn, status, events_url} = outcome.accepted
      const bought = flightStore(user, this.id).read()?.lines ?? lines ?? []
      this.update({order_sn, activity_id: this.id, status, events_url, lines: bought})
      this.phase.value = {kind: 'idle'}
      void this.followOwn(user, order_sn)
      return
    }
    this.phase.value = {kind: 'idle'}
    const now = userID()
    if (outcome.kind === 'refused') this.refused(outcome.failure)
    else if (now !== user) now && void this.resume(now)
    else void this.readOwn(user)
  }

  // pause waits before a purchase is repeated. Without a response before, it ends once the browser is online again.
  private pause(ms: number): Promise<void> {
    const {kind, failure} = this.phase.value as {kind: string; failure?: Failure}
    const end = new AbortController()
    const stop = () => end.abort()
    this.stop.signal.addEventListener('abort', stop, {signal: end.signal})
    if (kind === 'waiting' && !failure?.status) addEventListener('online', stop, {signal: end.signal})
    return sleep(ms, end.signal).finally(stop)
  }

  private refused(failure: Failure): void {
    if (failure.code === 'unauthenticated') lost()
    this.barred.value = Date.parse(String(failure.problem.barred_until)) || this.barred.value
    this.refusal.value = failure.problem.barred_until ? undefined : failure
    if (failure.code === 'limit_reached') void this.readOwn(userID())
    const sale = this.sale.value
    if (failure.code === 'sold_out' && sale) {
      // The sale on the page may be older than this answer, which is about the chosen SKU.
      const until = failure.problem.may_return_until as string | undefined
      this.show({
        ...sale,
        may_return_until: until ?? sale.may_return_until,
        items: sale.items.map((i) => (i.sku_id === this.sku.value ? {...i, left: 0} : i)),
      })
    }
    if (failure.code === 'activity_paused' && sale) this.sale.value = {...sale, state: 'paused'}
    if (failure.code === 'activity_ended' && sale) this.sale.value = {...sale, state: 'ended'}
  }

  // resume continues after a reload or a sign-in: the flight in storage first, then what the server has.
  private async resume(user: string): Promise<void> {
    this.refusal.value = undefined
    const flight = flightStore(user, this.id).read()
    // A reload keeps the choice of the press.
    const line = flight?.lines[0]
    if (line) {
      this.sku.value = line.sku_id
      this.quantity.value = line.qty
    }
    if (flight && !flight.accepted) return this.run()
    await this.readOwn(user)
    if (flight && !this.reservations.value.some((r) => r.order_sn === flight.order_sn)) {
      // The list did not have it: post the same path again, which returns its status and buys nothing twice.
      await this.run()
    }
  }

  // readOwn reads the purchases of a buyer. One reading at a time: callers meanwhile wait for it.
  private readOwn(user: string): Promise<unknown> {
    if (this.readingOwn?.user !== user) {
      const reading = {user, end: this.listOwn(user).finally(() => this.readingOwn === reading && (this.readingOwn = undefined))}
      this.readingOwn = reading
    }
    return this.readingOwn.end
  }

  private async listOwn(user: string): Promise<void> {
    for (let n = 0; !this.stop.signal.aborted && userID() === user; n++) {
      const before = this.reservations.value
      const r = await all((cursor) => listReservations(this.id, cursor))
      if (this.stop.signal.aborted || userID() !== user) return
      if (r.ok) {
        this.merge(before, r.data.items)
        // Without Redis the list has neither; what a refusal said still holds.
        if (r.data.cancellations_left !== undefined) this.barred.value = Date.parse(r.data.barred_until ?? '') || 0
        for (const one of this.reservations.value) note(user, one)
        this.seen()
        const own = this.own.value
        if (own && (own.status === 'queued' || own.status === 'created')) void this.followOwn(user, own.order_sn)
        else this.forgetFlight(user)
        return
      }
      if (r.code === 'unauthenticated') return lost()
      if (r.code === 'not_found') return
      await sleep(retryDelay(n, r.retryAfterS), this.stop.signal)
    }
  }

  // merge takes a list that was requested when the page had those before. A purchase that was accepted since is kept, and
  // one that has ended stays so: the order is closed or paid before the gate has it.
  private merge(before: readonly Reservation[], list: readonly Reservation[]): void {
    const now = this.reservations.value
    const of = (sn: string) => (r: Reservation) => r.order_sn === sn
    const fresh = now.filter((r) => !before.some(of(r.order_sn)) && !list.some(of(r.order_sn)))
    const kept = list.map((r) => now.find((own) => own.order_sn === r.order_sn && terminal(own.status) && !terminal(r.status)) ?? r)
    this.reservations.value = [...fresh, ...kept]
  }

  // heard reads what another tab has announced. The gate may follow its order a moment later.
  private async heard(): Promise<void> {
    if (this.listening) return
    this.listening = true
    const user = userID()
    const {key} = this.ownSeen.value
    for (const ms of [0, 1000, 2000, 4000]) {
      await sleep(ms, this.stop.signal)
      if (!user || userID() !== user || this.stop.signal.aborted || !visible.value || this.ownSeen.value.key !== key) break
      await this.readOwn(user)
    }
    this.listening = false
  }

  // forgetFlight drops a flight whose purchase has ended.
  private forgetFlight(user: string): void {
    const store = flightStore(user, this.id)
    const flight = store.read()
    if (!flight?.accepted) return
    const status = this.reservations.value.find((r) => r.order_sn === flight.order_sn)?.status
    if (terminal(status)) store.remove()
  }

  update(fresh: Reservation): void {
    const same = (r: Reservation) => r.order_sn === fresh.order_sn
    const list = this.reservations.value
    this.reservations.value = [{...list.find(same), ...fresh}, ...list.filter((r) => !same(r))]
    note(userID(), fresh)
    if (terminal(fresh.status)) this.forgetFlight(userID()) // so that the next press is a new purchase
    // One order too many may have ended. The gate has it a moment later.
    const user = userID()
    if (fresh.status === 'closed') void sleep(around(2000), this.stop.signal).then(() => userID() === user && this.readOwn(user))
    this.seen()
  }

  private seen(): void {
    const own = this.own.value
    const key = own ? `${own.order_sn} ${own.status}` : ''
    if (this.ownSeen.value.key !== key) {
      this.ownSeen.value = {key, since: clock.now()}
      this.refusal.value = undefined // a purchase has moved since
    }
    ticked()
  }

  private async followOwn(user: string, order_sn: string): Promise<void> {
    if (this.following.has(order_sn)) return
    this.following.add(order_sn)
    let gone = false
    const find = () => this.reservations.value.find((r) => r.order_sn === order_sn)
    const ended = () => gone || userID() !== user || terminal(find()?.status)
    const poll = async () => {
      const r = await getReservation(this.id, order_sn)
      if (this.stop.signal.aborted || userID() !== user) return false
      if (r.ok) this.update(r.data)
      else if (r.code === 'unauthenticated') lost()
      else if (r.code === 'not_found') {
        gone = true
        this.reservations.value = this.reservations.value.filter((own) => own.order_sn !== order_sn)
        void this.run() // its path, if it is stored, says what became of it
      }
      this.checked.value = clock.now()
      return r.ok
    }
    await follow({
      url: () => find()?.events_url,
      events: {status: (data) => userID() === user && this.update(data as Reservation)},
      poll,
      done: () => ended() || find()?.status === 'created',
      onMode: (mode) => {
        if (mode === 'stream') this.checked.value = 0
      },
      signal: this.stop.signal,
    })
    // An order waits for its payment for minutes: no stream is held for it.
    for (let n = 0; !ended() && !this.stop.signal.aborted; n++) {
      const deadline = Date.parse(find()?.expires_at ?? '') - clock.now()
      const unknown = deadline <= 0 && this.late.value?.order_sn !== order_sn // as after a reload
      const wait = deadline > 0 && deadline < 12_000 ? deadline + around(1000) : unknown ? retryDelay(n, 0) : around(10_000)
      await sleep(wait, this.stop.signal)
      if (!visible.value || this.stop.signal.aborted || ended()) continue
      await poll()
      if (ended() || !(Date.parse(find()?.expires_at ?? '') <= clock.now())) continue
      const order = await getOrder(order_sn)
      if (order.ok) this.late.value = {order_sn, confirming: order.data.state === 'pending' && confirming(order.data, clock.now())}
    }
    this.following.delete(order_sn)
    if (!this.stop.signal.aborted) {
      this.forgetFlight(user)
      this.refresh()
    }
  }

  // stored is called when another tab changed the storage.
  private readonly stored = (event: StorageEvent) => {
    const user = userID()
    if (user && event.key === flightKey(user, this.id) && event.newValue) {
      const flight = flightStore(user, this.id).read()
      if (flight?.accepted) void this.readOwn(user)
      else void this.run()
    }
  }
}
