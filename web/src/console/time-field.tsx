// A field for a local time. If the clocks show it twice, the merchant says which is meant.

import {Field} from '../base/parts.tsx'
import {fromLocal, minuteUTC, momentsOf, zone} from './local-time.ts'
import {w} from './words.ts'

interface TimeFieldProps {
  label: string
  name: string
  value: string // as toLocal returns it
  error?: string
  disabled?: boolean
  onChange: (value: string) => void
}

const hintOf = (moment: string) => (moment ? w('local_time', {zone: zone(), utc: minuteUTC(moment)}) : zone())

export function TimeField({label, name, value, error, disabled, onChange}: TimeFieldProps) {
  const [text = '', mark = ''] = value.split('#')
  const moments = momentsOf(text)
  return (
    <Field label={label} name={name} hint={hintOf(fromLocal(value))} error={error}>
      {(ids) => (
        <>
          <input
            {...ids}
            type="datetime-local"
            step="1"
            disabled={disabled}
            value={text}
            onInput={(e) => onChange(e.currentTarget.value)}
          />
          {moments.length === 2 && (
            <select
              aria-label={w('time_which', {label})}
              disabled={disabled}
              value={mark}
              onChange={(e) => onChange(`${text}#${e.currentTarget.value}`)}
            >
              <option value="">{w('time_twice')}</option>
              {moments.map((ms, i) => (
                <option key={ms} value={i + 1}>
                  {minuteUTC(ms)} UTC
                </option>
              ))}
            </select>
          )}
        </>
      )}
    </Field>
  )
}
