// The HTTP client of the pages: one origin, the session in a cookie, problem+json as values.
//
// The types are those of openapi-fetch. Its run time is not bundled: it has serializers and middleware that the pages
// do not use, 3 KB of the 30 that the buyer's document may have. call() has what is used: JSON bodies, and parameters
// in path, query and header.

import type {Client} from 'openapi-fetch'
import type {paths as InventoryPaths} from './inventory.gen.ts'
import type {paths as OrderPaths} from './order.gen.ts'
import type {paths as SeckillPaths} from './seckill.gen.ts'
import type {Page, Problem} from './types.ts'

interface Options {
  params?: {path?: Record<string, string>; query?: Record<string, unknown>; header?: Record<string, string>}
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
  cache?: RequestCache
}

async function call(method: string, path: string, options: Options = {}) {
  const {params, body, headers, signal, cache} = options
  let url = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params?.path?.[name] ?? ''))
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(params?.query ?? {})) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  if (String(query)) url += `?${query}`
  const response = await fetch(url, {
    method,
    headers: {...(body !== undefined && {'Content-Type': 'application/json'}), ...params?.header, ...headers},
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    cache,
  })
  const text = await response.text()
  const isJSON = text && /json/.test(response.headers.get('Content-Type') ?? '')
  const content = isJSON ? (JSON.parse(text) as unknown) : undefined
  // The page of a captive portal or a proxy is no answer.
  if (response.ok && text && content === undefined) throw new Error('not JSON')
  return response.ok ? {data: content, response} : {error: content, response}
}

const verb =
  (method: string) =>
  (path: string, options?: Options) =>
    call(method, path, options)

export const client = {
  GET: verb('GET'),
  POST: verb('POST'),
  PUT: verb('PUT'),
  PATCH: verb('PATCH'),
  DELETE: verb('DELETE'),
} as unknown as Pick<Client<SeckillPaths & OrderPaths & InventoryPaths>, 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'>

export type Result<T> = Done<T> | Failure

export interface Done<T> {
  ok: true
  data: T
  etag: string
  retryAfterS?: number // 0 if the response has no Retry-After
}

// Failure is a refusal by the server, or a call without a response (status 0, code `unavailable`).
export interface Failure {
  ok: false
  status: number
  code: string
  problem: Partial<Problem> & Record<string, unknown>
  retryAfterS: number // 0 if the response has no Retry-After
}

// TIMEOUT_MS bounds each call. After it the outcome of a change is unknown.
export const TIMEOUT_MS = 10_000

export const within = (ms = TIMEOUT_MS) => AbortSignal.timeout(ms)

// retryAfter reads Retry-After in s, an hour at most: a number, or the date that a proxy may send, by the clock of the
// response.
export function retryAfter(headers: Headers): number {
  const value = headers.get('Retry-After') ?? ''
  const s = Number(value) || (Date.parse(value) - (Date.parse(headers.get('Date') ?? '') || Date.now())) / 1000
  return s > 0 ? Math.min(s, 3600) : 0
}

// result turns a call of openapi-fetch into a value. It never rejects.
export async function result<T>(
  call: Promise<{data?: unknown; error?: unknown; response: Response}>,
): Promise<Result<T>> {
  try {
    const {data, error, response} = await call
    const retryAfterS = retryAfter(response.headers)
    if (response.ok) return {ok: true, data: data as T, etag: response.headers.get('ETag') ?? '', retryAfterS}
    return failure(response, error, retryAfterS)
  } catch {
    return {ok: false, status: 0, code: 'unavailable', problem: {}, retryAfterS: 0}
  }
}

// all reads a list to its end, at most so many pages of it.
export async function all<P extends Page<unknown>>(read: (cursor?: string) => Promise<Result<P>>, pages = 100): Promise<Result<P>> {
  const items: unknown[] = []
  for (let cursor: string | undefined; ; ) {
    const r = await read(cursor)
    if (!r.ok) return r
    items.push(...r.data.items)
    cursor = r.data.next_cursor
    if (!cursor || --pages < 1) return {...r, data: {...r.data, items}}
  }
}

function failure(response: Response, error: unknown, retryAfterS: number): Failure {
  const problem = (typeof error === 'object' && error !== null ? error : {}) as Failure['problem']
  return {
    ok: false,
    status: response.status,
    code: typeof problem.code === 'string' ? problem.code : codeOf(response.status),
    problem,
    retryAfterS,
  }
}

// codeOf names a response without problem+json, for example one of a proxy.
function codeOf(status: number): string {
  const names: Record<number, string> = {
    401: 'unauthenticated',
    403: 'forbidden',
    404: 'not_found',
    429: 'rate_limited',
  }
  return names[status] ?? (status > 501 ? 'unavailable' : 'internal')
}
