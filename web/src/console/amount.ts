// What the forms say of an amount while it is typed.

import {fromMinor, toMinor} from '../base/minor.ts'
import {money, type Currency} from '../base/money.ts'
import {w} from './words.ts'

// understood is the amount that a text is read as, empty if it is none.
export function understood(text: string, of?: Currency): string {
  const minor = of && toMinor(text, of.currency_digits)
  return minor && of ? money(minor, of) : ''
}

// amountWrong says how to write an amount.
export function amountWrong(of: Currency): string {
  const example = fromMinor(9000 * 10 ** of.currency_digits, of.currency_digits)
  return w(of.currency_digits === 3 ? 'amount_wrong_three' : 'amount_wrong', {example})
}
