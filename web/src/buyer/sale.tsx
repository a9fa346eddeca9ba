import {useEffect, useMemo, useState} from 'preact/hooks'
import type {Line, Order, Reservation, Sale, SaleItem} from '../api/types.ts'
import {clock, config, online, session, tick} from '../base/app.ts'
import {count, time} from '../base/format.ts'
import {money} from '../base/money.ts'
import {useEffectOf} from '../base/mount.ts'
import {Bar, Link, Picture, Wrong} from '../base/parts.tsx'
import {code, codeKey, say} from '../base/problem.ts'
import {SignIn} from '../base/sign-in.tsx'
import {Countdown, countdownText, Face, Spoken} from './countdown.tsx'
import type {Deadline} from './entry.ts'
import {orderURL, ordersPart, Unread} from './parts.tsx'
import {PayButton} from './paying.tsx'
import {SaleModel} from './sale-model.ts'
import {leftOf, stateOf, type SaleState} from './saleview.ts'
import {w} from './words.ts'

export function SalePage({id}: {id: string}) {
  const model = useMemo(() => new SaleModel(id), [id])
  useEffect(() => {
    model.start()
    return () => model.close()
  }, [model])
  useEffectOf(() => {
    document.title = title(model)
  })
  const sale = model.sale.value
  const bought = !!model.own.value
  useEffect(() => {
    // What may be needed next is loaded before it is pressed.
    if (bought) idle(() => void ordersPart.preload())
  }, [bought])
  if (!sale) return <Unread failure={model.problem.value} retry={model.refresh} />
  return <SaleBody model={model} sale={sale} />
}

const idle = (fn: () => void) => ('requestIdleCallback' in window ? requestIdleCallback(fn) : setTimeout(fn, 1000))

// title carries the countdown, so that a tab in the background shows it.
function title(model: SaleModel): string {
  const sale = model.sale.value
  const brand = config.value.brand.name
  if (!sale) return brand
  const now = tick.value
  const own = model.own.value
  const {view} = model.view.value
  const until = (moment: string) => countdownText(Date.parse(moment) - now)
  if (view === 'created' && own?.expires_at) return `${until(own.expires_at)} ${w('pay')} · ${sale.title}`
  if (stateOf(sale, now) === 'scheduled') return `${until(sale.starts_at)} · ${sale.title}`
  if (view === 'entry') return `${model.entry.value?.title ?? ''}${sale.title}`
  if (view === 'lit' || view === 'back') return `● ${sale.title} · ${brand}`
  return `${sale.title} · ${brand}`
}

