// Solves a proof of work in workers, in the format of ALTCHA.

import type {Challenge} from '../../api/types.ts'
import type {Report, Task} from './pow-worker.ts'
import address from './pow-worker.ts?worker&url'

type Pow = NonNullable<Challenge['pow']>

const WORKERS = 4 // at most

// The page accepts an address of a script from a policy only.
interface TrustedTypes {
  createPolicy: (name: string, rules: {createScriptURL: () => string}) => {createScriptURL: (text: string) => string}
}
const {trustedTypes} = globalThis as {trustedTypes?: TrustedTypes}
const script = trustedTypes?.createPolicy('challenge', {createScriptURL: () => address}).createScriptURL('') ?? address

// payloadOf is the answer: base64 of the JSON that ALTCHA's widget makes.
export const payloadOf = ({algorithm, challenge, salt, signature}: Pow, number: number) =>
  btoa(JSON.stringify({algorithm, challenge, number, salt, signature}))

// solvePow returns the number, or undefined if the signal is aborted first. It rejects if this browser cannot compute.
// onTried gets the number of hashes so far.
export function solvePow(pow: Pow, onTried: (n: number) => void, signal: AbortSignal): Promise<number | undefined> {
  const step = Math.min(WORKERS, Math.max(1, navigator.hardwareConcurrency || 1))
  const workers = Array.from({length: step}, () => new Worker(script, {type: 'module'}))
  return new Promise<number | undefined>((resolve, reject) => {
    let tried = 0
    const fail = () => reject(new Error('no proof of work'))
    workers.forEach((worker, start) => {
      worker.onmessage = ({data}: MessageEvent<Report>) => {
        if ('found' in data) return resolve(data.found)
        if ('failed' in data) return fail()
        onTried((tried += data.tried))
        if (tried > pow.max_number) fail()
      }
      worker.onerror = fail
      worker.postMessage({challenge: pow.challenge, salt: pow.salt, max: pow.max_number, start, step} satisfies Task)
    })
    signal.addEventListener('abort', () => resolve(undefined))
    if (signal.aborted) resolve(undefined)
  }).finally(() => {
    for (const worker of workers) worker.terminate()
  })
}
