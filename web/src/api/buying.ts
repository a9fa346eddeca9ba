import {client, result, within} from './client.ts'
import type {Accepted, Line, OwnPage, Page, Path, Permit, Reservation, Sale} from './types.ts'

export const listSales = (cursor?: string) =>
  result<Page<Sale>>(client.GET('/v1/activities', {params: {query: {limit: 50, cursor}}, signal: within()}))

export const getSale = (activity_id: string) =>
  result<Sale>(client.GET('/v1/activities/{activity_id}', {params: {path: {activity_id}}, signal: within()}))

export const createPath = (activity_id: string, permit: Permit = {}) =>
  result<Path>(
    client.POST('/v1/activities/{activity_id}/paths', {params: {path: {activity_id}}, body: permit, signal: within(8000)}),
  )

export const reserve = (activity_id: string, path: string, lines: Line[]) =>
  result<Accepted>(
    client.POST('/v1/activities/{activity_id}/paths/{path}/reservations', {
      params: {path: {activity_id, path}},
      body: {lines},
      signal: within(8000),
    }),
  )

export const listReservations = (activity_id: string, cursor?: string) =>
  result<OwnPage>(
    client.GET('/v1/activities/{activity_id}/reservations', {params: {path: {activity_id}, query: {limit: 100, cursor}}, signal: within()}),
  )

export const getReservation = (activity_id: string, order_sn: string) =>
  result<Reservation>(
    client.GET('/v1/activities/{activity_id}/reservations/{order_sn}', {params: {path: {activity_id, order_sn}}, signal: within()}),
  )
