import {useEffect, useRef, useState} from 'preact/hooks'
import {clockFace} from '../base/format.ts'
import {w} from './words.ts'

export const countdownText = (ms: number): string => {
  const {days, face} = clockFace(ms)
  return days ? `${w('days', {n: days})} ${face}` : face
}

// Countdown shows a remaining time. It is not announced each second; Spoken announces what matters.
export function Countdown({ms, label, big}: {ms: number; label: string; big?: boolean}) {
  const {days, face} = clockFace(ms)
  return (
    <div class={big ? 'countdown big' : 'countdown'}>
      <span class="label">{label}</span>
      <span class="face" role="timer" aria-live="off" aria-label={`${label} ${countdownText(ms)}`}>
        {days > 0 && <small>{w('days', {n: days})}</small>}
        <b>{face}</b>
      </span>
    </div>
  )
}

// Face is a fixed text in the place of a big countdown.
export const Face = ({label, children}: {label: string; children: string}) => (
  <div class="countdown big">
    <span class="label">{label}</span>
    <span class="face">
      <small>{children}</small>
    </span>
  </div>
)

// Spoken announces one minute and ten seconds before the start to screen readers, each once.
export function Spoken({ms}: {ms: number}) {
  const [text, setText] = useState('')
  const last = useRef(ms)
  useEffect(() => {
    const before = last.current
    last.current = ms
    if (before > 60_000 && ms <= 60_000 && ms > 50_000) setText(w('spoken_60'))
    else if (before > 10_000 && ms <= 10_000 && ms > 5000) setText(w('spoken_10'))
  }, [ms])
  return (
    <span class="hidden" aria-live="assertive">
      {text}
    </span>
  )
}
