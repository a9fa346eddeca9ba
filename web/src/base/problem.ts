// Wording of a refusal, from its code.

import type {Failure} from '../api/client.ts'
import {codes as en} from '../words/codes.en.ts'
import {codes as zh} from '../words/codes.zh.ts'
import {time} from './format.ts'
import {retryable} from './retry.ts'
import {words, type Values} from './words.ts'

export const code = words({en, zh})
export type Code = keyof typeof en

// Codes that share their wording.
const same: Record<string, Code> = {
  overloaded: 'rate_limited',
  gate_unavailable: 'unavailable',
  room_required: 'room_waiting',
  path_invalid: 'path_expired',
  failed_limit_reached: 'limit_reached',
}

// codeKey is the key of the wording for a code, `internal` for one without wording of its own.
export const codeKey = (key: string): Code => same[key] ?? (key in en ? (key as Code) : 'internal')

// wordingKey chooses the wording of a code where it has several. waiting: a repetition is scheduled.
export function wordingKey(f: Failure, waiting: boolean): Code {
  if (f.code === 'sold_out' && f.problem.may_return_until) return 'sold_out_until'
  if (f.code === 'limit_reached' && f.problem.barred_until) return 'barred'
  const key = codeKey(f.code)
  if (waiting) return key === 'internal' ? 'unavailable' : key
  if (key === 'internal' || !retryable(f)) return key
  return key === 'rate_limited' ? 'rate_limited_now' : 'unavailable_now'
}

// say is the sentence shown for a refusal. waitS: seconds until the call is repeated, 0 if it is not.
export function say(f: Failure, waitS = 0, now = Date.now()): string {
  const p = f.problem
  const moment = (p.may_return_until ?? p.barred_until ?? '') as string
  return code(wordingKey(f, waitS > 0), {
    ...(p as Values),
    n: waitS,
    t: moment ? time(moment, now) : `${p.estimate_s} s`,
    trace_id: p.trace_id ?? f.status,
  })
}

// fieldErrors maps each refused field to its message.
export function fieldErrors(f: Failure): Record<string, string> {
  const found: Record<string, string> = {}
  for (const e of f.problem.errors ?? []) found[e.field] = e.message
  return found
}
