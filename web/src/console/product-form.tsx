import {useState} from 'preact/hooks'
import {createProduct, getProduct, listCurrencies, patchProduct} from '../api/merchant.ts'
import type {Product} from '../api/types.ts'
import {fromMinor, toMinor} from '../base/minor.ts'
import type {Currency} from '../base/money.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {fieldErrors} from '../base/problem.ts'
import {newKey} from '../base/random.ts'
import {go} from '../base/route.ts'
import {amountWrong, understood} from './amount.ts'
import {Conflict, differences, settle, type Difference} from './conflict.tsx'
import {Failed, focusWrong, Head, useForm, useRead} from './parts.tsx'
import {sentence, w} from './words.ts'

interface Row {
  sku_id?: string
  name: string
  price: string
  currency: string
}

const rowsOf = (p?: Product): Row[] =>
  p?.skus.map((s) => ({
    sku_id: s.sku_id,
    name: s.name,
    price: fromMinor(s.list_price, s.currency_digits),
    currency: s.currency,
  })) ?? [{name: '', price: '', currency: 'EUR'}]

const find = (currencies: Currency[], code: string) => currencies.find((c) => c.currency === code)

// The rows as fields of a conflict. A new row is compared with the stored SKU of its name.
const rowKey = (r: Row, stored: Row[]) =>
  `sku ${r.sku_id ?? stored.find((s) => s.name === r.name.trim())?.sku_id ?? r.name}`
const rowLabels = (list: Row[], stored: Row[]) =>
  Object.fromEntries(list.map((r) => [rowKey(r, stored), `${w('sku')} ${r.name}`]))
const rowTexts = (list: Row[], stored: Row[], currencies: Currency[]) =>
  Object.fromEntries(
    list.map((r) => {
      const price = understood(r.price, find(currencies, r.currency)) || `${r.price} ${r.currency}`
      return [rowKey(r, stored), `${r.name.trim()} · ${price}`]
    }),
  )

const valuesOf = (p?: Product) => ({
  name: p?.name ?? '',
  description: p?.description ?? '',
  image_url: p?.image_url ?? '',
})

export function ProductForm({id}: {id?: string}) {
  const read = useRead(
    () => (id ? getProduct(id) : Promise.resolve({ok: true as const, data: undefined, etag: ''})),
    [id],
  )
  const table = useRead(listCurrencies, [])
  if ((id && !read.data) || !table.data) {
    return (
      <>
        <Head title={id ? w('edit_product') : w('new_product')} />
        <Failed failure={read.failure ?? table.failure} retry={() => (read.reload(), table.reload())} />
      </>
    )
  }
  const product = read.data as Product | undefined
  // A stored SKU may have one that was withdrawn since.
  const known = table.data.items
  const currencies = [...known, ...(product?.skus ?? []).filter((s) => !find(known, s.currency))]
  return <Form product={product} currencies={currencies} onChange={read.setData as (p: Product) => void} />
}

interface Props {
  product?: Product
  currencies: Currency[]
  onChange: (p: Product) => void
}

