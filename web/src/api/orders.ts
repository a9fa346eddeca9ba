import {client, result, within} from './client.ts'
import type {Contact, Order, OrderState, Page, Payment, StartedPayment} from './types.ts'

export const listOrders = (state?: OrderState, cursor?: string) =>
  result<Page<Order>>(client.GET('/v1/orders', {params: {query: {state, limit: 20, cursor}}, signal: within()}))

export const getOrder = (order_sn: string) =>
  result<Order>(client.GET('/v1/orders/{order_sn}', {params: {path: {order_sn}}, signal: within()}))

export const startPayment = (order_sn: string, provider: string, key: string) =>
  result<StartedPayment>(
    client.POST('/v1/orders/{order_sn}/payments', {
      params: {path: {order_sn}, header: {'Idempotency-Key': key}},
      body: {provider},
      signal: within(),
    }),
  )

export const cancelOrder = (order_sn: string) =>
  result<Order>(
    client.POST('/v1/orders/{order_sn}/cancel', {
      params: {path: {order_sn}},
      signal: within(),
    }),
  )

export const getContact = (order_sn: string) =>
  result<Contact>(client.GET('/v1/orders/{order_sn}/contact', {params: {path: {order_sn}}, signal: within()}))

export const putContact = (order_sn: string, body: Contact) =>
  result<Contact>(client.PUT('/v1/orders/{order_sn}/contact', {params: {path: {order_sn}}, body, signal: within()}))

export const getPayment = (payment_id: string) =>
  result<Payment>(client.GET('/v1/payments/{payment_id}', {params: {path: {payment_id}}, signal: within()}))

// playSandbox waits longer than other calls: the service sends the callback before it responds.
export const playSandbox = (payment_id: string, outcome: 'succeeded' | 'failed') =>
  result<undefined>(
    client.POST('/v1/payments/{payment_id}/sandbox', {params: {path: {payment_id}}, body: {outcome}, signal: within(20_000)}),
  )
