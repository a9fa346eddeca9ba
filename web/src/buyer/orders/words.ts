import {words} from '../../base/words.ts'
import {orders as en} from '../../words/orders.en.ts'
import {orders as zh} from '../../words/orders.zh.ts'

export const own = words({en, zh})