function SaleBody({model, sale}: {model: SaleModel; sale: Sale}) {
  const now = tick.value
  const {view, button, enabled} = model.view.value
  const [refusal, setRefusal] = useState({order_sn: '', why: ''}) // of a payment
  const own = model.own.value
  const state = stateOf(sale, now)
  const created = view === 'created' ? own : undefined
  const payable = created && !isLate(created, now)
  const stale = !!model.problem.value || !online.value
  const choosing = button.startsWith('buy')
  const chosen = model.chosen.value
  const {sku_id, qty} = chosen[0] as Line
  const item = sale.items.find((i) => i.sku_id === sku_id) ?? sale.items[0]
  return (
    <article class={`sale view-${view}${stale ? ' stale' : ''}`}>
      <Picture url={item?.image_url || sale.image_url} name={sale.title} alt={w('image_of', {name: item?.name ?? sale.title})} eager>
        <Notice sale={sale} state={state} now={now} />
      </Picture>
      <div class="sale-body">
        <div class="sale-head">
          <h1 dir="auto">{sale.title}</h1>
          {item && <Price sale={sale} item={item} lines={chosen} />}
        </div>
        <Clock sale={sale} state={state} created={created} turn={choosing ? model.entry.value?.deadline : undefined} now={now} />
        {sale.items.length > 1 && <Choice sale={sale} sku_id={sku_id} choose={choosing && ((sku) => (model.sku.value = sku))} />}
        {sale.per_user_limit > 1 && <Quantity qty={qty} most={choosing ? model.most() : 0} choose={(n) => (model.quantity.value = n)} />}
        <Gauge sale={sale} item={item} created={created} now={now} />
        <div class={button === 'sign_in' && config.value.sign_in === 'dev' ? 'action tall' : 'action'}>
          <Status model={model} sale={sale} />
          {(choosing || button === 'sending') && (
            <button id="buy" class="primary huge" aria-disabled={!enabled} aria-describedby="status" onClick={() => model.press()}>
              {button === 'sending' && <span class="spinner" aria-hidden="true" />}
              {button === 'sending' ? w('sending') : button === 'buy_again' ? w('buy_again') : button === 'buy_join' ? model.entry.value?.label : w('buy')}
            </button>
          )}
          {button === 'sign_in' && <SignIn w={w} role="buyer" label={w('sign_in_to_buy')} />}
          {created && payable && (
            <PayButton
              key={created.order_sn}
              order_sn={created.order_sn}
              amount={amountOf(created, sale)}
              onRefused={(why) => {
                setRefusal({order_sn: created.order_sn, why})
                if (why) model.refresh()
              }}
            />
          )}
          {(button === 'none' || (created && !payable)) && <Next model={model} />}
        </div>
        <div class="aside">
          {created && payable ? (
            <>
              <CancelButton key={created.order_sn} order_sn={created.order_sn} activity_id={sale.activity_id} onChange={(order) => closedBy(model, created, order?.close_reason)} />
              <Wrong text={refusal.order_sn === created.order_sn && refusal.why} />
            </>
          ) : (
            <Note model={model} sale={sale} state={state} stale={stale} />
          )}
        </div>
        {model.entry.value?.part()}
        {sale.seller && <About {...sale.seller} />}
        {sale.description && <p class="description" dir="auto">{sale.description}</p>}
      </div>
    </article>
  )
}

// Notice is a line of the merchant. It lies over the picture, so that no control moves when it comes or goes.
function Notice({sale, state, now}: {sale: Sale; state: SaleState; now: number}) {
  const {notice} = sale
  return (
    <p class="notice" aria-live="polite">
      {notice && state !== 'ended' && (
        <>
          <small class="muted">{time(notice.at, now)}</small> <bdi>{notice.text}</bdi>
        </>
      )}
    </p>
  )
}

// About is what the merchant states about itself.
function About({name, terms_url, delivery}: NonNullable<Sale['seller']>) {
  return (
    <div class="description">
      <p>
        {w('sold_by')} <bdi>{name}</bdi>
        {terms_url.startsWith('https://') && (
          <>
            {' · '}
            <a href={terms_url} target="_blank" rel="noopener">
              {w('terms')}
            </a>
          </>
        )}
      </p>
      <p class="muted" dir="auto">{delivery}</p>
    </div>
  )
}

// isLate reports whether the deadline of an order has passed.
const isLate = (own: Reservation | undefined, now: number) => Date.parse(own?.expires_at ?? '') <= now

// amountOf is what a purchase costs, as it is shown; nothing while a SKU of it is unknown.
function amountOf(own: Reservation, sale: Sale): string | undefined {
  let sum = 0
  for (const line of own.lines) {
    const item = sale.items.find((i) => i.sku_id === line.sku_id)
    if (!item) return undefined
    sum += item.price * line.qty
  }
  return money(sum, sale.items[0] as SaleItem)
}

// CancelButton requests the confirmation of a dialog, which is loaded with the pages of orders.
function CancelButton(props: {order_sn: string; activity_id: string; onChange: (order?: Order) => void}) {
  const [orders, setOrders] = useState<Awaited<ReturnType<typeof ordersPart.load>>>()
  const [busy, setBusy] = useState(false)
  const press = async () => {
    setBusy(true)
    setOrders(await ordersPart.load())
    setBusy(false)
  }
  return (
    <>
      <button class="quiet" aria-disabled={busy} onClick={() => void press()}>
        {busy && <span class="spinner" aria-hidden="true" />}
        {w('cancel_order')}
      </button>
      {orders && <orders.CancelDialog {...props} onClose={() => setOrders(undefined)} />}
    </>
  )
}

