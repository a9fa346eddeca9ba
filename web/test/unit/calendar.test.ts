import assert from 'node:assert/strict'
import {test} from 'node:test'
import type {Sale} from '../../src/api/types.ts'
import {calendar} from '../../src/buyer/orders/calendar.ts'

test('a reminder is a calendar file with lines of at most 75 octets', () => {
  const title = 'Sneakers; red, blue \\ 秒杀'.padEnd(120, '秒')
  const sale = {activity_id: '12', title, starts_at: '2026-12-01T10:00:00.500Z', ends_at: '2026-12-01T12:00:00+01:00'} as Sale
  const text = calendar(sale, 'https://shop.example/sales/12', Date.parse('2026-11-28T08:00:00Z'))
  const lines = text.split('\r\n')
  for (const line of lines) assert.ok(new TextEncoder().encode(line).length <= 75, line)
  const unfolded = text.replaceAll('\r\n ', '').split('\r\n')
  assert.deepEqual(unfolded.slice(0, 2), ['BEGIN:VCALENDAR', 'VERSION:2.0'])
  assert.ok(unfolded.includes('DTSTART:20261201T100000Z'))
  assert.ok(unfolded.includes('DTEND:20261201T110000Z'))
  assert.ok(unfolded.includes('DTSTAMP:20261128T080000Z'))
  assert.ok(unfolded.includes('URL:https://shop.example/sales/12'))
  assert.ok(unfolded.includes(`SUMMARY:${title.replaceAll('\\', '\\\\').replaceAll(';', '\\;').replaceAll(',', '\\,')}`))
})
