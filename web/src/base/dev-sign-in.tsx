// The developer's form of the sign-in, a chunk: systems in production have none.

import {useState} from 'preact/hooks'
import {signInDev} from '../api/session.ts'
import {loadSession} from './app.ts'
import {Field} from './parts.tsx'
import {say} from './problem.ts'
import type {Say} from './sign-in.tsx'

export function DevSignIn({w, first}: {w: Say; first: 'buyer' | 'merchant'}) {
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
