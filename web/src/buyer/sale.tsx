import {useEffect, useMemo} from 'preact/hooks'
import type {Reservation, Sale, SaleItem} from '../api/types.ts'
import {clock, config, session, tick} from '../base/app.ts'
import {count, time} from '../base/format.ts'
import {money} from '../base/money.ts'
import {useEffectOf} from '../base/mount.ts'
import {Bar, Link, Picture} from '../base/parts.tsx'
import {code, codeKey, say} from '../base/problem.ts'
import {SignIn} from '../base/sign-in.tsx'
import {Countdown, countdownText, Spoken} from './countdown.tsx'
import {orderURL, Unread} from './parts.tsx'
import {CancelButton, PayButton} from './paying.tsx'
import {SaleModel} from './sale-model.ts'
import {leftOf, stateOf} from './saleview.ts'
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
  if (!sale) return <Unread failure={model.problem.value} retry={model.refresh} />
  return <SaleBody model={model} sale={sale} />
}

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
  const own = model.own.value
  const item = sale.items.find((i) => i.sku_id === model.sku.value) ?? sale.items[0]
  const state = stateOf(sale, now)
  const start = Date.parse(sale.starts_at)
  const end = Date.parse(sale.ends_at)
  const created = view === 'created' && own
  const choosing = button.startsWith('buy')
  const most = model.most()
  return (
    <article class={`sale view-${view}`}>
      <Picture url={item?.image_url || sale.image_url} name={sale.title} alt={w('image_of', {name: item?.name ?? sale.title})} eager />
      <div class="sale-body">
        <div class="sale-head">
          <h1 dir="auto">{sale.title}</h1>
          {item && <Price item={item} limit={sale.per_user_limit} alone={sale.items.length === 1} title={sale.title} />}
        </div>
        {created ? (
          <Deadline own={own} sale={sale} now={now} />
        ) : state === 'scheduled' ? (
          <>
            <Countdown ms={start - now} label={w('starts_in')} big />
            <Spoken ms={start - now} />
          </>
        ) : state === 'ended' ? null : (
          <Countdown ms={end - now} label={w('ends_in')} />
        )}
        {sale.items.length > 1 && choosing && <Choice model={model} sale={sale} />}
        {!created && state !== 'ended' && item && <Stock sale={sale} item={item} />}

        <Status model={model} sale={sale} />

        <div class={button === 'sign_in' && config.value.sign_in === 'dev' ? 'action tall' : 'action'}>
          {choosing && most > 1 && (
            <label class="quantity">
              <span>{w('quantity')}</span>
              <select
                name="quantity"
                value={String(Math.min(model.quantity.value, most))}
                onChange={(e) => (model.quantity.value = Number(e.currentTarget.value))}
              >
                {Array.from({length: most}, (_, i) => (
                  <option key={i} value={String(i + 1)}>
                    {i + 1}
                  </option>
                ))}
              </select>
            </label>
          )}
          {(choosing || button === 'sending') && (
            <button id="buy" class="primary huge" aria-disabled={!enabled} aria-describedby="status" onClick={() => model.press()}>
              {button === 'sending' && <span class="spinner" aria-hidden="true" />}
              {button === 'sending' ? w('sending') : button === 'buy_again' ? w('buy_again') : button === 'buy_join' ? model.entry.value?.label : w('buy')}
            </button>
          )}
          {button === 'sign_in' && <SignIn w={w} role="buyer" label={w('sign_in_to_buy')} />}
          {created && (
            <>
              <PayButton order_sn={own.order_sn} onChange={model.refresh} huge />
              <CancelButton order_sn={own.order_sn} onChange={(order) => closedBy(model, own, order?.close_reason)} />
            </>
          )}
          {button === 'none' && (own || view === 'refused') && <SeeOrder model={model} />}
        </div>
        {model.entry.value?.part()}
        <Notes sale={sale} view={view} />
        {sale.description && <p class="description" dir="auto">{sale.description}</p>}
      </div>
    </article>
  )
}

