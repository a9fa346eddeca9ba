// The pass of a solved challenge, kept over reloads. It is useless without its buyer's session.

import type {ChallengePass} from '../../api/types.ts'
import {flightKey} from '../../base/storage.ts'

const key = (user: string, activity: string) => `${flightKey(user, activity)}:pass`

export function readPass(user: string, activity: string): ChallengePass | undefined {
  try {
    const kept = JSON.parse(localStorage.getItem(key(user, activity)) ?? 'null') as ChallengePass | null
    return kept?.captcha_pass && Date.parse(kept.expires_at) ? kept : undefined
  } catch {
    return undefined
  }
}

export function writePass(user: string, activity: string, pass: ChallengePass | undefined): void {
  try {
    if (pass) localStorage.setItem(key(user, activity), JSON.stringify(pass))
    else localStorage.removeItem(key(user, activity))
  } catch {
    // The pass lasts until the page is left.
  }
}
