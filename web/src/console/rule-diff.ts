// The difference of two rules, field by field.

export interface Change {
  field: string
  from: string
  to: string
}

const show = (value: unknown) => (value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value))

export function diff(from: Record<string, unknown>, to: Record<string, unknown>): Change[] {
  const fields = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort()
  return fields.map((field) => ({field, from: show(from[field]), to: show(to[field])})).filter((c) => c.from !== c.to)
}

// parseRule returns an object, or undefined for anything else.
export function parseRule(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
