// The profile of a merchant: what buyers read on the page of each sale.

import {useState} from 'preact/hooks'
import {getProfile, putProfile} from '../api/merchant.ts'
import type {Profile} from '../api/types.ts'
import {session} from '../base/app.ts'
import {count} from '../base/format.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {fieldErrors} from '../base/problem.ts'
import {here} from '../base/route.ts'
import {Conflict, differences, settle, type Difference} from './conflict.tsx'
import {Failed, Head, useForm, useRead} from './parts.tsx'
import {sellerName} from './who.tsx'
import {w} from './words.ts'

const MOST = 500 // characters about delivery

const valuesOf = ({name, terms_url, delivery}: Profile) => ({name, terms_url, delivery})

export function ProfilePage() {
  const merchant = here.value.searchParams.get('merchant_id') ?? session.value?.merchant_id
  const read = useRead(() => getProfile(merchant), [merchant])
  if (read.data) return <Form key={merchant} profile={read.data} onChange={read.setData} />
  return (
    <>
      <Head title={w('profile')} />
      <Failed failure={read.failure} retry={read.reload} />
    </>
  )
}

function Form({profile, onChange}: {profile: Profile; onChange: (p: Profile) => void}) {
  const [values, setValues] = useState(valuesOf(profile))
  useForm(JSON.stringify(values) !== JSON.stringify(valuesOf(profile)))
  const [busy, setBusy] = useState(false)
  const [saved, setSaved] = useState(false)
  const [message, setMessage] = useState('')
  const [errors, setErrors] = useState<Record<string, string>>({})
  const [conflict, setConflict] = useState<Difference[]>()
  const labels = {name: w('seller_name'), terms_url: w('terms_url'), delivery: w('delivery')}
  const set = (name: keyof typeof values) => (e: {currentTarget: {value: string}}) => {
    setSaved(false)
    setValues({...values, [name]: e.currentTarget.value})
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    setBusy(true)
    setSaved(false)
    setConflict(undefined)
    const {merchant_id, version} = profile
    const r = await putProfile(
      {name: values.name.trim(), terms_url: values.terms_url.trim(), delivery: values.delivery.trim()},
      version,
      merchant_id,
    )
    setBusy(false)
    setErrors(r.ok ? {} : fieldErrors(r))
    if (r.ok) {
      onChange(r.data)
      setValues(valuesOf(r.data))
      setMessage('')
      setSaved(true)
      if (merchant_id === session.value?.merchant_id) sellerName.value = r.data.name
      return
    }
    const {message, fresh} = await settle(r, profile, () => getProfile(merchant_id))
    setMessage(message)
    if (!fresh) return
    setConflict(differences(labels, values, valuesOf(fresh)))
    onChange(fresh)
    setValues(valuesOf(fresh))
  }
  return (
    <form class="form" onSubmit={submit} noValidate>
      <Head title={w('profile')} />
      <p class="row facts">
        {w('merchant')} <b>{profile.merchant_id}</b>
      </p>
      <p class="note">{w('profile_text')}</p>
      {conflict && <Conflict list={conflict} />}
      <Field label={labels.name} name="name" error={errors.name}>
        {(ids) => <input {...ids} dir="auto" maxLength={100} value={values.name} onInput={set('name')} />}
      </Field>
      <Field label={labels.terms_url} name="terms_url" hint={w('terms_hint')} error={errors.terms_url}>
        {(ids) => <input {...ids} type="url" maxLength={500} value={values.terms_url} onInput={set('terms_url')} />}
      </Field>
      <Field
        label={labels.delivery}
        name="delivery"
        hint={`${w('delivery_hint')} ${w('characters', {n: count([...values.delivery].length), most: count(MOST)})}`}
        error={errors.delivery}
      >
        {(ids) => <textarea {...ids} dir="auto" rows={4} value={values.delivery} onInput={set('delivery')} />}
      </Field>
      <Wrong text={message} />
      <p role="status">{saved && w('saved')}</p>
      <div class="row">
        <button class="primary" type="submit" aria-disabled={busy}>
          {w('save')}
        </button>
      </div>
    </form>
  )
}
