// Amounts as people write them, and in minor units as the API has them.

import {digits} from './format.ts'

// toMinor reads an amount such as 12.50; undefined if it is not one.
export function toMinor(text: string, currency: string): number | undefined {
  const match = /^(\d{1,12})(?:[.,](\d*))?$/.exec(text.trim())
  if (!match) return undefined
  const places = digits(currency)
  const fraction = (match[2] ?? '').replace(/0+$/, '')
  if (fraction.length > places) return undefined
  return Number(match[1]) * 10 ** places + Number(fraction.padEnd(places, '0') || 0)
}

export function fromMinor(minor: number, currency: string): string {
  const places = digits(currency)
  const text = String(minor).padStart(places + 1, '0')
  return places ? `${text.slice(0, -places)}.${text.slice(-places)}` : text
}