function closedBy(model: SaleModel, own: Reservation, reason?: string): void {
  if (reason) model.update({...own, status: 'closed', reason})
  model.refresh()
}

// Price is that of the SKU which a press buys or was bought, with the quantity of each.
function Price({sale, item, lines}: {sale: Sale; item: SaleItem; lines: Line[]}) {
  const one = sale.items.length === 1 && sale.per_user_limit === 1 && item.name === sale.title
  const off = item.list_price && item.list_price > item.price
  return (
    <p class="price-line">
      <b class="price">{money(item.price, item)}</b>
      {off ? (
        <s>
          <span class="hidden">{w('list_price', {price: ''})}</span>
          {money(item.list_price as number, item)}
        </s>
      ) : null}
      {!one && (
        <span class="muted" dir="auto">
          {lines.map((l) => `${sale.items.find((i) => i.sku_id === l.sku_id)?.name ?? l.sku_id} × ${l.qty}`).join(', ')}
        </span>
      )}
      <span class="muted">{w(sale.items.length > 1 ? 'limit_in_all' : 'limit', {n: sale.per_user_limit})}</span>
    </p>
  )
}

interface ClockProps {
  sale: Sale
  state: SaleState
  created?: Reservation
  turn?: Deadline
  now: number
}

// Clock is the one deadline of the page: the start, the end, or that of a turn or a payment. It keeps its height.
function Clock({sale, state, created, turn, now}: ClockProps) {
  if (created?.expires_at) return <Countdown ms={Date.parse(created.expires_at) - now} label={w('time_left')} big />
  if (turn && state === 'open') return <Countdown ms={turn.until - now} label={turn.label} big />
  if (state === 'ended') return <Face label={w('state_ended')}>{time(sale.ends_at, now)}</Face>
  if (state !== 'scheduled') return <Countdown ms={Date.parse(sale.ends_at) - now} label={w('ends_in')} big />
  const ms = Date.parse(sale.starts_at) - now
  return (
    <>
      <Countdown ms={ms} label={w('starts_in')} big />
      <Spoken ms={ms} />
    </>
  )
}

function Choice({sale, sku_id, choose}: {sale: Sale; sku_id: string; choose: false | ((sku: string) => void)}) {
  return (
    <fieldset class="choice" disabled={!choose}>
      <legend>{w('choose')}</legend>
      {sale.items.map((i) => (
        <label key={i.sku_id}>
          <input type="radio" name="sku" checked={sku_id === i.sku_id} onChange={() => choose && choose(i.sku_id)} />
          <span class="choice-name" dir="auto">{i.name}</span>
          <span class="choice-price">{money(i.price, i)}</span>
          <span class="choice-left">{i.left > 0 ? w('left', {n: count(i.left)}) : w('none_left')}</span>
        </label>
      ))}
    </fieldset>
  )
}

// Quantity is the choice of 1 to most; what it shows while nothing can be chosen is what was bought.
function Quantity({qty, most, choose}: {qty: number; most: number; choose: (n: number) => void}) {
  return (
    <label class="quantity">
      <span>{w('quantity')}</span>
      <select name="quantity" value={String(qty)} disabled={most < 2} onChange={(e) => choose(Number(e.currentTarget.value))}>
        {Array.from({length: Math.max(most, qty)}, (_, i) => (
          <option key={i} value={String(i + 1)}>
            {i + 1}
          </option>
        ))}
      </select>
    </label>
  )
}

// Gauge is the stock that is left, or the time that is left to pay.
function Gauge({sale, item, created, now}: {sale: Sale; item?: SaleItem; created?: Reservation; now: number}) {
  let [value, max, text, tone] = [0, 0, '', 'quiet']
  if (created?.expires_at) {
    value = Date.parse(created.expires_at) - now
    max = sale.pay_within_s * 1000
    text = w('pay_by', {t: time(created.expires_at, now)})
    tone = 'accent'
  } else if (item) {
    value = leftOf(sale, item.sku_id)
    max = item.total
    text = w('left_of', {left: count(value), total: count(max)})
    if (value > 0) tone = 'accent'
  }
  return (
    <div class="stock large">
      <Bar value={value} max={max} label={text} tone={tone} />
      <span aria-hidden="true">{text}</span>
    </div>
  )
}

