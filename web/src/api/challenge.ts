import {client, result, within} from './client.ts'
import type {Challenge, ChallengeAnswer, ChallengePass} from './types.ts'

// createChallenge requests a challenge: a proof of work, or that of the sale without a kind.
export const createChallenge = (activity_id: string, body: {kind?: 'pow'; room_ticket?: string}) =>
  result<Challenge>(client.POST('/v1/activities/{activity_id}/captchas', {params: {path: {activity_id}}, body, signal: within()}))

export const answerChallenge = (activity_id: string, captcha_id: string, body: ChallengeAnswer) =>
  result<ChallengePass>(
    client.POST('/v1/activities/{activity_id}/captchas/{captcha_id}/answers', {params: {path: {activity_id, captcha_id}}, body, signal: within()}),
  )
