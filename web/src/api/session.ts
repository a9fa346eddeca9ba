import {client, result, within} from './client.ts'
import type {Config, Session, SignIn} from './types.ts'

export const getTime = (signal?: AbortSignal) =>
  result<{server_time: number}>(client.GET('/v1/time', {signal: signal ?? within(5000), cache: 'no-store'}))

export const getConfig = () => result<Config>(client.GET('/v1/config', {signal: within()}))

export const getSession = () => result<Session>(client.GET('/auth/session', {signal: within()}))

export const signInDev = (body: SignIn) =>
  result<undefined>(client.POST('/auth/dev', {body, signal: within()}))

export const signOut = () => result<{next: string}>(client.POST('/auth/logout', {signal: within()}))
