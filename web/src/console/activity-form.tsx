import {useRef, useState} from 'preact/hooks'
import {createActivity, getActivity, listProducts, patchActivity} from '../api/merchant.ts'
import type {Activity, Product} from '../api/types.ts'
import {toMinor} from '../base/minor.ts'
import {money, type Currency} from '../base/money.ts'
import {Field, Link, Wrong} from '../base/parts.tsx'
import {fieldErrors} from '../base/problem.ts'
import {newKey} from '../base/random.ts'
import {go} from '../base/route.ts'
import {
  bodyOf,
  captchas,
  type Preset,
  presetOf,
  presets,
  problemsOf,
  type Row,
  rowsOf,
  timeTexts,
  valuesOf,
} from './activity-draft.ts'
import {understood} from './amount.ts'
import {Conflict, differences, settle, type Difference} from './conflict.tsx'
import {TimeField} from './time-field.tsx'
import {Failed, focusWrong, Head, useForm, usePages, useRead, type Pages} from './parts.tsx'
import {sentence, w} from './words.ts'

export function ActivityForm({id}: {id?: string}) {
  const read = useRead(
    () => (id ? getActivity(id) : Promise.resolve({ok: true as const, data: undefined, etag: ''})),
    [id],
  )
  const products = usePages((cursor) => listProducts(cursor), [])
  if ((id && !read.data) || !products.items) {
    return (
      <>
        <Head title={id ? w('edit_sale') : w('new_sale')} />
        <Failed failure={read.failure ?? products.failure} retry={() => (read.reload(), products.reload())} />
      </>
    )
  }
  return (
    <Form
      activity={read.data as Activity | undefined}
      products={products}
      onChange={read.setData as (a: Activity) => void}
    />
  )
}

