import {useEffect, useRef, useState} from 'preact/hooks'
import {listSales} from '../api/buying.ts'
import {all, type Failure} from '../api/client.ts'
import type {Sale} from '../api/types.ts'
import {config, session, tick} from '../base/app.ts'
import {count, time} from '../base/format.ts'
import {money} from '../base/money.ts'
import {around, loop, type Loop} from '../base/loop.ts'
import {Badge, Bar, Link, Picture, Skeleton} from '../base/parts.tsx'
import {say} from '../base/problem.ts'
import {SignIn} from '../base/sign-in.tsx'
import {Countdown} from './countdown.tsx'
import {saleURL, useTitle} from './parts.tsx'
import {leftOf, stateOf} from './saleview.ts'
import {w} from './words.ts'

export function SalesPage() {
  const [sales, setSales] = useState<Sale[]>()
  const [more, setMore] = useState(false)
  const pages = useRef(1)
  const reading = useRef<Loop>(null)
  const [failure, setFailure] = useState<Failure>()
  const now = tick.value
  useTitle(() => w('sales_title'))
  useEffect(() => {
    const read = (reading.current = loop(async () => {
      const r = await all(listSales, pages.current)
      if (r.ok) {
        // A sale whose end was put off meanwhile may be on two pages.
        setSales([...new Map(r.data.items.map((s) => [s.activity_id, s])).values()])
        setMore(!!r.data.next_cursor)
      }
      setFailure(r.ok ? undefined : r)
      return r.ok ? around(5000) : r
    }))
    return read.stop
  }, [])
  return (
    <>
      <h1 class="page-title">{w('sales_title')}</h1>
      {session.value?.signed_in === false && config.value.sign_in === 'dev' && (
        <section class="card strip" aria-label={w('account')}>
          <SignIn w={w} role="buyer" label={w('sign_in')} />
        </section>
      )}
      {failure && (
        <p class="banner quiet" role="status">
          <span aria-hidden="true">▲ </span>
          {sales ? w('stale') : say(failure)}
        </p>
      )}
      {!sales ? (
        !failure && <Skeleton label={w('loading')} />
      ) : sales.length === 0 ? (
        <div class="center">
          <p class="big">{w('sales_none')}</p>
          <p class="muted">{w('sales_none_hint')}</p>
        </div>
      ) : (
        <ul class="sales">
          {sales.map((sale) => (
            <SaleCard key={sale.activity_id} sale={sale} now={now} />
          ))}
        </ul>
      )}
      {more && (
        <button
          class="more"
          onClick={() => {
            pages.current++
            reading.current?.again()
          }}
        >
          {w('more')}
        </button>
      )}
    </>
  )
}

// SaleBadge names the state of a sale.
export function SaleBadge({sale, now}: {sale: Sale; now: number}) {
  const state = stateOf(sale, now)
  if (state === 'open' && leftOf(sale) <= 0) return <Badge tone="warning">{w('state_sold_out')}</Badge>
  const tone = {scheduled: 'quiet', open: 'good', paused: 'warning', ended: 'quiet'} as const
  return <Badge tone={tone[state]}>{w(`state_${state}`)}</Badge>
}

function SaleCard({sale, now}: {sale: Sale; now: number}) {
  const state = stateOf(sale, now)
  const prices = sale.items.map((i) => i.price)
  const low = Math.min(...prices)
  const [first] = sale.items
  const price = first ? money(low, first) : ''
  const total = sale.items.reduce((sum, i) => sum + i.total, 0)
  const left = leftOf(sale)
  const stock = w('left_of', {left: count(left), total: count(total)})
  const start = Date.parse(sale.starts_at)
  const end = Date.parse(sale.ends_at)
  return (
    <li class="card sale-card">
      <Link href={saleURL(sale.activity_id)}>
        <Picture url={sale.image_url || sale.items[0]?.image_url} name={sale.title} alt="" />
        <div class="sale-card-body">
          <SaleBadge sale={sale} now={now} />
          <h2 dir="auto">{sale.title}</h2>
          <p class="price">{prices.length > 1 && Math.max(...prices) > low ? w('from_price', {price}) : price}</p>
          {state === 'scheduled' ? (
            <Countdown ms={start - now} label={w('starts_in')} />
          ) : state === 'open' ? (
            <Countdown ms={end - now} label={w('ends_in')} />
          ) : (
            <p class="muted">{w('ends', {t: time(end, now)})}</p>
          )}
          <div class="stock">
            <Bar value={left} max={total} label={stock} />
            <span aria-hidden="true">{stock}</span>
          </div>
        </div>
      </Link>
    </li>
  )
}
