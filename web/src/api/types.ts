// Names of the API's objects as the pages use them.

import type {components as Inventory, operations} from './inventory.gen.ts'
import type {components as Order_} from './order.gen.ts'
import type {components as Seckill} from './seckill.gen.ts'

export type Problem = Seckill['schemas']['Problem']
export type Config = Seckill['schemas']['PagesConfig']
export type Session = Seckill['schemas']['Session']
export type SignIn = Seckill['schemas']['DevTokenRequest']
export type SaleItem = Seckill['schemas']['ActivityItem']
export type Sale = Seckill['schemas']['Activity']
export type Line = Seckill['schemas']['Line']
export type RoomTicket = Seckill['schemas']['RoomTicket']
export type RoomState = Seckill['schemas']['RoomState']
export type Draw = Seckill['schemas']['Draw']
// OwnPage is a page of a buyer's purchases in a sale.
export type OwnPage = Seckill['schemas']['ReservationList']
// Permit is what a path requires in sales with a waiting room or a challenge.
export type Permit = Seckill['schemas']['PathRequest']
export type Challenge = Seckill['schemas']['Captcha']
export type ChallengeAnswer = Seckill['schemas']['CaptchaAnswer']
export type ChallengePoint = Seckill['schemas']['CaptchaPoint']
export type ChallengePass = Seckill['schemas']['CaptchaPass']
export type Path = Seckill['schemas']['Path']
export type Accepted = Seckill['schemas']['ReservationAccepted']
export type Reservation = Seckill['schemas']['Reservation']
export type Order = Order_['schemas']['Order']
export type OrderState = Order_['schemas']['OrderState']
export type Contact = Order_['schemas']['Contact']
export type Payment = Order_['schemas']['Payment']
export type Refund = Order_['schemas']['Refund']
export type StartedPayment = Order_['schemas']['StartedPayment']

export type Product = Inventory['schemas']['Product']
export type NewProduct = Inventory['schemas']['NewProduct']
export type ProductPatch = Inventory['schemas']['ProductPatch']
export type Profile = Inventory['schemas']['Profile']
export type NewProfile = Inventory['schemas']['NewProfile']
export type Activity = Inventory['schemas']['Activity']
export type ActivityState = Inventory['schemas']['ActivityState']
export type ActivityFilter = Pick<NonNullable<operations['listActivities']['parameters']['query']>, 'state' | 'q' | 'sort'>
export type ProductFilter = Pick<NonNullable<operations['listProducts']['parameters']['query']>, 'q' | 'archived'>
export type NewActivity = Inventory['schemas']['NewActivity']
export type ActivityPatch = Inventory['schemas']['ActivityPatch']
export type Adjustment = Inventory['schemas']['Adjustment']
export type SaleMode = Inventory['schemas']['SaleMode']
export type Change = Inventory['schemas']['Change']
export type Board = Inventory['schemas']['Board']
export type BoardPoint = Inventory['schemas']['BoardPoint']
export type BoardUpdate = Inventory['schemas']['BoardUpdate']
export type StockView = Inventory['schemas']['StockView']
export type Holding = Inventory['schemas']['Holding']
// ActivityOrder is one purchase with its order, as merchants see it.
export type ActivityOrder = Inventory['schemas']['ActivityOrder']
export type OrderChange = Inventory['schemas']['OrderChange']
export type OrderRefund = Inventory['schemas']['OrderRefund']
export type HoldingList = Inventory['schemas']['HoldingList']
// HoldingState filters holdings: a state of the ledger, or of the order.
export type HoldingState = NonNullable<NonNullable<operations['listActivityOrders']['parameters']['query']>['state']>
export type SuspectLists = Inventory['schemas']['Abuse']
export type SuspectCause = Inventory['schemas']['AbuseCause']
export type SuspectUser = Inventory['schemas']['AbuseUser']
export type ReviewItem = Inventory['schemas']['ReviewItem']
export type ReviewList = Inventory['schemas']['ReviewList']
export type CancelResult = Inventory['schemas']['CancelResult']
export type CancelResults = Inventory['schemas']['CancelResults']
export type Repair = Inventory['schemas']['Repair']
export type Reconciliation = Inventory['schemas']['Reconciliation']
export type ReconciliationList = Inventory['schemas']['ReconciliationList']
export type DeadLetter = Inventory['schemas']['DeadLetter']
export type FailedRefund = Inventory['schemas']['Refund']
export type PaymentDifference = Inventory['schemas']['PaymentDifference']
export type LimitRule = Inventory['schemas']['LimitRule']
export type LimitState = Inventory['schemas']['LimitState']
export type LimitList = Inventory['schemas']['LimitList']
export type LimitChange = Inventory['schemas']['LimitChange']
export type LimitDecision = Inventory['schemas']['LimitDecision']
export type Overview = Inventory['schemas']['Overview']
export type OverviewItem = Inventory['schemas']['OverviewItem']
export type Health = Inventory['schemas']['Health']

export interface Page<T> {
  items: T[]
  next_cursor?: string
}
