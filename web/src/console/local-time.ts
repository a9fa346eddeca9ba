// Times of forms: <input type="datetime-local"> has the device's zone, the API has UTC.

const two = (n: number) => String(n).padStart(2, '0')

export function toLocal(moment: string): string {
  const d = new Date(moment)
  if (Number.isNaN(d.getTime())) return ''
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`
  return `${day}T${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
}

// fromLocal returns RFC 3339 in UTC, or '' for an incomplete time.
export function fromLocal(text: string): string {
  const d = new Date(text)
  return text && !Number.isNaN(d.getTime()) ? d.toISOString().replace('.000Z', 'Z') : ''
}

// shortUTC is the time for a hint.
export const shortUTC = (text: string) => fromLocal(text).replace('T', ' ').replace('Z', '').slice(0, 16)
