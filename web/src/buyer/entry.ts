// What stands before a purchase where a sale has a waiting room or a challenge. The parts are chunks.

import type {VNode} from 'preact'
import type {Permit} from '../api/types.ts'
import type {Shown} from './saleview.ts'

export interface Deadline {
  label: string
  until: number // server time, ms
}

export interface Entry {
  readonly permit: Permit // for the path
  readonly title: string // before the title of the sale, for a tab in the background
  readonly label: string // of the button while it reads `buy_join`
  readonly solves?: boolean // it is the challenge
  readonly deadline?: Deadline // of what the buyer may do now
  // view replaces what the page would show without the part, where the buyer could buy now or at the start.
  view(shown: Shown): Shown
  text(): string // of the status line
  join(): Promise<void> // by the button
  part(): VNode
  close(): void
}