function Status({model, sale}: {model: SaleModel; sale: Sale}) {
  const {view} = model.view.value
  const text = statusText(model, sale)
  const late = view === 'created' && isLate(model.own.value, tick.value)
  const tone = late ? 'warning' : {created: 'good', paid: 'good', lit: 'good', back: 'good', failed: 'bad', closed: 'warning', refused: 'bad', barred: 'warning'}[view as string]
  const sign = {good: '●', bad: '✕', warning: '▲'}[tone ?? '']
  return (
    <div class={`status ${tone ?? ''}`}>
      <p id="status" role="status">
        {sign && <span aria-hidden="true">{sign} </span>}
        {text}
      </p>
    </div>
  )
}

// statusText is the sentence of the status line. It changes only with the state, as it is announced each time.
export function statusText(model: SaleModel, sale: Sale): string {
  const now = tick.value
  const own = model.own.value
  const phase = model.phase.value
  const {view} = model.view.value
  const late = model.late.value?.order_sn === own?.order_sn ? model.late.value?.confirming : undefined
  const lost = model.kept.value || model.refusal.value?.code === 'unauthenticated'
  if (lost && session.value?.signed_in === false) return code('unauthenticated')
  switch (view) {
    case 'signed_out':
      return w(stateOf(sale, now) === 'scheduled' ? 'sign_in_early' : 'st_signed_out')
    case 'scheduled':
      return model.early.value ? code('activity_not_started') : w('st_scheduled', {t: time(sale.starts_at, now, true)})
    case 'waiting':
      return phase.kind === 'waiting' ? say(phase.failure, phase.waitS, now) : ''
    case 'created':
      if (isLate(own, now)) return late === undefined ? w('st_late') : late ? w('confirming') : code('closed_expired')
      return w('st_created', {t: time(own?.expires_at ?? '', now, true)})
    case 'closed':
    case 'failed':
      return code(codeKey(`${view}_${own?.reason}`))
    case 'refused':
      return model.refusal.value ? say(model.refusal.value, 0, now) : ''
    case 'barred':
      return code('barred', {t: time(model.barred.value, now, true)})
    case 'may_return':
      return code('sold_out_until', {t: time(sale.may_return_until ?? '', now)})
    case 'sold_out':
      return code(view)
    case 'paused':
    case 'ended':
      return code(`activity_${view}`)
    case 'entry':
      return model.entry.value?.text() ?? ''
    case 'loading':
      return ''
    default:
      return w(`st_${view}`)
  }
}

// Next stands in place of the button where nothing can be bought: the order, or the other sales.
function Next({model}: {model: SaleModel}) {
  const refused = model.refusal.value?.problem.order_sn
  const sn = typeof refused === 'string' ? refused : model.own.value?.order_sn
  return (
    <Link class="button huge" href={sn ? orderURL(sn) : '/'}>
      {w(sn ? 'see_order' : 'to_sales')}
    </Link>
  )
}

interface NoteProps {
  model: SaleModel
  sale: Sale
  state: SaleState
  stale: boolean
}

// Note is one line below the button.
function Note({model, sale, state, stale}: NoteProps) {
  const {view} = model.view.value
  const checked = model.checked.value
  const s = sale.pay_within_s
  const text = stale
    ? w('stale_since', {t: time(model.readAt.value, clock.now(), true)})
    : view === 'paid' || view === 'ended'
      ? ''
      : view.startsWith('queued') && checked > 0
        ? w('last_checked', {t: time(checked, clock.now(), true)})
        : s % 60 === 0
          ? w('pay_within', {n: s / 60})
          : w('pay_within_s', {n: s})
  return (
    <>
      <p class={stale ? 'warning small' : 'muted small'}>{text}</p>
      {state === 'scheduled' && (
        <button class="quiet" onClick={() => void ordersPart.load().then((part) => part.remind(sale))}>
          {w('remind')}
        </button>
      )}
    </>
  )
}
