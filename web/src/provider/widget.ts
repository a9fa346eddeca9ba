// Loads and shows the widget of a third party.

import type {Challenge} from '../api/types.ts'
import {lang} from '../base/words.ts'

type Widget = NonNullable<Challenge['widget']>

interface API {
  render: (place: HTMLElement, options: Record<string, unknown>) => unknown
}

// Both providers have the same functions, under different names.
const providers = {
  turnstile: {script: 'https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit', name: 'turnstile', language: 'language'},
  hcaptcha: {script: 'https://js.hcaptcha.com/1/api.js?render=explicit', name: 'hcaptcha', language: 'hl'},
} as const

const LOAD_MS = 15_000

function load(address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = address
    script.async = true
    script.onload = () => resolve()
    script.onerror = () => reject(new Error('the script did not load'))
    setTimeout(script.onerror, LOAD_MS)
    document.head.append(script)
  })
}

const api = (name: string) => (globalThis as unknown as Record<string, API | undefined>)[name]

// show puts the widget into an empty element. It calls done with the token, and failed if there is none. The response of
// Turnstile names the challenge, so cData is its id.
export async function show(widget: Widget, challengeID: string, place: HTMLElement, done: (token: string) => void, failed: () => void): Promise<void> {
  const {script, name, language} = providers[widget.provider]
  try {
    if (!api(name)) await load(script)
    api(name)?.render(place, {
      sitekey: widget.site_key,
      action: widget.action,
      cData: challengeID,
      [language]: lang.value,
      callback: done,
      'error-callback': failed,
      'expired-callback': failed,
    })
  } catch {
    failed()
  }
}
