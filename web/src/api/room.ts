import {client, result, within} from './client.ts'
import type {Draw, RoomState, RoomTicket} from './types.ts'

export const joinRoom = (activity_id: string) =>
  result<RoomTicket>(client.POST('/v1/activities/{activity_id}/room', {params: {path: {activity_id}}, signal: within(8000)}))

export const getRoomTicket = (activity_id: string, ticket: string) =>
  result<RoomState>(
    client.GET('/v1/activities/{activity_id}/room', {params: {path: {activity_id}, query: {ticket}}, signal: within(), cache: 'no-store'}),
  )

export const getDraw = (activity_id: string) =>
  result<Draw>(client.GET('/v1/activities/{activity_id}/room/draw', {params: {path: {activity_id}}, signal: within()}))
