// The buyer's contact for one order. It lives in this component only, never in storage.

import {useEffect, useState} from 'preact/hooks'
import {getContact, putContact} from '../../api/orders.ts'
import type {Contact, Order} from '../../api/types.ts'
import {lost} from '../../base/app.ts'
import {Field, Wrong} from '../../base/parts.tsx'
import {fieldErrors, say} from '../../base/problem.ts'
import {own} from './words.ts'

type Errors = Partial<Record<'name' | 'phone' | 'address_lines' | 'form', string>>

const wording = {name: 'name_wrong', phone: 'phone_wrong', address_lines: 'field_wrong'} as const

const focus = (id?: string) => requestAnimationFrame(() => document.getElementById(`contact-${id}`)?.focus())

export function ContactSection({order, onSaved}: {order: Order; onSaved: () => void}) {
  const [contact, setContact] = useState<Contact>()
  const [open, setOpen] = useState(false)
  const [busy, setBusy] = useState(false)
  const [saved, setSaved] = useState(false)
  const [errors, setErrors] = useState<Errors>({})
  const needed = order.state === 'paid' && order.contact_given === false
  useEffect(() => {
    if (needed) setOpen(true) // after the payment it is the next step
  }, [needed])
  const changeable = order.state === 'pending' || order.state === 'paid'
  const edit = async () => {
    setSaved(false)
    setErrors({})
    if (!contact && order.contact_given !== false) {
      const r = await getContact(order.order_sn)
      if (r.ok) setContact(r.data)
      else if (r.code === 'unauthenticated') return lost()
      // Saved over a contact that could not be read, an empty form would delete it.
      else if (r.code !== 'not_found') return setErrors({form: say(r)})
    }
    setOpen(true)
    focus('name')
  }
  const close = () => {
    setErrors({})
    setOpen(false)
    focus('edit')
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const text = (name: string) => String(form.get(name) ?? '').trim()
    const name = text('contact-name')
    const phone = text('contact-phone')
    const address = text('contact-address_lines')
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean)
    setBusy(true)
    const r = await putContact(order.order_sn, {name, phone, ...(address.length > 0 && {address_lines: address})})
    setBusy(false)
    if (r.ok) {
      setContact(r.data)
      setSaved(true)
      close()
      onSaved()
      return
    }
    if (r.code === 'unauthenticated') lost()
    const refused: Errors = {}
    for (const field of Object.keys(fieldErrors(r))) {
      const base = field.split(/[.[]/)[0] as 'name'
      if (base in wording) refused[base] = own(wording[base])
    }
    const first = Object.keys(refused)[0]
    if (!first) refused.form = r.code === 'state_conflict' ? own('contact_closed') : say(r)
    setErrors(refused)
    focus(first)
  }
  return (
    <section class="contact">
      <h2>{own('contact')}</h2>
      {!open && (
        <div class="row">
          <Wrong text={errors.form} />
          <p role="status">
            {saved ? own('contact_saved') : order.contact_given ? own('contact_given') : own('contact_missing')}
            {contact && saved ? ` ${contact.name}, ${contact.phone}` : ''}
          </p>
          {changeable && (
            <button id="contact-edit" onClick={() => void edit()}>
              {own('contact')}
            </button>
          )}
        </div>
      )}
      {open && (
        <form onSubmit={submit} noValidate>
          <p class="hint">{own('contact_hint')}</p>
          <Field label={own('contact_name')} name="contact-name" error={errors.name}>
            {(ids) => <input {...ids} autocomplete="name" maxLength={64} defaultValue={contact?.name ?? ''} />}
          </Field>
          <Field label={own('contact_phone')} name="contact-phone" error={errors.phone}>
            {(ids) => <input {...ids} type="tel" autocomplete="tel" maxLength={32} defaultValue={contact?.phone ?? ''} />}
          </Field>
          <Field label={own('contact_address')} name="contact-address_lines" hint={own('contact_address_hint')} error={errors.address_lines}>
            {(ids) => (
              <textarea {...ids} rows={4} autocomplete="street-address" defaultValue={contact?.address_lines?.join('\n') ?? ''} />
            )}
          </Field>
          <Wrong text={errors.form} />
          <div class="row">
            <button class="primary" type="submit" aria-disabled={busy}>
              {own('contact_save')}
            </button>
            <button type="button" onClick={close}>
              {own('cancel')}
            </button>
          </div>
        </form>
      )}
    </section>
  )
}
