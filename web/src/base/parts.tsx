// Small parts that both documents use.

import type {ComponentChildren, ComponentProps, JSX} from 'preact'
import {useEffect, useState} from 'preact/hooks'
import {followLink} from './route.ts'

export function Link({children, ...rest}: ComponentProps<'a'> & {href: string}) {
  return (
    <a onClick={followLink} {...rest}>
      {children}
    </a>
  )
}

// Wordmark is the name with its sign: a bolt in a tag.
export function Wordmark({name, logo}: {name: string; logo: string}) {
  return (
    <span class="wordmark">
      {logo ? (
        <img src={logo} alt="" width="28" height="28" />
      ) : (
        <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
          <path class="mark-tag" d="M5 3h14.3a4 4 0 0 1 2.8 1.2l7.7 7.7a4 4 0 0 1 0 5.7L17.6 29.8a4 4 0 0 1-5.7 0l-7.7-7.7A4 4 0 0 1 3 19.3V5a2 2 0 0 1 2-2z" />
          <path class="mark-bolt" d="M17.5 7.5 9.8 17h5l-1.6 7.6 8.3-10.2h-5.2z" />
        </svg>
      )}
      <span>{name}</span>
    </span>
  )
}

// Field is a labelled control with a hint and an error.
export function Field({
  label,
  name,
  hint,
  error,
  children,
}: {
  label: string
  name: string
  hint?: string
  error?: string
  children: (ids: {id: string; name: string; 'aria-describedby'?: string; 'aria-invalid'?: 'true'}) => JSX.Element
}) {
  const about = [hint && `${name}-hint`, error && `${name}-error`].filter(Boolean).join(' ')
  return (
    <div class="field">
      <label for={name}>{label}</label>
      {children({
        id: name,
        name,
        ...(about && {'aria-describedby': about}),
        ...(error && {'aria-invalid': 'true' as const}),
      })}
      {hint && (
        <span class="hint" id={`${name}-hint`}>
          {hint}
        </span>
      )}
      {error && (
        <span class="error" id={`${name}-error`}>
          <span aria-hidden="true">✕ </span>
          {error}
        </span>
      )}
    </div>
  )
}

// useAfter is true once ms have passed; a skeleton is shown only then.
export function useAfter(ms: number): boolean {
  const [passed, setPassed] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setPassed(true), ms)
    return () => clearTimeout(timer)
  }, [ms])
  return passed
}

// Wrong is an error beside the control that caused it.
export function Wrong({text}: {text?: string | false}) {
  return text ? (
    <p class="error" role="alert">
      <span aria-hidden="true">✕ </span>
      {text}
    </p>
  ) : null
}

export function Skeleton({label}: {label: string}) {
  const late = useAfter(300)
  if (!late) return null
  return (
    <div class="skeleton" aria-busy="true">
      <span class="hidden">{label}</span>
      <i />
      <i />
      <i />
    </div>
  )
}

// Badge shows a state by a sign and a word, never by colour alone.
export function Badge({tone, children}: {tone: 'good' | 'warning' | 'bad' | 'quiet' | 'accent'; children: ComponentChildren}) {
  const sign = {good: '●', warning: '▲', bad: '✕', quiet: '○', accent: '◆'}[tone]
  return (
    <span class={`badge ${tone}`}>
      <span aria-hidden="true">{sign}</span> {children}
    </span>
  )
}

export function Bar({value, max, label, tone = 'accent'}: {value: number; max: number; label: string; tone?: string}) {
  const share = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0
  return (
    <div class={`bar ${tone}`} role="img" aria-label={label}>
      <i style={{transform: `scaleX(${share})`}} />
    </div>
  )
}

// hash spreads a text over 32 bits (FNV-1a).
export function hash(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return h >>> 0
}

interface PictureProps {
  url?: string
  name: string
  alt: string
  eager?: boolean
  children?: ComponentChildren // what lies over it
}

// Picture shows an image, or a quiet pattern made from the name where there is none or it does not load.
export function Picture({url, name, alt, eager, children}: PictureProps) {
  const [broken, setBroken] = useState('')
  if (url && broken !== url && /^(https?:\/\/|\/(?!\/))/.test(url)) {
    return (
      <div class="picture">
        <img
          src={url}
          alt={alt}
          width="800"
          height="600"
          loading={eager ? 'eager' : 'lazy'}
          decoding="async"
          referrerpolicy="no-referrer"
          onError={() => setBroken(url)}
        />
        {children}
      </div>
    )
  }
  const h = hash(name)
  const step = 20 + (h % 17)
  const bend = 40 + ((h >>> 8) % 120)
  const lines = []
  for (let y = -bend; y < 300 + bend; y += step) lines.push(<path d={`M0 ${y}q100 ${-bend} 200 0t200 0`} />)
  return (
    <div class="picture">
      <svg viewBox="0 0 400 300" preserveAspectRatio="xMidYMid slice" aria-hidden="true">
        <rect class="pattern-ground" width="400" height="300" />
        <g class="pattern-lines">{lines}</g>
      </svg>
      <span class="picture-initial" aria-hidden="true">
        {Array.from(name.trim())[0]?.toUpperCase() ?? ''}
      </span>
      {children}
    </div>
  )
}
