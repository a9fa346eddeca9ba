// Amounts of money: minor units in the API, decimals for people.

import {locale} from './words.ts'

// Currency is part of each object of the API that has amounts. The server knows the decimals; browsers differ.
export interface Currency {
  currency: string
  currency_digits: number
}

const symbols: Partial<Record<string, string>> = {EUR: '€', GBP: '£', USD: 'US$', JPY: 'JP¥', CNY: 'CN¥', HKD: 'HK$'}

// money formats an amount with all decimals of its currency.
export function money(minor: number, {currency, currency_digits: n}: Currency): string {
  const amount = (minor / 10 ** n).toLocaleString(locale.value, {minimumFractionDigits: n, maximumFractionDigits: n})
  return (symbols[currency] ?? `${currency}\u00a0`) + amount
}