function Form({
  activity,
  products,
  onChange,
}: {
  activity?: Activity
  products: Pages<Product>
  onChange: (a: Activity) => void
}) {
  const [values, setValues] = useState(() => valuesOf(activity))
  const [rows, setRows] = useState(() => rowsOf(activity))
  const begun = useRef([values, rows])
  const dirty = JSON.stringify([values, rows]) !== JSON.stringify(activity ? [valuesOf(activity), rowsOf(activity)] : begun.current)
  const saved = useForm(dirty)
  const [own, setOwn] = useState(false)
  const [unfolded, setUnfolded] = useState(() => presetOf(values) === 'own')
  const preset: Preset = own ? 'own' : presetOf(values)
  const [key, setKey] = useState(newKey)
  const [busy, setBusy] = useState(false)
  const [message, setMessage] = useState('')
  const [errors, setErrors] = useState<Record<string, string>>({})
  const [conflict, setConflict] = useState<Difference[]>()
  const locked = !!activity && activity.state !== 'draft'
  const skus = (products.items ?? []).flatMap((p) => p.skus.map((s) => ({...s, label: `${p.name} · ${s.name}`})))
  const nameOf = (sku: string) =>
    skus.find((s) => s.sku_id === sku)?.label ?? activity?.items.find((i) => i.sku_id === sku)?.name ?? sku
  const currencyOf = (sku: string): Currency | undefined => skus.find((s) => s.sku_id === sku) ?? activity
  const labels = {
    title: w('sale_title'),
    description: w('sale_description'),
    image_url: w('image_url'),
    starts: w('starts'),
    ends: w('ends'),
    limit: w('per_user_limit'),
    pay: w('pay_within'),
    admit: w('admit_per_second'),
    reorders: w('reorder_limit'),
    captcha: w('captcha'),
    difficulty: w('captcha_difficulty'),
    perSecond: w('degraded_per_second'),
    drop: w('degraded_drop'),
    reserve: w('degraded_reserve'),
  }
  // The rows as fields of a conflict, one for each SKU.
  const rowLabels = (list: Row[]) => Object.fromEntries(list.map((r) => [`sku ${r.sku_id}`, nameOf(r.sku_id)]))
  const rowTexts = (list: Row[]) =>
    Object.fromEntries(
      list.map((r) => {
        return [`sku ${r.sku_id}`, `${understood(r.price, currencyOf(r.sku_id)) || r.price} × ${r.stock}`]
      }),
    )
  const set = (name: keyof typeof values) => (e: {currentTarget: {value: string}}) =>
    setValues({...values, [name]: e.currentTarget.value})
  const setRow = (i: number, change: Partial<Row>) => setRows(rows.map((r, j) => (i === j ? {...r, ...change} : r)))
  const refuse = (wrong: Record<string, string>) => {
    setErrors(wrong)
    if (advancedWrong(wrong)) setUnfolded(true)
  }
  const choosePreset = (chosen: Preset) => {
    setOwn(chosen === 'own')
    if (chosen === 'own') setUnfolded(true)
    if (chosen !== 'own') setValues({...values, ...presets[chosen], ...(chosen === 'demand' && values.admit.trim() && {admit: values.admit})})
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    const form = event.currentTarget as HTMLFormElement
    const wrong = problemsOf(values, rows, currencyOf, locked)
    const items = rows.map((r) => ({
      sku_id: r.sku_id,
      price: toMinor(r.price, currencyOf(r.sku_id)?.currency_digits ?? 0) ?? 0,
      stock: Number(r.stock),
    }))
    setConflict(undefined)
    refuse(wrong)
    if (Object.keys(wrong).length) {
      setMessage(w('invalid_request'))
      return focusWrong(form)
    }
    setBusy(true)
    const sent = bodyOf(values, items)
    const changed: Partial<typeof sent> = {...sent}
    if (activity) {
      // Only what differs from what the form showed is sent: it shows times without milliseconds, in a zone where an hour
      // may occur twice.
      const shown = bodyOf(valuesOf(activity), activity.items.map(({sku_id, price, stock}) => ({sku_id, price, stock})))
      for (const name of Object.keys(sent) as (keyof typeof sent)[]) {
        if (JSON.stringify(sent[name]) === JSON.stringify(shown[name])) delete changed[name]
      }
    }
    // Empty texts are left out of a new sale.
    const {description, image_url, ...rest} = sent
    const r = activity
      ? await patchActivity(activity.activity_id, changed, activity.version)
      : await createActivity({...rest, ...(description && {description}), ...(image_url && {image_url}), degraded_sale: sent.degraded_sale ?? undefined}, key)
    if (r.ok) {
      saved()
      return go(`/console/sales/${encodeURIComponent(r.data.activity_id)}`)
    }
    if (!activity) {
      // The key is that of an earlier attempt with other values, which was accepted without a response.
      const before = r.code === 'idempotency_conflict'
      if (before) setKey(newKey())
      setMessage(before ? w('saved_before') : sentence(r))
    } else {
      const {message, fresh} = await settle(r, activity, () => getActivity(activity.activity_id))
      setMessage(message)
      if (fresh) {
        const theirs = rowsOf(fresh)
        const names = {...labels, ...rowLabels([...rows, ...theirs])}
        setConflict(differences(names, {...timeTexts(values), ...rowTexts(rows)}, {...timeTexts(valuesOf(fresh)), ...rowTexts(theirs)}))
        onChange(fresh)
        setValues(valuesOf(fresh))
        setRows(theirs)
      } else if (Number.isInteger(r.problem.version)) {
        // The change is stored and the gate does not have it yet: the same change is repeated from its new version.
        onChange({...activity, version: r.problem.version as number})
      }
    }
    setBusy(false)
    refuse(fieldErrors(r))
    focusWrong(form)
  }
  return (
    <form class="form" onSubmit={submit} noValidate>
      <Head title={activity ? w('edit_sale') : w('new_sale')} />
      {conflict && <Conflict list={conflict} />}
      {locked && <p class="note">{w('sale_locked')}</p>}
      <Field label={labels.title} name="title" error={errors.title}>
        {(ids) => <input {...ids} dir="auto" maxLength={200} value={values.title} onInput={set('title')} />}
      </Field>
      <fieldset disabled={locked}>
        <legend>{w('items')}</legend>
        <p class="hint">{w('items_hint')}</p>
        {skus.length === 0 && !products.next && (
          <p class="note">
            {w('need_product')} <Link href="/console/products/new">{w('new_product')}</Link>
          </p>
        )}
        {rows.map((row, i) => (
          <div class="form-row sku-row" key={i}>
            <Field label={w('sku')} name={`item-${i}-sku`} error={errors[`items[${i}].sku_id`]}>
              {(ids) => (
                <select {...ids} value={row.sku_id} onChange={(e) => setRow(i, {sku_id: e.currentTarget.value})}>
                  <option value="">{w('choose_sku')}</option>
                  {row.sku_id && !skus.some((s) => s.sku_id === row.sku_id) && (
                    <option value={row.sku_id}>{nameOf(row.sku_id)}</option>
                  )}
                  {skus.map((s) => (
                    <option key={s.sku_id} value={s.sku_id}>
                      {s.label} ({money(s.list_price, s)})
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <Field
              label={w('price')}
              name={`item-${i}-price`}
              hint={understood(row.price, currencyOf(row.sku_id)) || currencyOf(row.sku_id)?.currency}
              error={errors[`items[${i}].price`]}
            >
              {(ids) => (
                <input
                  {...ids}
                  inputMode="decimal"
                  value={row.price}
                  onInput={(e) => setRow(i, {price: e.currentTarget.value})}
                />
              )}
            </Field>
            <Field label={w('stock')} name={`item-${i}-stock`} error={errors[`items[${i}].stock`]}>
              {(ids) => (
                <input
                  {...ids}
                  inputMode="numeric"
                  value={row.stock}
                  onInput={(e) => setRow(i, {stock: e.currentTarget.value})}
                />
              )}
            </Field>
            {rows.length > 1 && (
              <button type="button" class="quiet" onClick={() => setRows(rows.filter((_, j) => j !== i))}>
                {w('remove')}
              </button>
            )}
          </div>
        ))}
        <button type="button" onClick={() => setRows([...rows, {sku_id: '', price: '', stock: ''}])}>
          {w('add_sku')}
        </button>{' '}
        {products.next && (
          <button type="button" class="quiet" onClick={products.more}>
            {w('more_products')}
          </button>
        )}
        <Failed failure={products.failure} retry={products.more} />
      </fieldset>
      <fieldset>
        <legend>{w('how_shown')}</legend>
        <Field label={labels.description} name="description" hint={w('optional')} error={errors.description}>
          {(ids) => (
            <textarea {...ids} dir="auto" rows={3} maxLength={5000} value={values.description} onInput={set('description')} />
          )}
        </Field>
        <Field label={labels.image_url} name="image_url" hint={w('image_hint')} error={errors.image_url}>
          {(ids) => <input {...ids} type="url" maxLength={500} value={values.image_url} onInput={set('image_url')} />}
        </Field>
      </fieldset>
      <fieldset>
        <legend>{w('when')}</legend>
        <div class="form-row">
          <TimeField
            label={labels.starts}
            name="starts_at"
            value={values.starts}
            error={errors.starts_at}
            disabled={locked}
            onChange={(starts) => setValues({...values, starts})}
          />
          <TimeField
            label={labels.ends}
            name="ends_at"
            value={values.ends}
            error={errors.ends_at}
            onChange={(ends) => setValues({...values, ends})}
          />
        </div>
      </fieldset>
      <fieldset>
        <legend>{w('rules')}</legend>
        <div class="form-row">
          <Field
            label={labels.limit}
            name="per_user_limit"
            hint={w('per_user_limit_hint')}
            error={errors.per_user_limit}
          >
            {(ids) => (
              <input
                {...ids}
                type="number"
                min="1"
                max="1600"
                disabled={locked}
                value={values.limit}
                onInput={set('limit')}
              />
            )}
          </Field>
          <Field label={labels.pay} name="pay_within_s" error={errors.pay_within_s}>
            {(ids) => (
              <input
                {...ids}
                type="number"
                min="0.1"
                max="1440"
                step="any"
                disabled={locked}
                value={values.pay}
                onInput={set('pay')}
              />
            )}
          </Field>
        </div>
        <Presets value={preset} disabled={locked} choose={choosePreset} />
        <details open={unfolded} onToggle={(e) => setUnfolded(e.currentTarget.open)}>
          <summary>{w('advanced')}</summary>
          <div class="form-row">
            <Field
              label={labels.admit}
              name="waiting_room.admit_per_second"
              hint={w(locked ? 'admit_locked' : 'admit_hint')}
              error={errors['waiting_room.admit_per_second']}
            >
              {(ids) => (
                <input
                  {...ids}
                  inputMode="numeric"
                  disabled={locked && !activity?.waiting_room?.admit_per_second}
                  value={values.admit}
                  onInput={set('admit')}
                />
              )}
            </Field>
            <Field label={labels.reorders} name="reorder_limit" hint={w('reorder_hint')} error={errors.reorder_limit}>
              {(ids) => (
                <input {...ids} type="number" min="0" max="15" disabled={locked} value={values.reorders} onInput={set('reorders')} />
              )}
            </Field>
          </div>
          <div class="form-row">
            <Field label={labels.captcha} name="captcha" hint={w('captcha_hint')} error={errors.captcha}>
              {(ids) => (
                <select {...ids} value={values.captcha} onChange={set('captcha')}>
                  {captchas.map((kind) => (
                    <option key={kind} value={kind}>
                      {w(`captcha_${kind}`)}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <Field
              label={labels.difficulty}
              name="captcha_difficulty"
              hint={w('captcha_difficulty_hint')}
              error={errors.captcha_difficulty}
            >
              {(ids) => (
                <input
                  {...ids}
                  type="number"
                  min="1"
                  max="1000"
                  disabled={values.captcha === 'none'}
                  value={values.difficulty}
                  onInput={set('difficulty')}
                />
              )}
            </Field>
          </div>
          <fieldset>
            <legend>{w('degraded')}</legend>
            <p class="hint">{w('degraded_hint')}</p>
            <div class="form-row">
              <Field
                label={labels.perSecond}
                name="degraded_sale.per_second"
                hint={w('degraded_off')}
                error={errors['degraded_sale.per_second']}
              >
                {(ids) => <input {...ids} inputMode="numeric" value={values.perSecond} onInput={set('perSecond')} />}
              </Field>
              <Field label={labels.drop} name="degraded_sale.drop" hint={w('degraded_drop_hint')} error={errors['degraded_sale.drop']}>
                {(ids) => (
                  <input
                    {...ids}
                    type="number"
                    min="0"
                    max="99"
                    disabled={!values.perSecond.trim()}
                    value={values.drop}
                    onInput={set('drop')}
                  />
                )}
              </Field>
              <Field
                label={labels.reserve}
                name="degraded_sale.reserve"
                hint={w('degraded_reserve_hint')}
                error={errors['degraded_sale.reserve']}
              >
                {(ids) => (
                  <input
                    {...ids}
                    type="number"
                    min="0"
                    max="100"
                    disabled={!values.perSecond.trim()}
                    value={values.reserve}
                    onInput={set('reserve')}
                  />
                )}
              </Field>
            </div>
          </fieldset>
        </details>
      </fieldset>
      <Wrong text={message} />
      <div class="row">
        <button class="primary" type="submit" aria-disabled={busy}>
          {w('save')}
        </button>
        <Link
          class="button"
          href={activity ? `/console/sales/${encodeURIComponent(activity.activity_id)}` : '/console/sales'}
        >
          {w('cancel')}
        </Link>
      </div>
    </form>
  )
}

// advancedWrong reports an error in the part of the form that is folded.
const advancedWrong = (errors: Record<string, string>) =>
  Object.keys(errors).some((field) => /^(waiting_room|reorder_limit|captcha|degraded_sale)/.test(field))

const order: Preset[] = ['plain', 'robots', 'demand', 'own']

// Presets are the usual ways to sell, by name and effect.
function Presets({value, disabled, choose}: {value: Preset; disabled: boolean; choose: (preset: Preset) => void}) {
  return (
    <fieldset class="presets" disabled={disabled}>
      <legend>{w('fairness')}</legend>
      {order.map((preset) => (
        <label key={preset}>
          <input type="radio" name="preset" checked={preset === value} onChange={() => choose(preset)} />
          <span>
            <b>{w(`preset_${preset}`)}</b> <span class="muted small">{w(`preset_${preset}_text`)}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
