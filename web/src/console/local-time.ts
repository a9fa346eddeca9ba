// Times of forms: <input type="datetime-local"> has the device's zone, the API has UTC.
//
// A form holds a local time as a text such as 2027-10-31T02:30:00. When clocks are set back some occur twice: then #1
// or #2 follows once it is known which is meant.

const two = (n: number) => String(n).padStart(2, '0')

function local(ms: number): string {
  const d = new Date(ms)
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`
  return `${day}T${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
}

const DAY_MS = 86_400_000

// momentsOf returns the moments, in ms, at which the clocks show a local time: one, two when they are set back, none
// when they are set forward.
export function momentsOf(text: string): number[] {
  const utc = Date.parse(`${text}Z`)
  if (Number.isNaN(utc)) return []
  const shown = new Date(utc).toISOString().slice(0, 19)
  if (!shown.startsWith(text)) return [] // such as 30 February
  const offsets = [utc - DAY_MS, utc + DAY_MS].map((ms) => new Date(ms).getTimezoneOffset() * 60_000)
  const moments = [...new Set(offsets)].map((offset) => utc + offset).filter((ms) => local(ms) === shown)
  return moments.sort((a, b) => a - b)
}

export function toLocal(moment: string): string {
  const ms = Math.floor(Date.parse(moment) / 1000) * 1000
  if (Number.isNaN(ms)) return ''
  const moments = momentsOf(local(ms))
  return local(ms) + (moments.length === 2 ? `#${moments.indexOf(ms) + 1}` : '')
}

// fromLocal returns RFC 3339 in UTC, or '' for a time that is incomplete, does not occur, or occurs twice without a mark.
export function fromLocal(value: string): string {
  const [text = '', mark] = value.split('#')
  const moments = momentsOf(text)
  const ms = moments[moments.length === 2 ? Number(mark) - 1 : 0]
  return ms === undefined ? '' : new Date(ms).toISOString().replace('.000Z', 'Z')
}

// minuteUTC is a moment for a hint.
export const minuteUTC = (moment: string | number) => (moment ? new Date(moment).toISOString().replace('T', ' ').slice(0, 16) : '')

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone
