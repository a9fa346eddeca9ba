import {client, result, within} from './client.ts'
import type {
  SuspectLists,
  Activity,
  ActivityFilter,
  ActivityOrder,
  ActivityPatch,
  Adjustment,
  Board,
  CancelResults,
  Change,
  DeadLetter,
  FailedRefund,
  Health,
  HoldingList,
  HoldingState,
  PaymentDifference,
  LimitChange,
  LimitDecision,
  LimitList,
  LimitState,
  Overview,
  NewActivity,
  NewProduct,
  Page,
  Product,
  NewProfile,
  ProductFilter,
  ProductPatch,
  Profile,
  Reconciliation,
  ReconciliationList,
  ReviewList,
} from './types.ts'
import type {Currency} from '../base/money.ts'

const match = (version: number | undefined) => (version === undefined ? undefined : {'If-Match': `"${version}"`})
const once = (key: string) => ({'Idempotency-Key': key})

export const listProducts = (cursor?: string, filter: ProductFilter = {}) =>
  result<Page<Product>>(
    client.GET('/v1/merchant/products', {params: {query: {limit: 50, cursor, ...filter}}, signal: within()}),
  )

export const listCurrencies = () =>
  result<{items: Currency[]}>(client.GET('/v1/merchant/currencies', {signal: within()}))

export const getProduct = (product_id: string) =>
  result<Product>(client.GET('/v1/merchant/products/{product_id}', {params: {path: {product_id}}, signal: within()}))

export const createProduct = (body: NewProduct, key: string) =>
  result<Product>(client.POST('/v1/merchant/products', {params: {header: once(key)}, body, signal: within()}))

export const patchProduct = (product_id: string, body: ProductPatch, version?: number) =>
  result<Product>(
    client.PATCH('/v1/merchant/products/{product_id}', {params: {path: {product_id}, header: match(version)}, body, signal: within()}),
  )

export const archiveProduct = (product_id: string) =>
  result<Product>(client.POST('/v1/merchant/products/{product_id}/archive', {params: {path: {product_id}}, signal: within()}))

export const unarchiveProduct = (product_id: string) =>
  result<Product>(client.POST('/v1/merchant/products/{product_id}/unarchive', {params: {path: {product_id}}, signal: within()}))

export const getProfile = (merchant_id?: string) =>
  result<Profile>(client.GET('/v1/merchant/profile', {params: {query: {merchant_id}}, signal: within()}))

export const putProfile = (body: NewProfile, version: number, merchant_id?: string) =>
  result<Profile>(
    client.PUT('/v1/merchant/profile', {params: {query: {merchant_id}, header: match(version)}, body, signal: within()}),
  )

export const listActivities = (filter: ActivityFilter, cursor?: string) =>
  result<Page<Activity>>(
    client.GET('/v1/merchant/activities', {params: {query: {limit: 20, cursor, ...filter}}, signal: within()}),
  )

export const getActivity = (activity_id: string) =>
  result<Activity>(client.GET('/v1/merchant/activities/{activity_id}', {params: {path: {activity_id}}, signal: within()}))

export const createActivity = (body: NewActivity, key: string) =>
  result<Activity>(client.POST('/v1/merchant/activities', {params: {header: once(key)}, body, signal: within()}))

export const patchActivity = (activity_id: string, body: ActivityPatch, version?: number) =>
  result<Activity>(
    client.PATCH('/v1/merchant/activities/{activity_id}', {params: {path: {activity_id}, header: match(version)}, body, signal: within()}),
  )

export const duplicateActivity = (activity_id: string, key: string) =>
  result<Activity>(
    client.POST('/v1/merchant/activities/{activity_id}/duplicate', {
      params: {path: {activity_id}, header: once(key)},
      signal: within(),
    }),
  )

export const deleteActivity = (activity_id: string, version: number) =>
  result<unknown>(
    client.DELETE('/v1/merchant/activities/{activity_id}', {params: {path: {activity_id}, header: match(version)}, signal: within()}),
  )

export type Act = 'publish' | 'pause' | 'resume' | 'end'

export const act = (activity_id: string, what: Act) => {
  const options = {params: {path: {activity_id}}, signal: within(20_000)}
  switch (what) {
    case 'publish':
      return result<Activity>(client.POST('/v1/merchant/activities/{activity_id}/publish', options))
    case 'pause':
      return result<Activity>(client.POST('/v1/merchant/activities/{activity_id}/pause', options))
    case 'resume':
      return result<Activity>(client.POST('/v1/merchant/activities/{activity_id}/resume', options))
    case 'end':
      return result<Activity>(client.POST('/v1/merchant/activities/{activity_id}/end', options))
  }
}

export const adjust = (activity_id: string, body: {sku_id: string; delta: number; reason: string}, key: string) =>
  result<Adjustment>(
    client.POST('/v1/merchant/activities/{activity_id}/stock-adjustments', {
      params: {path: {activity_id}, header: once(key)},
      body,
      signal: within(20_000),
    }),
  )

export const getBoard = (activity_id: string) =>
  result<Board>(client.GET('/v1/merchant/activities/{activity_id}/board', {params: {path: {activity_id}}, signal: within()}))

export const boardEvents = (activity_id: string) => `/v1/merchant/activities/${encodeURIComponent(activity_id)}/board/events`

export interface HoldingFilter {
  user_id?: string
  state?: HoldingState
  order_sn?: string
}

export const listHoldings = (activity_id: string, filter: HoldingFilter, cursor?: string) =>
  result<HoldingList>(
    client.GET('/v1/merchant/activities/{activity_id}/orders', {
      params: {path: {activity_id}, query: {limit: 50, cursor, ...filter}},
      signal: within(20_000),
    }),
  )

