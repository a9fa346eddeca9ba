// What a merchant checks before a sale is published: what buyers will pay, and what may be a mistake.

import {act} from '../api/merchant.ts'
import type {Activity} from '../api/types.ts'
import {tick} from '../base/app.ts'
import {count, time} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Confirm} from './parts.tsx'
import {refusedItem, w} from './words.ts'

export function PublishButton({activity, done}: {activity: Activity; done: () => void}) {
  const {activity_id: id, title, starts_at, items} = activity
  const now = tick.value // the start may pass while the page is open
  const late = Date.parse(starts_at) <= now
  const warnings = [
    ...(late ? [w('publish_now')] : []),
    ...items.filter((i) => i.price > i.list_price).map((i) => w('publish_dear', {name: i.name})),
  ]
  return (
    <Confirm
      label={w('publish')}
      title={w('publish_ask', {title})}
      primary
      run={() => act(id, 'publish')}
      done={done}
      say={(f) => refusedItem(f, items)}
    >
      <Items activity={activity} />
      {warnings.map((text, i) => (
        <p key={i} class="banner" role="note">
          <span aria-hidden="true">▲ </span>
          {text}
        </p>
      ))}
      <p>
        {!late && w('publish_text', {t: time(starts_at, now, true)})} {w('publish_fixed')}
      </p>
      <p>{w('publish_units', {n: count(items.reduce((sum, i) => sum + i.stock, 0))})}</p>
    </Confirm>
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
