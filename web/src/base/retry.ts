// When a call is repeated, and after which wait. Waits carry jitter, so that browsers do not come back together.

import type {Failure} from '../api/client.ts'

const WAITS_S = [1, 2, 3, 5]

// retryable reports whether the same call may succeed later: no response, a failed server or proxy, a rate limit.
export const retryable = ({status}: Failure) => !status || status === 429 || (status >= 500 && status !== 501)

// retryDelay is the wait in ms before attempt n + 1, at least what the server requested. random is in [0, 1).
export function retryDelay(n: number, retryAfterS: number, random = Math.random): number {
  const base = Math.max(retryAfterS, WAITS_S[Math.min(n, WAITS_S.length - 1)] as number)
  return base * 1000 * (1 + random() * 0.5)
}
