// Sign-in: a link to the identity provider, or the developer's form where the system allows it.

import {useState} from 'preact/hooks'
import {signInDev} from '../api/session.ts'
import {config, configLoaded, loadSession} from './app.ts'
import {Field} from './parts.tsx'
import {say} from './problem.ts'
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

type Say = (key: SignInWord, values?: Values) => string

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

function DevSignIn({w, first}: {w: Say; first: 'buyer' | 'merchant'}) {
  const [user, setUser] = useState('')
  const [merchant, setMerchant] = useState('')
  const [role, setRole] = useState<string>(first)
  const [busy, setBusy] = useState(false)
  const [wrong, setWrong] = useState('')
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    setBusy(true)
    const r = await signInDev({
      user_id: user.trim(),
      ...(role !== 'buyer' && {roles: [role as 'merchant' | 'operator']}),
      ...(merchant && {merchant_id: merchant}),
    })
    if (r.ok) await loadSession()
    else setWrong(r.code === 'invalid_request' ? w('sign_in_check') : say(r))
    setBusy(false)
  }
  return (
    <form class="dev-sign-in" onSubmit={submit} noValidate>
      <Field label={w('user')} name="dev-user" error={wrong}>
        {(ids) => (
          <input
            {...ids}
            autocomplete="username"
            autocapitalize="none"
            spellcheck={false}
            maxLength={64}
            value={user}
            onInput={(e) => {
              setUser(e.currentTarget.value)
              setWrong('')
            }}
          />
        )}
      </Field>
      <Field label={w('role')} name="dev-role">
        {(ids) => (
          <select {...ids} value={role} onChange={(e) => setRole(e.currentTarget.value)}>
            <option value="buyer">{w('role_buyer')}</option>
            <option value="merchant">{w('role_merchant')}</option>
            <option value="operator">{w('role_operator')}</option>
          </select>
        )}
      </Field>
      <Field label={w('merchant')} name="dev-merchant">
        {(ids) => (
          <input
            {...ids}
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            maxLength={64}
            placeholder={w('merchant_hint')}
            value={merchant}
            onInput={(e) => setMerchant(e.currentTarget.value)}
          />
        )}
      </Field>
      <button class="primary" type="submit" aria-disabled={busy}>
        {w('sign_in')}
      </button>
      <p class="hint">{w('sign_in_dev')}</p>
    </form>
  )
}
