// What the form of a sale holds: its texts, what the API gets of them, and what is wrong with them.

import type {Activity, ActivityPatch} from '../api/types.ts'
import {clock} from '../base/app.ts'
import {fromMinor, toMinor} from '../base/minor.ts'
import type {Currency} from '../base/money.ts'
import {amountWrong} from './amount.ts'
import {fromLocal, minuteUTC, momentsOf, toLocal} from './local-time.ts'
import {w} from './words.ts'

export interface Row {
  sku_id: string
  price: string
  stock: string
}

export type Setting = 'admit' | 'reorders' | 'captcha' | 'difficulty' | 'perSecond' | 'drop' | 'reserve'
export type Values = Record<'title' | 'description' | 'image_url' | 'starts' | 'ends' | 'limit' | 'pay' | Setting, string>

const HOUR_MS = 3_600_000

export function valuesOf(a?: Activity): Values {
  const hour = Math.ceil(clock.now() / HOUR_MS) * HOUR_MS
  return {
    title: a?.title ?? '',
    description: a?.description ?? '',
    image_url: a?.image_url ?? '',
    starts: toLocal(a?.starts_at ?? new Date(hour).toISOString()),
    ends: toLocal(a?.ends_at ?? new Date(hour + HOUR_MS).toISOString()),
    limit: String(a?.per_user_limit ?? 1),
    pay: String((a?.pay_within_s ?? 900) / 60),
    admit: String(a?.waiting_room?.admit_per_second || ''),
    reorders: String(a?.reorder_limit ?? 2),
    captcha: a?.captcha ?? 'none',
    difficulty: String(a?.captcha_difficulty ?? 50),
    perSecond: String(a?.degraded_sale?.per_second ?? ''),
    drop: String(a?.degraded_sale?.drop ?? 0),
    reserve: String(a?.degraded_sale?.reserve ?? 1),
  }
}

export const rowsOf = (a?: Activity): Row[] =>
  a?.items.map((i) => ({sku_id: i.sku_id, price: fromMinor(i.price, a.currency_digits), stock: String(i.stock)})) ?? [
    {sku_id: '', price: '', stock: ''},
  ]

// Presets of fairness, by what they set. Any other choice is the merchant's own.
export const presets = {
  plain: {admit: '', captcha: 'none'},
  robots: {admit: '', captcha: 'click'},
  demand: {admit: '100', captcha: 'click'},
} as const
export type Preset = keyof typeof presets | 'own'

// presetOf returns the preset that the values are. The rate of a room is the merchant's own under each.
export function presetOf({admit, captcha}: Pick<Values, 'admit' | 'captcha'>): Preset {
  if (captcha === 'none' && !admit.trim()) return 'plain'
  if (captcha === 'click') return admit.trim() ? 'demand' : 'robots'
  return 'own'
}

export const captchas = ['none', 'pow', 'click', 'provider'] as const

type Settings = Pick<ActivityPatch, 'waiting_room' | 'reorder_limit' | 'captcha' | 'captcha_difficulty' | 'degraded_sale'>

// settingsOf reads the settings of a form, or of a sale as the form shows it. An empty rate switches a setting off.
function settingsOf(v: Values): Required<Settings> {
  return {
    waiting_room: {admit_per_second: Number(v.admit)},
    reorder_limit: Number(v.reorders),
    captcha: captchas.find((kind) => kind === v.captcha) ?? 'none',
    captcha_difficulty: Number(v.difficulty),
    degraded_sale: v.perSecond.trim()
      ? {per_second: Number(v.perSecond), drop: Number(v.drop), reserve: Number(v.reserve)}
      : null,
  }
}

// bodyOf is what the API gets of a form without errors.
export const bodyOf = (v: Values, items: {sku_id: string; price: number; stock: number}[]) => ({
  title: v.title.trim(),
  description: v.description,
  image_url: v.image_url.trim(),
  starts_at: fromLocal(v.starts),
  ends_at: fromLocal(v.ends),
  per_user_limit: Number(v.limit),
  pay_within_s: Math.round(Number(v.pay) * 60),
  items,
  ...settingsOf(v),
})

// timeTexts shows the times without marks.
export function timeTexts(v: Values): Values {
  const text = (value: string) => (value.includes('#') ? `${minuteUTC(fromLocal(value))} UTC` : value)
  return {...v, starts: text(v.starts), ends: text(v.ends)}
}

const timeWrong = (value: string) => w(momentsOf(value.split('#')[0] ?? '').length === 2 ? 'time_twice' : 'time_wrong')

// problemsOf returns what is wrong with each field, by its name in the API. Of a published sale only what can still be
// changed counts.
export function problemsOf(
  v: Values,
  rows: readonly Row[],
  currencyOf: (sku: string) => Currency | undefined,
  published: boolean,
): Record<string, string> {
  const wrong: Record<string, string> = {}
  const whole = (field: string, text: string, from: number, to: number) => {
    const n = /^\d{1,12}$/.test(text.trim()) ? Number(text) : -1
    if (n < from || n > to) wrong[field] = w('whole_wrong', {from, to})
  }
  if (!v.title.trim()) wrong.title = w('text_missing')
  const [starts, ends] = [fromLocal(v.starts), fromLocal(v.ends)]
  if (!ends) wrong.ends_at = timeWrong(v.ends)
  else if (!published && starts && Date.parse(ends) <= Date.parse(starts)) wrong.ends_at = w('ends_before')
  if (v.admit.trim()) whole('waiting_room.admit_per_second', v.admit, 1, 1_000_000)
  if (v.captcha !== 'none') whole('captcha_difficulty', v.difficulty, 1, 1000)
  if (v.perSecond.trim()) {
    whole('degraded_sale.per_second', v.perSecond, 1, 100_000)
    whole('degraded_sale.drop', v.drop, 0, 99)
    whole('degraded_sale.reserve', v.reserve, 0, 100)
  }
  if (published) return wrong
  if (!starts) wrong.starts_at = timeWrong(v.starts)
  whole('per_user_limit', v.limit, 1, 1600)
  whole('reorder_limit', v.reorders, 0, 15)
  const seconds = Number(v.pay) * 60
  if (!/^\d+(\.\d+)?$/.test(v.pay.trim()) || Math.round(seconds) < 1 || seconds > 86_400) wrong.pay_within_s = w('pay_wrong')
  const first = currencyOf(rows[0]?.sku_id ?? '')
  rows.forEach((r, i) => {
    const currency = currencyOf(r.sku_id)
    if (!r.sku_id) wrong[`items[${i}].sku_id`] = w('choose_sku')
    else if (rows.findIndex((o) => o.sku_id === r.sku_id) < i) wrong[`items[${i}].sku_id`] = w('sku_twice')
    else if (currency && first && currency.currency !== first.currency) wrong[`items[${i}].sku_id`] = w('one_currency')
    if (!currency) wrong[`items[${i}].price`] = w('text_missing')
    else if (!toMinor(r.price, currency.currency_digits)) wrong[`items[${i}].price`] = amountWrong(currency)
    whole(`items[${i}].stock`, r.stock, 1, 100_000_000)
  })
  return wrong
}
