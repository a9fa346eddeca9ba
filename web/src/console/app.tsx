import {useEffect, useRef} from 'preact/hooks'
import {config, hasRole, loadSession, online, session, signOut, signOutFailure, visible} from '../base/app.ts'
import {count} from '../base/format.ts'
import {useEffectOf} from '../base/mount.ts'
import {say} from '../base/problem.ts'
import {Link, Skeleton, Wordmark} from '../base/parts.tsx'
import {go, here, onMove} from '../base/route.ts'
import {SignIn} from '../base/sign-in.tsx'
import {lang, setLang} from '../base/words.ts'
import {ActivitiesPage} from './activities.tsx'
import {ActivityForm} from './activity-form.tsx'
import {ActivityPage} from './activity.tsx'
import {DeadLettersPage} from './dead-letters.tsx'
import {HealthPage} from './health.tsx'
import {LimitsPage} from './limits.tsx'
import {OrderPage} from './order.tsx'
import {OverviewPage} from './overview.tsx'
import {waiting, watchOverview} from './overview-data.ts'
import {forms, Head} from './parts.tsx'
import {ProductForm} from './product-form.tsx'
import {ProductsPage} from './products.tsx'
import {ProfilePage} from './profile.tsx'
import {ReconcilePage} from './reconcile.tsx'
import {RefundsPage} from './refunds.tsx'
import {Who} from './who.tsx'
import {w, type Word} from './words.ts'

export function App() {
  useEffectOf(() => {
    document.documentElement.lang = lang.value === 'zh' ? 'zh-CN' : 'en'
  })
  useEffect(
    () =>
      onMove(() => {
        requestAnimationFrame(() => document.getElementById('main')?.focus({preventScroll: true}))
      }),
    [],
  )
  const alarm = online.value ? signOutFailure.value && say(signOutFailure.value) : w('offline')
  return (
    <div class="console">
      <a class="skip" href="#main">
        {w('skip')}
      </a>
      <Side />
      <main id="main" tabIndex={-1}>
        {alarm && (
          <p class="banner" role="alert">
            <span aria-hidden="true">▲ </span>
            {alarm}
          </p>
        )}
        <Allowed />
      </main>
    </div>
  )
}

function Side() {
  const {name, logo_url} = config.value.brand
  const at = here.value.pathname
  const isOperator = hasRole('operator')
  useEffect(() => (isOperator ? watchOverview() : undefined), [isOperator])
  const link = (href: string, word: Word, waits = 0) => (
    <Link href={href} aria-current={at === href || at.startsWith(`${href}/`) ? 'page' : undefined}>
      {w(word)}
      {waits > 0 && <span class="badge warning tabular waits">{count(waits)}</span>}
    </Link>
  )
  return (
    <header class="side">
      <Link href="/console" class="home" aria-label={`${name} ${w('title')}`}>
        <Wordmark name={name} logo={logo_url} />
      </Link>
      {hasRole('merchant') && (
        <nav aria-label={w('nav')}>
          {link('/console/sales', 'sales')}
          {link('/console/products', 'products')}
          {session.value?.merchant_id && link('/console/profile', 'profile')}
          {isOperator && (
            <>
              <span class="nav-title">{w('operator')}</span>
              {link('/console/operator/overview', 'overview')}
              {link('/console/operator/health', 'health')}
              {link('/console/operator/dead-letters', 'dead_letters', waiting('dead_letters'))}
              {link('/console/operator/refunds', 'refunds', waiting('refunds'))}
              {link('/console/operator/reconcile', 'reconcile_nav')}
              {link('/console/operator/limits', 'limits')}
            </>
          )}
        </nav>
      )}
      {session.value?.signed_in && <Who />}
      <div class="side-foot">
        <a href="/">{w('shop')}</a>
        <button
          class="plain"
          lang={lang.value === 'zh' ? 'en' : 'zh-CN'}
          onClick={() => setLang(lang.value === 'zh' ? 'en' : 'zh')}
        >
          {w('language')}
        </button>
        {session.value?.signed_in && (
          <button class="plain" title={session.value.user_id} onClick={leave}>
            {w('sign_out')}
          </button>
        )}
      </div>
    </header>
  )
}

function Allowed() {
  const s = session.value
  const user = useRef('') // who was signed in last
  if (s?.signed_in) user.current = s.user_id ?? ''
  if (!s) return <Skeleton label={w('loading')} />
  const kept = !s.signed_in && !!user.current && forms.value > 0
  if (!s.signed_in && !kept) {
    return (
      <div class="narrow">
        <Head title={w('sign_in')} />
        <p class="muted">{w('sign_in_text')}</p>
        <SignIn w={w} role="merchant" label={w('sign_in')} />
      </div>
    )
  }
  const needed = here.value.pathname.startsWith('/console/operator') ? 'operator' : 'merchant'
  if (!kept && !hasRole(needed)) {
    return (
      <div class="narrow">
        <Head title={w('no_role')} />
        <p>{w('no_role_text')}</p>
      </div>
    )
  }
  return (
    <>
      {kept && <Ended />}
      <Page key={user.current} />
    </>
  )
}

// Ended says above an open form that the session ended, until the session of another tab is there.
function Ended() {
  useEffectOf(() => {
    if (visible.value) void loadSession()
  })
  return (
    <p class="banner" role="alert">
      <span aria-hidden="true">▲ </span>
      {w('unauthenticated')}{' '}
      <a href="/console" target="_blank" rel="noreferrer">
        {w('sign_in')}
      </a>
    </p>
  )
}

// leave signs out. An open form is left first: it would keep its page.
function leave(): void {
  if (forms.value > 0 && !go('/console')) return
  void signOut()
}

function Page() {
  const [, first, second, third, fourth] = here.value.pathname.split('/').filter(Boolean)
  if (!first || (first === 'sales' && !second)) return <ActivitiesPage />
  if (first === 'sales' && second === 'new') return <ActivityForm />
  if (first === 'sales' && second && third === 'edit') return <ActivityForm key={second} id={second} />
  if (first === 'sales' && second && third === 'orders' && fourth) {
    return <OrderPage key={fourth} id={second} orderSN={fourth} />
  }
  if (first === 'sales' && second) return <ActivityPage key={second} id={second} tab={third ?? 'board'} />
  if (first === 'profile' && !second) return <ProfilePage />
  if (first === 'products' && !second) return <ProductsPage />
  if (first === 'products' && second === 'new') return <ProductForm />
  if (first === 'products' && second) return <ProductForm key={second} id={second} />
  if (first === 'operator') {
    if (!second || second === 'overview') return <OverviewPage />
    if (second === 'health') return <HealthPage />
    if (second === 'dead-letters') return <DeadLettersPage />
    if (second === 'refunds') return <RefundsPage />
    if (second === 'reconcile') return <ReconcilePage />
    if (second === 'limits') return <LimitsPage />
  }
  return <Head title={w('lost')} />
}
