import {words} from '../base/words.ts'
import {buyer as en} from '../words/buyer.en.ts'
import {buyer as zh} from '../words/buyer.zh.ts'

export const w = words({en, zh})