function Form({product, currencies, onChange}: Props) {
  const [values, setValues] = useState(valuesOf(product))
  const [rows, setRows] = useState(rowsOf(product))
  const dirty = JSON.stringify([values, rows]) !== JSON.stringify([valuesOf(product), rowsOf(product)])
  const leave = useForm(dirty)
  const [key, setKey] = useState(newKey)
  const [busy, setBusy] = useState(false)
  const [message, setMessage] = useState('')
  const [saved, setSaved] = useState(false)
  const [errors, setErrors] = useState<Record<string, string>>({})
  const [conflict, setConflict] = useState<Difference[]>()
  const labels = {name: w('product_name'), description: w('product_description'), image_url: w('image_url')}
  const set = (name: keyof typeof values) => (e: {currentTarget: {value: string}}) =>
    setValues({...values, [name]: e.currentTarget.value})
  const setRow = (i: number, change: Partial<Row>) => setRows(rows.map((r, j) => (i === j ? {...r, ...change} : r)))
  const submit = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    const form = event.currentTarget as HTMLFormElement
    const wrong: Record<string, string> = {}
    if (!values.name.trim()) wrong.name = w('text_missing')
    const skus = rows.map((r, i) => {
      if (!r.name.trim()) wrong[`skus[${i}].name`] = w('text_missing')
      const currency = find(currencies, r.currency)
      const list_price = currency && toMinor(r.price, currency.currency_digits)
      if (!currency) wrong[`skus[${i}].currency`] = w('currency_wrong')
      else if (!list_price) wrong[`skus[${i}].list_price`] = amountWrong(currency)
      return {
        ...(r.sku_id && {sku_id: r.sku_id}),
        name: r.name.trim(),
        list_price: list_price ?? 0,
        ...(!r.sku_id && {currency: r.currency}),
      }
    })
    setSaved(false)
    setConflict(undefined)
    setErrors(wrong)
    if (Object.keys(wrong).length) {
      setMessage(w('invalid_request'))
      return focusWrong(form)
    }
    setBusy(true)
    const r = product
      ? await patchProduct(product.product_id, {...values, skus}, product.version)
      : await createProduct({...values, skus: skus as {name: string; list_price: number; currency: string}[]}, key)
    if (r.ok) {
      leave()
      if (!product) return go('/console/products')
      setBusy(false)
      onChange(r.data)
      setRows(rowsOf(r.data))
      setMessage('')
      setSaved(true)
      return
    }
    if (!product) {
      // The key is that of an earlier attempt with other values, which was accepted without a response.
      const before = r.code === 'idempotency_conflict'
      if (before) setKey(newKey())
      setMessage(before ? w('saved_before') : sentence(r))
    } else {
      const {message, fresh} = await settle(r, product, () => getProduct(product.product_id))
      setMessage(message)
      if (fresh) {
        const theirs = rowsOf(fresh)
        const names = {...labels, ...rowLabels(rows, theirs), ...rowLabels(theirs, theirs)}
        const yours = {...values, ...rowTexts(rows, theirs, currencies)}
        setConflict(differences(names, yours, {...valuesOf(fresh), ...rowTexts(theirs, theirs, currencies)}))
        onChange(fresh)
        setValues(valuesOf(fresh))
        setRows(theirs)
      }
    }
    setBusy(false)
    setErrors(fieldErrors(r))
    focusWrong(form)
  }
  return (
    <form class="form" onSubmit={submit} noValidate>
      <Head title={product ? w('edit_product') : w('new_product')} />
      {conflict && <Conflict list={conflict} />}
      {product?.archived && <p class="note">{w('product_archived')}</p>}
      <Field label={labels.name} name="name" error={errors.name}>
        {(ids) => <input {...ids} dir="auto" maxLength={200} value={values.name} onInput={set('name')} />}
      </Field>
      <Field label={labels.description} name="description" hint={w('optional')} error={errors.description}>
        {(ids) => (
          <textarea {...ids} dir="auto" rows={3} maxLength={5000} value={values.description} onInput={set('description')} />
        )}
      </Field>
      <Field label={labels.image_url} name="image_url" hint={w('image_hint')} error={errors.image_url}>
        {(ids) => <input {...ids} type="url" maxLength={500} value={values.image_url} onInput={set('image_url')} />}
      </Field>
      <fieldset>
        <legend>{w('skus')}</legend>
        <p class="hint">{w('skus_hint')}</p>
        <datalist id="currencies">
          {currencies.map((c) => (
            <option key={c.currency} value={c.currency} />
          ))}
        </datalist>
        {rows.map((row, i) => (
          <div class="form-row sku-row" key={row.sku_id ?? `new-${i}`}>
            <Field label={w('sku_name')} name={`sku-${i}-name`} error={errors[`skus[${i}].name`]}>
              {(ids) => (
                <input
                  {...ids}
                  maxLength={200}
                  value={row.name}
                  onInput={(e) => setRow(i, {name: e.currentTarget.value})}
                />
              )}
            </Field>
            <Field
              label={w('list_price')}
              name={`sku-${i}-price`}
              hint={understood(row.price, find(currencies, row.currency))}
              error={errors[`skus[${i}].list_price`]}
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
            <Field label={w('currency')} name={`sku-${i}-currency`} error={errors[`skus[${i}].currency`]}>
              {(ids) => (
                <input
                  {...ids}
                  maxLength={3}
                  list="currencies"
                  readOnly={!!row.sku_id}
                  value={row.currency}
                  onInput={(e) => setRow(i, {currency: e.currentTarget.value.toUpperCase()})}
                />
              )}
            </Field>
            {!row.sku_id && rows.length > 1 && (
              <button type="button" class="quiet" onClick={() => setRows(rows.filter((_, j) => j !== i))}>
                {w('remove')}
              </button>
            )}
          </div>
        ))}
        <button
          type="button"
          onClick={() => setRows([...rows, {name: '', price: '', currency: rows[0]?.currency ?? 'EUR'}])}
        >
          {w('add_sku')}
        </button>
      </fieldset>
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
