// A reminder of a sale, as a file that calendars read (RFC 5545).

import type {Sale} from '../../api/types.ts'

const text = (value: string) => value.replace(/[\\;,]/g, '\\$&').replace(/\n/g, '\\n')
const moment = (at: string | number) => new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')

// fold breaks a line after at most 75 octets.
function fold(line: string): string {
  const parts = ['']
  let octets = 0
  for (const c of line) {
    const n = new TextEncoder().encode(c).length
    if (octets + n > 75) {
      parts.push('')
      octets = 1 // the space before it
    }
    parts[parts.length - 1] += c
    octets += n
  }
  return parts.join('\r\n ')
}

// calendar is the file: the sale from its start to its end, with an alarm five minutes before the start.
export function calendar(sale: Sale, url: string, now: number): string {
  const lines = [
    'BEGIN:VCALENDAR',
    'VERSION:2.0',
    'PRODID:-//flashsale//EN',
    'BEGIN:VEVENT',
    `UID:${sale.activity_id}@${new URL(url).hostname}`,
    `DTSTAMP:${moment(now)}`,
    `DTSTART:${moment(sale.starts_at)}`,
    `DTEND:${moment(sale.ends_at)}`,
    `SUMMARY:${text(sale.title)}`,
    `URL:${url}`,
    'BEGIN:VALARM',
    'ACTION:DISPLAY',
    `DESCRIPTION:${text(sale.title)}`,
    'TRIGGER:-PT5M',
    'END:VALARM',
    'END:VEVENT',
    'END:VCALENDAR',
    '',
  ]
  return lines.map(fold).join('\r\n')
}
