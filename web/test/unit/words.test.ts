import assert from 'node:assert/strict'
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {test} from 'node:test'
import {codeKey} from '../../src/base/problem.ts'
import {buyer as buyerEn} from '../../src/words/buyer.en.ts'
import {buyer as buyerZh} from '../../src/words/buyer.zh.ts'
import {challenge as challengeEn} from '../../src/words/challenge.en.ts'
import {challenge as challengeZh} from '../../src/words/challenge.zh.ts'
import {codes as codesEn} from '../../src/words/codes.en.ts'
import {codes as codesZh} from '../../src/words/codes.zh.ts'
import {console as consoleEn} from '../../src/words/console.en.ts'
import {console as consoleZh} from '../../src/words/console.zh.ts'
import {orders as ordersEn} from '../../src/words/orders.en.ts'
import {orders as ordersZh} from '../../src/words/orders.zh.ts'
import {provider as providerEn} from '../../src/words/provider.en.ts'
import {provider as providerZh} from '../../src/words/provider.zh.ts'
import {room as roomEn} from '../../src/words/room.en.ts'
import {room as roomZh} from '../../src/words/room.zh.ts'
import {sandbox as sandboxEn} from '../../src/words/sandbox.en.ts'
import {sandbox as sandboxZh} from '../../src/words/sandbox.zh.ts'

const tables: [string, Record<string, string>, Record<string, string>][] = [
  ['buyer', buyerEn, buyerZh],
  ['challenge', challengeEn, challengeZh],
  ['codes', codesEn, codesZh],
  ['console', consoleEn, consoleZh],
  ['orders', ordersEn, ordersZh],
  ['provider', providerEn, providerZh],
  ['room', roomEn, roomZh],
  ['sandbox', sandboxEn, sandboxZh],
]

const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort()

test('both languages have the same keys and the same values in each text', () => {
  for (const [name, en, zh] of tables) {
    assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort(), name)
    for (const key of Object.keys(en)) {
      assert.deepEqual(places(zh[key] as string), places(en[key] as string), `${name} ${key}`)
      assert.notEqual(zh[key], '', `${name} ${key}`)
    }
  }
})

// Every code of the API, from the package that lists them.
const codes = [...readFileSync(path.resolve('..', 'pkg/contract/refusal.go'), 'utf8').matchAll(/ Code = "(\w+)"/g)].map((m) => m[1] as string)

// Codes that the console words itself, and those that no page can cause by its own.
const elsewhere = new Set(['insufficient_stock', 'quota_exceeded'])
const generic = new Set(['method_not_allowed', 'body_too_large', 'unsupported_media_type', 'internal'])

test('every code of the API has wording', () => {
  assert.ok(codes.length > 20)
  for (const code of codes) {
    if (elsewhere.has(code)) assert.ok(code in consoleEn, code)
    else if (!generic.has(code)) assert.notEqual(codeKey(code), 'internal', code)
  }
  for (const reason of ['sold_out', 'limit_reached', 'expired', 'system']) assert.notEqual(codeKey(`failed_${reason}`), 'internal', reason)
  for (const reason of ['expired', 'cancelled', 'rejected', 'refunded']) assert.notEqual(codeKey(`closed_${reason}`), 'internal', reason)
})

// Codes with which no call of a buyer for a path or a purchase of a published sale is refused.
const uncounted = new Set(['invalid_request', 'unauthenticated', 'forbidden', 'not_found', 'order_not_payable', 'provider_busy', 'state_conflict', 'idempotency_conflict'])

test('the board words every reason of a refusal and of an ended purchase', () => {
  for (const code of codes.filter((c) => !elsewhere.has(c) && !generic.has(c) && !uncounted.has(c))) assert.ok(`reason_${code}` in consoleEn, code)
  for (const reason of ['expired', 'cancelled', 'rejected', 'refunded', 'system']) assert.ok(`reason_${reason}` in consoleEn, reason)
})

test('names of controls that tests from outside rely on', () => {
  assert.equal(buyerEn.buy, 'Buy now')
  assert.equal(buyerZh.buy, '立即抢购')
  assert.equal(buyerEn.pay, 'Pay')
  assert.equal(buyerZh.cancel_order, '取消订单')
  assert.equal(sandboxZh.ok, '支付成功')
  assert.equal(consoleEn.publish, 'Publish')
  assert.equal(consoleZh.end, '结束活动')
  assert.equal(consoleEn.save_limits, 'Save limits')
})
