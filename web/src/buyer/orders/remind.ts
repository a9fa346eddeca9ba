import type {Sale} from '../../api/types.ts'
import {saleURL} from '../parts.tsx'
import {calendar} from './calendar.ts'

// remind offers the file for download.
export function remind(sale: Sale): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([calendar(sale, location.origin + saleURL(sale.activity_id), Date.now())], {type: 'text/calendar'}))
  link.download = `sale-${sale.activity_id}.ics`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
