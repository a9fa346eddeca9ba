// The rule of a limit as a form edits it: each field is a text, '' where its default holds.

import type {LimitRule} from '../api/types.ts'
import {w} from './words.ts'

export type Rule = Record<string, unknown>

type Kind = 'count' | 'fraction' | 'duration' | 'text' | 'flag' | readonly string[]

export interface RuleField {
  name: keyof LimitRule
  kind: Kind
  standard?: string // what holds if it is left out
}

const algorithms = ['gcra', 'leaky_bucket', 'leaky_queue', 'fixed_window', 'sliding_window', 'sliding_log', 'warm_up', 'concurrency']

export const usual: RuleField[] = [
  {name: 'limit', kind: 'count'},
  {name: 'per', kind: 'duration', standard: '1s'},
  {name: 'burst', kind: 'count'},
  {name: 'key', kind: 'text', standard: 'all'},
  {name: 'max_wait', kind: 'duration'},
  {name: 'shadow', kind: 'flag', standard: 'false'},
]

export const rare: RuleField[] = [
  {name: 'algorithm', kind: algorithms, standard: 'token_bucket'},
  {name: 'cost', kind: 'count', standard: '1'},
  {name: 'queue', kind: 'count'},
  {name: 'where', kind: ['local'], standard: 'redis'},
  {name: 'on_failure', kind: ['open', 'closed'], standard: 'local'},
  {name: 'lease', kind: 'fraction'},
  {name: 'inherit', kind: ['in_proportion'], standard: 'as_is'},
  {name: 'buckets', kind: 'count', standard: '10'},
  {name: 'warm_up', kind: 'duration', standard: '10s'},
  {name: 'cold_factor', kind: 'fraction', standard: '3'},
]

export const show = (value: unknown) => (value === undefined || value === false ? '' : String(value))

// Edits are the texts that were changed. The other fields are those of the rule in force, also when it changes meanwhile.
export type Edits = Partial<Record<keyof LimitRule, string>>

const duration = /^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/

// valueOf returns the value of a text, undefined if it is left out, null if it is none of this kind.
function valueOf(kind: Kind, text: string): unknown {
  if (text === '') return undefined
  if (kind === 'count') return /^\d{1,15}$/.test(text) ? Number(text) : null
  if (kind === 'fraction') return /^\d+(\.\d+)?$/.test(text) ? Number(text) : null
  if (kind === 'duration') return duration.test(text) && /[1-9]/.test(text) ? text : null
  return kind === 'flag' ? true : text
}

// edited returns a rule with the edits, and the fields whose text says nothing of their kind. A limit of 0 refuses all.
export function edited(rule: Rule, edits: Edits): {rule: Rule; wrong: string[]} {
  const out = {...rule}
  const wrong: string[] = []
  for (const {name, kind} of [...usual, ...rare]) {
    const text = edits[name]?.trim()
    if (text === undefined) continue
    const value = valueOf(kind, text)
    if (value === null || (kind === 'count' && name !== 'limit' && value === 0)) wrong.push(name)
    else if (value === undefined) delete out[name]
    else out[name] = value
  }
  if (out.limit === undefined) wrong.push('limit')
  if (out.limit === 0) out.refuse_all = true
  else delete out.refuse_all
  return {rule: out, wrong}
}

export interface Difference {
  field: string
  from: string
  to: string
}

// diff returns the difference of two rules, field by field; a missing rule has no fields.
export function diff(from: Rule | null | undefined, to: Rule | null | undefined): Difference[] {
  const fields = [...new Set([...Object.keys(from ?? {}), ...Object.keys(to ?? {})])].filter((f) => f !== 'name').sort()
  return fields
    .map((field) => ({field, from: show(from?.[field]), to: show(to?.[field])}))
    .filter((c) => c.from !== c.to)
}

// patchOf returns what the server merges into the rule in force: null for a field that is left out from now on.
export function patchOf(from: Rule, to: Rule): Rule {
  return Object.fromEntries(diff(from, to).map(({field}) => [field, to[field] ?? null]))
}

const part = (p: string) => {
  const [kind = '', name = ''] = p.split(':')
  return name ? `${kind} ${name}` : kind
}

// effect says what a rule does to callers.
export function effect(rule: Rule): string {
  if (rule.limit === 0) return w('effect_none')
  const key = show(rule.key) || 'all'
  const who = key === 'all' ? w('effect_all') : w('effect_each', {key: key.split('+').map(part).join(' + ')})
  const said = [
    rule.algorithm === 'concurrency'
      ? w('effect_at_once', {who, n: show(rule.limit)})
      : w('effect_rate', {who, n: show(rule.limit), per: show(rule.per) || '1s'}),
  ]
  if (rule.burst !== undefined && rule.algorithm !== 'leaky_queue') said.push(w('effect_burst', {n: show(rule.burst)}))
  if (Number(rule.cost) > 1) said.push(w('effect_cost', {n: show(rule.cost)}))
  if (rule.max_wait !== undefined) said.push(w('effect_wait', {t: show(rule.max_wait)}))
  if (rule.where === 'local') said.push(w('effect_local'))
  said.push(w(rule.shadow ? 'effect_shadow' : 'effect_refused'))
  return said.join(' ')
}
