import type {provider as en} from './provider.en.ts'

export const provider: Record<keyof typeof en, string> = {
  title: '验证',
  loading: '正在获取验证。',
  provider: '请完成下方验证。验证由第三方提供，对方会获得您的 IP 地址。',
  pow: '设备正在计算，请保持页面打开。',
  sending: '正在核对。',
  solved: '验证通过，正在返回活动。',
  failed: '验证未能完成。',
  again: '重试',
  compute: '改用设备计算',
  back: '返回活动',
}
