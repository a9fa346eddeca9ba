import assert from 'node:assert/strict'
import {readdirSync, readFileSync} from 'node:fs'
import {test} from 'node:test'

const css = readFileSync('src/base/tokens.css', 'utf8')

function tokens(block: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const [, name, value] of block.matchAll(/--([\w-]+):\s*(?:var\([\w-]+,\s*)?(#[0-9a-f]{6})/g)) found[name as string] = value as string
  return found
}

const light = tokens(css.slice(0, css.indexOf('@media')))
const dark = {...light, ...tokens(css.slice(css.indexOf('prefers-color-scheme: dark'), css.indexOf('prefers-reduced-motion')))}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p) as [number, number]
  return (x + 0.05) / (y + 0.05)
}

test('every pair of text and surface has a contrast of at least 4.5, of controls at least 3', () => {
  for (const [name, t] of Object.entries({light, dark})) {
    for (const surface of ['background', 'surface']) {
      for (const ink of ['ink', 'muted', 'accent', 'good', 'warning', 'bad']) {
        const c = contrast(t[ink] as string, t[surface] as string)
        assert.ok(c >= 4.5, `${name}: ${ink} on ${surface} ${c.toFixed(2)}`)
      }
      const c = contrast(t.edge as string, t[surface] as string)
      assert.ok(c >= 3, `${name}: edge on ${surface} ${c.toFixed(2)}`)
    }
    const c = contrast(t['accent-ink'] as string, t.accent as string)
    assert.ok(c >= 4.5, `${name}: accent-ink on accent ${c.toFixed(2)}`)
  }
})

// The tests of the views rely on it: in the dark theme they check colours only.
test('the dark theme changes colours and shadows only, in one place', () => {
  const block = /@media \(prefers-color-scheme: dark\) \{\s*:root \{([^{}]*)\}\s*\}/.exec(css)?.[1] ?? ''
  const names = block.split(';').map((declaration) => declaration.split(':')[0]?.trim()).filter(Boolean)
  assert.deepEqual(new Set(names), new Set([...Object.keys(light), 'shadow'].map((name) => `--${name}`)))
  const sheets = readdirSync('src', {recursive: true, encoding: 'utf8'}).filter((name) => name.endsWith('.css'))
  const schemes = sheets.flatMap((name) => readFileSync(`src/${name}`, 'utf8').match(/prefers-color-scheme|light-dark\(/g) ?? [])
  assert.equal(schemes.length, 1)
})