export const holdingsCSV = (activity_id: string, filter: HoldingFilter) => {
  const query = new URLSearchParams({format: 'csv'})
  for (const [name, value] of Object.entries(filter)) if (value) query.set(name, value)
  return `/v1/merchant/activities/${encodeURIComponent(activity_id)}/orders?${query}`
}

export const getActivityOrder = (activity_id: string, order_sn: string) =>
  result<ActivityOrder>(
    client.GET('/v1/merchant/activities/{activity_id}/orders/{order_sn}', {params: {path: {activity_id, order_sn}}, signal: within(20_000)}),
  )

export const getSuspects = (activity_id: string) =>
  result<SuspectLists>(client.GET('/v1/merchant/activities/{activity_id}/abuse', {params: {path: {activity_id}}, signal: within(20_000)}))

export const suspectsCSV = (activity_id: string) =>
  `/v1/merchant/activities/${encodeURIComponent(activity_id)}/abuse?format=csv`

export const listReview = (activity_id: string, cursor?: string) =>
  result<ReviewList>(
    client.GET('/v1/merchant/activities/{activity_id}/review', {
      params: {path: {activity_id}, query: {limit: 50, cursor}},
      signal: within(20_000),
    }),
  )

export const cancelReviewed = (activity_id: string, body: {order_sns: string[]; reason: string}) =>
  result<CancelResults>(
    client.POST('/v1/merchant/activities/{activity_id}/review/cancel', {params: {path: {activity_id}}, body, signal: within(20_000)}),
  )

export const listChanges = (activity_id: string, cursor?: string) =>
  result<Page<Change>>(
    client.GET('/v1/merchant/activities/{activity_id}/changes', {params: {path: {activity_id}, query: {limit: 50, cursor}}, signal: within()}),
  )

export const listAdjustments = (activity_id: string, cursor?: string) =>
  result<Page<Adjustment>>(
    client.GET('/v1/merchant/activities/{activity_id}/adjustments', {
      params: {path: {activity_id}, query: {limit: 50, cursor}},
      signal: within(),
    }),
  )

export const listReconciliations = (activity_id: string, cursor?: string) =>
  result<ReconciliationList>(
    client.GET('/v1/merchant/activities/{activity_id}/reconciliations', {
      params: {path: {activity_id}, query: {limit: 20, cursor}},
      signal: within(),
    }),
  )

export const reconcile = (activity_id: string) =>
  result<Reconciliation>(
    client.POST('/v1/merchant/activities/{activity_id}/reconciliations', {params: {path: {activity_id}}, signal: within(60_000)}),
  )

export const listDeadLetters = (state: string, cursor?: string) =>
  result<Page<DeadLetter>>(
    client.GET('/v1/merchant/dead-letters', {params: {query: {state: state as 'open', limit: 20, cursor}}, signal: within()}),
  )

export const replayDeadLetter = (dead_letter_id: string) =>
  result<DeadLetter>(
    client.POST('/v1/merchant/dead-letters/{dead_letter_id}/replay', {params: {path: {dead_letter_id}}, signal: within(20_000)}),
  )

export const rejectDeadLetter = (dead_letter_id: string) =>
  result<DeadLetter>(
    client.POST('/v1/merchant/dead-letters/{dead_letter_id}/reject', {params: {path: {dead_letter_id}}, signal: within(20_000)}),
  )

export const listRefunds = (cursor?: string) =>
  result<Page<FailedRefund>>(
    client.GET('/v1/merchant/refunds', {params: {query: {limit: 20, cursor}}, signal: within(20_000)}),
  )

export const listPaymentDifferences = (cursor?: string) =>
  result<Page<PaymentDifference>>(
    client.GET('/v1/merchant/payment-differences', {params: {query: {limit: 20, cursor}}, signal: within(20_000)}),
  )

export const retryRefund = (refund_id: string) =>
  result<FailedRefund>(client.POST('/v1/merchant/refunds/{refund_id}/retry', {params: {path: {refund_id}}, signal: within(20_000)}))

export const settleRefund = (refund_id: string, body: {reference: string; reason: string}) =>
  result<FailedRefund>(
    client.POST('/v1/merchant/refunds/{refund_id}/settle', {params: {path: {refund_id}}, body, signal: within(20_000)}),
  )

export const listLimits = (cursor?: string) =>
  result<LimitList>(client.GET('/v1/merchant/limits', {params: {query: {limit: 100, cursor}}, signal: within()}))

export const getLimit = (limit_name: string) =>
  result<LimitState>(client.GET('/v1/merchant/limits/{limit_name}', {params: {path: {limit_name}}, signal: within()}))

export const patchLimit = (limit_name: string, body: Record<string, unknown>, version: number) =>
  result<LimitChange>(
    client.PATCH('/v1/merchant/limits/{limit_name}', {
      params: {path: {limit_name}, header: match(version)},
      body,
      signal: within(),
    }),
  )

export const listLimitChanges = (limit_name: string) =>
  result<Page<Change>>(
    client.GET('/v1/merchant/limits/{limit_name}/changes', {params: {path: {limit_name}, query: {limit: 10}}, signal: within()}),
  )

export const revertLimit = (limit_name: string) =>
  result<LimitChange>(client.POST('/v1/merchant/limits/{limit_name}/revert', {params: {path: {limit_name}}, signal: within()}))

export const tryLimit = (limit_name: string, key: string) =>
  result<LimitDecision>(
    client.POST('/v1/merchant/limits/{limit_name}/try', {params: {path: {limit_name}}, body: {key}, signal: within()}),
  )

export const getOverview = () => result<Overview>(client.GET('/v1/merchant/overview', {signal: within()}))

export const getHealth = () => result<Health>(client.GET('/v1/merchant/health', {signal: within()}))
