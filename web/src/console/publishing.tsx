// What a merchant checks before a sale is published: what buyers will pay, and what may be a mistake.

import {act} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {tick} from '../base/app.ts'
import {count, time} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Picture} from '../base/parts.tsx'
import {presetOf, valuesOf} from './activity-draft.ts'
import {Confirm} from './parts.tsx'
import {refusedItem, w} from './words.ts'

// checksOf lists what a merchant checks before a sale is published. wrong marks a possible mistake; publishing is allowed.
function checksOf(a: Activity, now: number): {text: string; wrong?: boolean}[] {
  const late = Date.parse(a.starts_at) <= now
  const dear = a.items.filter((i) => i.price > i.list_price)
  const units = a.items.reduce((sum, i) => sum + i.stock, 0)
  const preset = presetOf(valuesOf(a))
  return [
    late
      ? {text: w('publish_now'), wrong: true}
      : {text: w('publish_text', {t: time(a.starts_at, now, true)})},
    {text: w('publish_end', {t: time(a.ends_at, now, true)})},
    ...dear.map((i) => ({text: w('publish_dear', {name: i.name}), wrong: true})),
    ...(dear.length ? [] : [{text: w('publish_prices')}]),
    {text: w('publish_units', {n: count(units)})},
    {text: w('publish_limit', {n: a.per_user_limit, m: a.pay_within_s / 60})},
    ...((a.payments_take_s ?? 0) > a.pay_within_s / 2
      ? [{text: w('publish_slow', {n: count(a.payments_take_s ?? 0)}), wrong: true}]
      : []),
    {text: `${w('fairness')}: ${w(`preset_${preset}`)}`},
    a.degraded_sale ? {text: w('publish_redisless')} : {text: w('publish_redis')},
    a.image_url ? {text: w('publish_picture')} : {text: w('publish_no_picture'), wrong: true},
  ]
}

// PublishButton shows a sale as buyers will see it, and what to check, before it is published.
export function PublishButton({activity, done}: {activity: Activity; done: () => void}) {
  const {activity_id: id, title, items} = activity
  const now = tick.value // the start may pass while the page is open
  return (
    <Confirm
      label={w('publish')}
      title={w('publish_ask', {title})}
      primary
      run={() => act(id, 'publish')}
      done={done}
      say={(f) => refusedItem(f, items)}
    >
      <Preview activity={activity} />
      <Items activity={activity} />
      <ul class="checks" aria-label={w('checklist')}>
        {checksOf(activity, now).map(({text, wrong}, i) => (
          <li key={i} class={wrong ? 'warning' : ''}>
            <span aria-hidden="true">{wrong ? '▲' : '✓'} </span>
            {text}
          </li>
        ))}
      </ul>
      <p>{w('publish_fixed')}</p>
    </Confirm>
  )
}

// Preview is the card of the buyers' list, as it will be.
function Preview({activity: a}: {activity: Activity}) {
  const first = a.items[0]
  return (
    <figure class="preview card">
      <Picture url={a.image_url} name={a.title} alt="" />
      <figcaption>
        <b dir="auto">{a.title}</b>
        {first && <span>{money(first.price, a)}</span>}
        {a.description && (
          <span class="muted small" dir="auto">
            {a.description}
          </span>
        )}
      </figcaption>
    </figure>
  )
}

// off is the discount in whole per cent.
const off = (i: Activity['items'][number]) => Math.floor(100 - (100 * i.price) / i.list_price)

// Items shows what is offered, at which prices.
export function Items({activity}: {activity: Activity}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={w('items')}>
      <table>
        <thead>
          <tr>
            <th scope="col">{w('sku')}</th>
            <th scope="col" class="number">
              {w('price')}
            </th>
            <th scope="col" class="number">
              {w('stock')}
            </th>
          </tr>
        </thead>
        <tbody>
          {activity.items.map((i) => (
            <tr key={i.sku_id}>
              <td dir="auto">{i.name}</td>
              <td class="number">
                {money(i.price, activity)}
                <br />
                <small class="muted">
                  <span class="hidden">{w('list_price')} </span>
                  {off(i) > 0 ? (
                    <>
                      <s>{money(i.list_price, activity)}</s> −{off(i)} %
                    </>
                  ) : (
                    money(i.list_price, activity)
                  )}
                </small>
              </td>
              <td class="number">{count(i.stock)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
