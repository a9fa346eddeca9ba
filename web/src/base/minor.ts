// Amounts as people write them in forms. digits: the decimals of the currency.

// toMinor reads an amount: digits, and one decimal sign with exactly the decimals of the currency or none. It is undefined
// if the text is no such amount, or can be read in two ways: 9,000 is nine to one person and nine thousand to another. The
// decimals of 1.500, in a currency with three of them, could be a group too; a leading 0 says that they are not.
export function toMinor(text: string, digits: number): number | undefined {
  const match = /^(\d{1,12})(?:[.,](\d+))?$/.exec(text.trim())
  if (!match) return undefined
  const [, whole = '', decimals] = match
  if (decimals !== undefined && (decimals.length !== digits || couldBeGroup(whole, digits))) return undefined
  return Number(whole + (decimals ?? '').padEnd(digits, '0'))
}

const couldBeGroup = (whole: string, digits: number) => digits === 3 && /^[1-9]\d{0,2}$/.test(whole)

// fromMinor writes an amount as toMinor reads it.
export function fromMinor(minor: number, digits: number): string {
  if (!digits) return String(minor)
  const text = String(minor).padStart(digits + 1, '0')
  const whole = text.slice(0, -digits)
  return `${couldBeGroup(whole, digits) ? '0' : ''}${whole}.${text.slice(-digits)}`
}
