import type {sandbox as en} from './sandbox.en.ts'

export const sandbox: Record<keyof typeof en, string> = {
  title: '测试支付',
  hint: '此页面模拟支付渠道，不会真正扣款。',
  ok: '支付成功',
  fail: '支付失败',
  sending: '正在提交结果…',
  to_order: '返回订单',
  order_of: '订单 {sn}',
}
