import type {Failure} from '../api/client.ts'
import {say} from '../base/problem.ts'
import {words} from '../base/words.ts'
import {console as en} from '../words/console.en.ts'
import {console as zh} from '../words/console.zh.ts'

export type Word = keyof typeof en
export const w = words({en, zh})

// reasonName words the code of a refusal, or the reason of a purchase that failed or ended.
export function reasonName(code: string): string {
  const key = `reason_${code}`
  return key in en ? w(key as Word) : code
}

// differenceName words the kind of a difference with a payment provider.
export function differenceName(kind: string): string {
  const key = `difference_${kind}`
  return key in en ? w(key as Word) : kind
}

// refusedState is the wording of a state_conflict that no other editor caused; detail is the server's own text.
export const refusedState = (f: Failure) => `${w('state_refused')} ${f.problem.detail ?? ''}`.trim()

// refusedItem is the wording of a refused SKU of a stored sale, '' of another refusal: its product was archived, or the
// payment provider cannot take its price.
export function refusedItem(f: Failure, items: {name: string}[]): string {
  const at = /^items\[(\d+)\]\.(sku_id|price)$/.exec(f.problem.errors?.[0]?.field ?? '')
  return at ? w(at[2] === 'price' ? 'item_price' : 'item_archived', {name: items[Number(at[1])]?.name ?? ''}) : ''
}

// sentence is the wording of a refusal in the console, where some codes have their own.
export function sentence(f: Failure): string {
  switch (f.code) {
    case 'state_conflict':
    case 'invalid_request':
    case 'insufficient_stock':
    case 'unauthenticated':
      return w(f.code)
    case 'quota_exceeded':
      return w(f.code, {limit: String(f.problem.limit ?? '')})
    default:
      return say(f)
  }
}
