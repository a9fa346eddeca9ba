// The worker of a proof of work: tries every step-th number from start on, and reports how many it has tried.

export interface Task {
  challenge: string // SHA-256 in hexadecimal
  salt: string
  max: number
  start: number
  step: number
}

export type Report = {tried: number} | {found: number} | {failed: true}

const BATCH = 500 // hashes between two reports

const bytes = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))

async function search({challenge, salt, max, start, step}: Task): Promise<Report> {
  const wanted = bytes(challenge)
  const text = new TextEncoder()
  for (let from = start; from <= max; from += BATCH * step) {
    const numbers = Array.from({length: BATCH}, (_, i) => from + i * step).filter((n) => n <= max)
    const sums = await Promise.all(numbers.map((n) => crypto.subtle.digest('SHA-256', text.encode(salt + n))))
    const at = sums.findIndex((sum) => new Uint8Array(sum).every((byte, i) => byte === wanted[i]))
    if (at >= 0) return {found: numbers[at] as number}
    postMessage({tried: numbers.length} satisfies Report)
  }
  return {tried: 0} // another worker has the number
}

onmessage = async (event: MessageEvent<Task>) => {
  try {
    postMessage(await search(event.data))
  } catch {
    postMessage({failed: true} satisfies Report) // there is no WebCrypto, as on http
  }
}
