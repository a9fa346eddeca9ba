// Sign-in: a link to the identity provider, or the developer's form where the system allows it.

import {config, configLoaded} from './app.ts'
import {part} from './chunk.ts'
import {here} from './route.ts'
import type {Values} from './words.ts'

export type SignInWord =
  | 'sign_in'
  | 'sign_in_dev'
  | 'sign_in_none'
  | 'sign_in_check'
  | 'user'
  | 'merchant'
  | 'merchant_hint'
  | 'role'
  | 'role_buyer'
  | 'role_merchant'
  | 'role_operator'

export type Say = (key: SignInWord, values?: Values) => string

// signInURL returns to this page after the provider's.
export const signInURL = () => `/auth/login?next=${encodeURIComponent(here.value.pathname + here.value.search)}`

export function SignIn({w, role: first, label}: {w: Say; role: 'buyer' | 'merchant'; label: string}) {
  if (!configLoaded.value) return null
  switch (config.value.sign_in) {
    case 'dev':
      return <DevSignIn w={w} first={first} />
    case 'oidc':
      return (
        <a class="button primary" href={signInURL()}>
          {label}
        </a>
      )
    default:
      return <p class="note">{w('sign_in_none')}</p>
  }
}

const devSignIn = part(() => import('./dev-sign-in.tsx'))

function DevSignIn(props: {w: Say; first: 'buyer' | 'merchant'}) {
  const dev = devSignIn.shown()
  return dev ? <dev.DevSignIn {...props} /> : null
}
