import {client, result, within} from './client.ts'
import type {Captcha, CaptchaAnswer, CaptchaPass} from './types.ts'

// createCaptcha requests a challenge: a proof of work, or that of the sale without a kind.
export const createCaptcha = (activity_id: string, body: {kind?: 'pow'; room_ticket?: string}) =>
  result<Captcha>(client.POST('/v1/activities/{activity_id}/captchas', {params: {path: {activity_id}}, body, signal: within()}))

export const answerCaptcha = (activity_id: string, captcha_id: string, body: CaptchaAnswer) =>
  result<CaptchaPass>(
    client.POST('/v1/activities/{activity_id}/captchas/{captcha_id}/answers', {params: {path: {activity_id, captcha_id}}, body, signal: within()}),
  )