function closedBy(model: SaleModel, own: Reservation, reason?: string): void {
  if (reason) model.update({...own, status: 'closed', reason})
  model.refresh()
}

function Price({item, limit, alone, title}: {item: SaleItem; limit: number; alone: boolean; title: string}) {
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
      {alone && item.name !== title && <span class="muted">{item.name}</span>}
      <span class="muted">{w('limit', {n: limit})}</span>
    </p>
  )
}

function Choice({model, sale}: {model: SaleModel; sale: Sale}) {
  return (
    <fieldset class="choice">
      <legend>{w('choose')}</legend>
      {sale.items.map((i) => (
        <label key={i.sku_id}>
          <input type="radio" name="sku" checked={model.sku.value === i.sku_id} onChange={() => (model.sku.value = i.sku_id)} />
          <span class="choice-name" dir="auto">{i.name}</span>
          <span class="choice-price">{money(i.price, i)}</span>
          <span class="choice-left">{i.left > 0 ? w('left', {n: count(i.left)}) : w('none_left')}</span>
        </label>
      ))}
    </fieldset>
  )
}

function Stock({sale, item}: {sale: Sale; item: SaleItem}) {
  const left = leftOf(sale, item.sku_id)
  const text = w('left_of', {left: count(left), total: count(item.total)})
  return (
    <div class="stock large">
      <Bar value={left} max={item.total} label={text} tone={left > 0 ? 'accent' : 'quiet'} />
      <span aria-hidden="true">{text}</span>
    </div>
  )
}

function Deadline({own, sale, now}: {own: Reservation; sale: Sale; now: number}) {
  if (!own.expires_at) return null
  const end = Date.parse(own.expires_at)
  const whole = sale.pay_within_s * 1000
  return (
    <div class="deadline">
      {own.lines.map((l) => (
        <b>
          {sale.items.find((i) => i.sku_id === l.sku_id)?.name} × {l.qty}
        </b>
      ))}
      <Countdown ms={end - now} label={w('time_left')} big />
      <Bar value={end - now} max={whole} label={w('pay_by', {t: time(end, now)})} tone="accent" />
    </div>
  )
}

function Status({model, sale}: {model: SaleModel; sale: Sale}) {
  const {view} = model.view.value
  const text = statusText(model, sale)
  const tone = {created: 'good', paid: 'good', lit: 'good', back: 'good', failed: 'bad', closed: 'warning', refused: 'bad'}[view as string]
  const sign = {good: '●', bad: '✕', warning: '▲'}[tone ?? '']
  const checked = model.checked.value
  return (
    <div class={`status ${tone ?? ''}`}>
      <p id="status" role="status">
        {sign && <span aria-hidden="true">{sign} </span>}
        {text}
      </p>
      {checked > 0 && (view === 'queued' || view === 'queued_long') && <small class="muted">{w('last_checked', {t: time(checked, clock.now(), true)})}</small>}
    </div>
  )
}

// statusText is the sentence of the status line. It changes only with the state, as it is announced each time.
export function statusText(model: SaleModel, sale: Sale): string {
  const now = tick.value
  const own = model.own.value
  const phase = model.phase.value
  const {view} = model.view.value
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
      return w('st_created', {t: time(own?.expires_at ?? '', now, true)})
    case 'closed':
    case 'failed':
      return code(codeKey(`${view}_${own?.reason}`))
    case 'refused':
      return model.refusal.value ? say(model.refusal.value, 0, now) : ''
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

function SeeOrder({model}: {model: SaleModel}) {
  const refused = model.refusal.value?.problem.order_sn
  const sn = typeof refused === 'string' ? refused : model.own.value?.order_sn
  if (!sn) return null
  return (
    <Link class="button huge" href={orderURL(sn)}>
      {w('see_order')}
    </Link>
  )
}

function Notes({sale, view}: {sale: Sale; view: string}) {
  if (view === 'created' || view === 'paid' || view === 'ended') return null
  const s = sale.pay_within_s
  return <p class="muted small">{s % 60 === 0 ? w('pay_within', {n: s / 60}) : w('pay_within_s', {n: s})}</p>
}
