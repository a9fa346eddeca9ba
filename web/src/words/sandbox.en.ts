// Wording of the test payment, in its chunk.
export const sandbox = {
  title: 'Test payment',
  hint: 'This page plays the payment provider. No money moves.',
  ok: 'Payment succeeds',
  fail: 'Payment fails',
  sending: 'Sending the result…',
  to_order: 'Back to the order',
  order_of: 'Order {sn}',
}
