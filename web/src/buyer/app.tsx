import {useEffect} from 'preact/hooks'
import {config, hasRole, online, session, signOut, signOutFailure, tick} from '../base/app.ts'
import {useEffectOf} from '../base/mount.ts'
import {Link, Skeleton, Wordmark} from '../base/parts.tsx'
import {say} from '../base/problem.ts'
import {here, onMove} from '../base/route.ts'
import {signInURL} from '../base/sign-in.tsx'
import {unpaid} from '../base/unpaid.ts'
import {lang, setLang} from '../base/words.ts'
import {countdownText} from './countdown.tsx'
import {Lost, ordersPart, orderURL} from './parts.tsx'
import {SalePage} from './sale.tsx'
import {SalesPage} from './sales.tsx'
import {w} from './words.ts'

export function App() {
  useEffectOf(() => {
    document.documentElement.lang = lang.value === 'zh' ? 'zh-CN' : 'en'
  })
  useEffect(
    () =>
      onMove(() => {
        // A screen reader starts at the new page's heading, as after a load.
        requestAnimationFrame(() => document.getElementById('main')?.focus({preventScroll: true}))
      }),
    [],
  )
  const alarm = online.value ? signOutFailure.value && say(signOutFailure.value) : w('offline')
  return (
    <>
      <a class="skip" href="#main">
        {w('skip')}
      </a>
      <Header />
      {alarm && (
        <p class="banner" role="alert">
          <span aria-hidden="true">▲ </span>
          {alarm}
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Page />
      </main>
    </>
  )
}

function Header() {
  const s = session.value
  const {name, logo_url} = config.value.brand
  const at = here.value.pathname
  const current = (prefix: string) => (at.startsWith(prefix) || (prefix === '/sales' && at === '/') ? 'page' : undefined)
  return (
    <header class="top">
      <Link href="/" class="home" aria-label={`${name}: ${w('sales')}`}>
        <Wordmark name={name} logo={logo_url} />
      </Link>
      <nav aria-label={name}>
        <Unpaid />
        <Link href="/orders" aria-current={current('/orders')}>
          {w('orders')}
        </Link>
        {hasRole('merchant') && <a href="/console">{w('console')}</a>}
        <button class="plain" lang={lang.value === 'zh' ? 'en' : 'zh-CN'} onClick={() => setLang(lang.value === 'zh' ? 'en' : 'zh')}>
          {w('language')}
        </button>
        {s?.signed_in && (
          <button class="plain" title={w('signed_in_as', {user: s.user_id ?? ''})} onClick={() => void signOut()}>
            {w('sign_out')}
          </button>
        )}
        {s?.signed_in === false && config.value.sign_in === 'oidc' && <a href={signInURL()}>{w('sign_in')}</a>}
      </nav>
    </header>
  )
}

// Unpaid leads to the order that has to be paid first.
function Unpaid() {
  const now = tick.value
  const [first] = Object.entries(unpaid.value)
    .map(([sn, until]): [string, number] => [sn, Date.parse(until) - now])
    .filter(([, left]) => left > 0)
    .sort(([, a], [, b]) => a - b)
  return first ? (
    <Link class="unpaid" href={orderURL(first[0])}>
      {w('pay')} <b>{countdownText(first[1])}</b>
    </Link>
  ) : null
}

function Page() {
  const parts = here.value.pathname.split('/').filter(Boolean)
  const [first, id, more] = parts
  if (!first) return <SalesPage />
  if (first === 'sales' && id && !more) return <SalePage key={id} id={decode(id)} />
  if (first === 'orders' && !more) {
    const orders = ordersPart.shown()
    if (!orders) return <Skeleton label={w('loading')} />
    if (!id) return <orders.OrdersPage />
    const payment = here.value.searchParams.get('payment')
    const order_sn = decode(id)
    if (payment) return <orders.SandboxPage key={payment} order_sn={order_sn} payment_id={payment} />
    return <orders.OrderPage key={id} order_sn={order_sn} />
  }
  return <Lost />
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
