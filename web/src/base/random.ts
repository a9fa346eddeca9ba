// newKey returns 32 random hex digits, for Idempotency-Key. crypto.randomUUID exists in secure contexts only.
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
}
