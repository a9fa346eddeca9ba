// The tabs of one browser announce to each other that an order of the buyer has changed.

const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel('flashsale') : undefined

export const changed = () => channel?.postMessage('order')

export const onChanged = (fn: () => void, signal: AbortSignal) => channel?.addEventListener('message', fn, {signal})
