// Formats of numbers and times, in the language of the page and the time zone of the device, which each time names.

import {locale} from './words.ts'

export const count = (n: number) => n.toLocaleString(locale.value)

const format = (d: Date, options: Intl.DateTimeFormatOptions) =>
  Number.isNaN(d.getTime()) ? '' : d.toLocaleString(locale.value, {hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short', ...options})

// time formats a moment as briefly as it is clear: without the date if it is today by `now` (ms).
export function time(moment: string | number, now: number = Date.now(), seconds = false): string {
  const d = new Date(moment)
  const today = new Date(now)
  return format(d, {
    ...(seconds && {second: '2-digit'}),
    ...(d.toDateString() !== today.toDateString() && {month: 'short', day: 'numeric'}),
    ...(d.getFullYear() !== today.getFullYear() && {year: 'numeric'}),
  })
}

// hour formats a moment for an axis, whose other labels are of the same day and zone.
export const hour = (ms: number): string => format(new Date(ms), {timeZoneName: undefined})

// stamp formats a moment with date and seconds, for records.
export const stamp = (moment: string): string =>
  format(new Date(moment), {year: 'numeric', month: '2-digit', day: '2-digit', second: '2-digit'})

// ago formats the age of a moment at another one in its largest unit: "3 hr. ago".
export function ago(moment: string, at: string): string {
  const seconds = Math.max(0, Math.round((Date.parse(at) - Date.parse(moment)) / 1000))
  const units = [['day', 86400], ['hour', 3600], ['minute', 60]] as const
  const [unit, size] = units.find(([, s]) => seconds >= s) ?? (['second', 1] as const)
  return new Intl.RelativeTimeFormat(locale.value, {style: 'short'}).format(-Math.floor(seconds / size), unit)
}

const two = (n: number) => String(n).padStart(2, '0')

// clockFace formats a remaining time: 04:32, 01:04:32; days are counted apart. A started second counts in full.
export function clockFace(ms: number): {days: number; face: string} {
  const total = Math.max(0, Math.ceil(ms / 1000))
  const days = Math.floor(total / 86400)
  const h = Math.floor((total % 86400) / 3600)
  const rest = `${two(Math.floor((total % 3600) / 60))}:${two(total % 60)}`
  return {days, face: h > 0 || days > 0 ? `${two(h)}:${rest}` : rest}
}
