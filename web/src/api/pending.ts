// Types of routes and fields that the OpenAPI files of the services do not have yet.
// DELETE AT THE MERGE of the branches that add them: replace each use by the generated type (api/types.ts is the only
// importer, and api/client.ts for the paths).

import type {components as Inventory} from './inventory.gen.ts'

type Json<T> = {headers: Record<string, unknown>; content: {'application/json': T}}
type Params = {query?: Record<string, string | number | undefined>; header?: Record<string, string>; path?: Record<string, string>}
type Get<T, P extends Params = Params> = {get: {parameters: P; responses: {200: Json<T>}}}
type Post<T, Body, Status extends number = 200> = {
  post: {parameters: Params; requestBody: {content: {'application/json': Body}}; responses: {[S in Status]: Json<T>}}
}
type ActivityPath = {path: {activity_id: string}; query?: Record<string, string | number | undefined>}

export interface paths {
  '/v1/time': Get<{server_time: number}>
  '/v1/config': Get<Config>
  '/auth/session': Get<Session>
  '/auth/dev': Post<never, {user_id: string; roles?: string[]; merchant_id?: string}, 204>
  '/auth/logout': Post<{next: string}, Record<string, never>>
  '/v1/payments/{payment_id}': Get<Payment, {path: {payment_id: string}}>
  '/v1/merchant/activities/{activity_id}/changes': Get<ChangeList, ActivityPath>
  '/v1/merchant/activities/{activity_id}/adjustments': Get<AdjustmentList, ActivityPath>
  '/v1/merchant/activities/{activity_id}/board': Get<Board, ActivityPath>
  '/v1/merchant/health': Get<Health>
}

export interface Config {
  sign_in: 'dev' | 'oidc' | 'none'
  payment_providers: string[]
  brand: {
    name: string
    logo_url: string
    accent: string
    accent_ink: string
    accent_dark: string
    accent_ink_dark: string
  }
  languages: string[]
  version: string
}

export interface Session {
  signed_in: boolean
  user_id?: string
  roles?: string[]
  merchant_id?: string
  expires_at?: string
}

export interface ActivityMore {
  pay_within_s?: number
  description?: string
  image_url?: string
  may_return_until?: string
}

export interface ActivityItemMore {
  image_url?: string
  list_price?: number
  paused?: boolean
}

export interface ReservationMore {
  lines?: {sku_id: string; qty: number}[]
  created_at?: string
  events_url?: string
}

export interface Payment {
  payment_id: string
  order_sn: string
  state: string
  provider: string
  amount: number
  currency: string
  created_at?: string
}

export interface OrderMore {
  payments?: Omit<Payment, 'order_sn'>[]
  contact_given?: boolean
}

export interface MerchantActivityMore {
  description?: string
  image_url?: string
}

export interface HoldingListMore {
  counts?: {reserved: number; sold: number; released: number; rejected: number}
}

export interface Change {
  change_id: string
  at: string
  actor: string
  role: 'merchant' | 'operator'
  what: string
  details?: unknown
}

export interface ChangeList {
  items: Change[]
  next_cursor?: string
}

export interface AdjustmentMore {
  state: string
}

export interface AdjustmentList {
  items: (Omit<Inventory['schemas']['Adjustment'], 'state'> & AdjustmentMore)[]
  next_cursor?: string
}

export interface ReconciliationList {
  items: {compared_at: string; actor: string; repairs: Inventory['schemas']['Repair'][]}[]
  next_cursor?: string
}

export interface BoardPoint {
  at: string
  left: number
  held: number
  sold: number
  accepted: number
  paths: number
  refused: Record<string, number>
}

export interface Board {
  activity_id: string
  title: string
  state: string
  starts_at: string
  ends_at: string
  as_of: string
  currency: string
  units: {total: number; left: number; held: number; sold: number}
  orders: {pending: number; paid: number; closed: number; rejected: number}
  totals: {accepted: number; paths: number; refused: Record<string, number>}
  stock?: Inventory['schemas']['StockView']
  points: BoardPoint[]
}

export interface BoardUpdate {
  as_of: string
  state: string
  units: Board['units']
  orders: Board['orders']
  totals: Board['totals']
  point: BoardPoint | null
}

export interface Component {
  component: string
  instance: string
  version: string
  ready: boolean
  reasons?: string[]
  breakers?: {name: string; state: string}[]
  pools?: {name: string; in_use: number; max: number}[]
  clock_offset_ms?: Record<string, number>
  started_at?: string
  at: string
}

export interface Health {
  source: 'redis' | 'self'
  items: Component[]
}
