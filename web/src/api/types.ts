// Names of the API's objects as the pages use them.

import type {components as Inventory} from './inventory.gen.ts'
import type {components as Order_} from './order.gen.ts'
import type * as pending from './pending.ts'
import type {components as Seckill} from './seckill.gen.ts'

export type Problem = Seckill['schemas']['Problem']
export type SaleItem = Seckill['schemas']['ActivityItem'] & pending.ActivityItemMore
export type Sale = Omit<Seckill['schemas']['Activity'], 'items'> & pending.ActivityMore & {items: SaleItem[]}
export type Line = {sku_id: string; qty: number}
export type Path = Seckill['schemas']['Path']
export type Accepted = Seckill['schemas']['ReservationAccepted']
export type Reservation = Seckill['schemas']['Reservation'] & pending.ReservationMore
export type Order = Order_['schemas']['Order'] & pending.OrderMore
export type OrderState = Order_['schemas']['OrderState']
export type Contact = Order_['schemas']['Contact']
export type Refund = Order_['schemas']['Refund']
export type StartedPayment = Order_['schemas']['StartedPayment']

export type Product = Inventory['schemas']['Product'] & {version?: number}
export type NewProduct = Inventory['schemas']['NewProduct']
export type ProductPatch = Inventory['schemas']['ProductPatch']
export type Activity = Inventory['schemas']['Activity'] & pending.MerchantActivityMore
export type NewActivity = Inventory['schemas']['NewActivity'] & pending.MerchantActivityMore
export type ActivityPatch = Inventory['schemas']['ActivityPatch'] & pending.MerchantActivityMore
export type Adjustment = pending.AdjustmentList['items'][number]
export type StockView = Inventory['schemas']['StockView']
export type Holding = Inventory['schemas']['Holding']
export type HoldingList = Inventory['schemas']['HoldingList'] & pending.HoldingListMore
export type Repair = Inventory['schemas']['Repair']
export type Reconciliation = Inventory['schemas']['Reconciliation']
export type DeadLetter = Inventory['schemas']['DeadLetter']
export type LimitRule = Inventory['schemas']['LimitRule']
export type LimitState = Inventory['schemas']['LimitState']
export type LimitList = Inventory['schemas']['LimitList']
export type LimitDecision = Inventory['schemas']['LimitDecision']

export type {Board, BoardPoint, BoardUpdate, Change, Component, Config, Health, Payment, ReconciliationList, Session} from './pending.ts'

export interface Page<T> {
  items: T[]
  next_cursor?: string
}
