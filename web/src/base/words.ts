// The language of the page, and the lookup of wording in it.

import {computed, signal} from './signal.ts'

export type Lang = 'en' | 'zh'
export type Values = Record<string, string | number>

const KEY = 'flashsale:language'

// choose returns the first supported language of the list, by its primary tag.
export function choose(wanted: readonly string[]): Lang {
  for (const tag of wanted) {
    const primary = tag.toLowerCase().split('-')[0]
    if (primary === 'zh' || primary === 'en') return primary
  }
  return 'en'
}

function initial(): Lang {
  let kept: string | null = null
  try {
    kept = localStorage.getItem(KEY)
  } catch {
    // Storage may be blocked; the browser's languages decide.
  }
  return choose([...(kept ? [kept] : []), ...navigator.languages])
}

export const lang = signal<Lang>(initial())
export const locale = computed(() =>
  lang.value === 'zh' ? 'zh-CN' : (navigator.languages.find((l) => l.startsWith('en')) ?? 'en'),
)

export function setLang(to: Lang): void {
  lang.value = to
  try {
    localStorage.setItem(KEY, to)
  } catch {
    // The choice lasts until the page is left.
  }
}

// fill replaces {name} by its value.
export function fill(text: string, values: Values = {}): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole))
}

// words returns the lookup of one table, by key. The plural of a key with `n` may be under `<key>_one`.
export function words<T extends Record<string, string>>(tables: Record<Lang, T>) {
  return (key: keyof T & string, values?: Values): string => {
    const table = tables[lang.value]
    const one = values?.n === 1 ? table[`${key}_one`] : undefined
    return fill(one ?? table[key] ?? key, values)
  }
}
