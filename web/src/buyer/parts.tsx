// Parts that several views of the buyer share.

import type {ComponentChildren} from 'preact'
import type {Failure} from '../api/client.ts'
import {config, session} from '../base/app.ts'
import {part} from '../base/chunk.ts'
import {useEffectOf} from '../base/mount.ts'
import {Link, Skeleton} from '../base/parts.tsx'
import {say} from '../base/problem.ts'
import {SignIn} from '../base/sign-in.tsx'
import {w} from './words.ts'

export const orderURL = (order_sn: string, payment_id?: string) =>
  `/orders/${encodeURIComponent(order_sn)}${payment_id ? `?payment=${encodeURIComponent(payment_id)}` : ''}`

export const saleURL = (activity_id: string) => `/sales/${encodeURIComponent(activity_id)}`

// ordersPart is the chunk of the pages of orders.
export const ordersPart = part(() => import('./orders/orders.tsx'))

// useTitle keeps the document's title; the function may read signals.
export function useTitle(title: () => string): void {
  useEffectOf(() => {
    document.title = `${title()} · ${config.value.brand.name}`
  })
}

// Message is a page of one sentence.
export function Message({title, text, children}: {title: string; text?: string; children?: ComponentChildren}) {
  return (
    <div class="center">
      <h1>{title}</h1>
      {text && <p class="muted">{text}</p>}
      {children}
    </div>
  )
}

const toSales = () => (
  <Link class="button" href="/">
    {w('to_sales')}
  </Link>
)

export const Lost = () => (
  <Message title={w('lost')} text={w('lost_hint')}>
    {toSales()}
  </Message>
)

export const Empty = ({title, text}: {title: string; text: string}) => (
  <div class="center">
    <p class="big">{title}</p>
    <p class="muted">{text}</p>
    {toSales()}
  </div>
)

// Unread stands for what is not read yet, or could not be.
export function Unread({failure, retry}: {failure?: Failure; retry: () => void}) {
  if (!failure) return <Skeleton label={w('loading')} />
  if (failure.code === 'not_found') return <Lost />
  return (
    <div class="center">
      <p role="alert">{say(failure)}</p>
      <button onClick={retry}>{w('retry')}</button>
    </div>
  )
}

// Account shows what belongs to an account, or the sign-in.
export function Account({text, children}: {text: string; children: (user: string) => ComponentChildren}) {
  const s = session.value
  if (!s) return <Skeleton label={w('loading')} />
  if (s.signed_in) return <>{children(s.user_id ?? '')}</>
  return (
    <Message title={w('sign_in')} text={text}>
      <SignIn w={w} role="buyer" label={w('sign_in')} />
    </Message>
  )
}
