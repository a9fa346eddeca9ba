import {useEffect, useRef, useState} from 'preact/hooks'
import type {Failure} from '../api/client.ts'
import {getHealth} from '../api/merchant.ts'
import type {Health} from '../api/types.ts'
import {clock, lost, online, tick} from '../base/app.ts'
import {around, loop, type Loop} from '../base/loop.ts'
import {stamp} from '../base/format.ts'
import {Badge} from '../base/parts.tsx'
import {Head, Table} from './parts.tsx'
import {w} from './words.ts'

const STALE_MS = 12_000 // two states that were missed

export function HealthPage() {
  const [data, setData] = useState<Health>()
  const [failure, setFailure] = useState<Failure>()
  const reading = useRef<Loop>(null)
  // One read at a time: a response that takes longer than the interval is shown too.
  useEffect(() => {
    reading.current = loop(async () => {
      const r = await getHealth()
      if (r.ok) setData(r.data)
      else if (r.code === 'unauthenticated') lost()
      setFailure(r.ok ? undefined : r)
      return r.ok ? around(5000) : 0
    })
    return reading.current.stop
  }, [])
  // A state is announced every 5 s. What is older, or was read before the failure, is not what holds now.
  const newest = Math.max(...(data?.items ?? []).map((c) => Date.parse(c.at)))
  const allOld = !!failure || !online.value || (clock.synced && tick.value - newest > STALE_MS)
  const isOld = (c: Health['items'][number]) => allOld || newest - Date.parse(c.at) > STALE_MS
  const rows =
    data &&
    [...data.items].sort((a, b) => `${a.component} ${a.instance}`.localeCompare(`${b.component} ${b.instance}`))
  return (
    <>
      <Head title={w('health')} />
      {data?.source === 'self' && (
        <p class="note">
          <span aria-hidden="true">▲ </span>
          {w('health_self')}
        </p>
      )}
      <Table
        label={w('health')}
        rows={rows}
        rowKey={(c) => `${c.component} ${c.instance}`}
        rowClass={(c) => (isOld(c) ? 'stale' : '')}
        empty={w('health_none')}
        failure={failure}
        reload={() => reading.current?.again()}
        columns={[
          {
            title: w('component'),
            cell: (c) => (
              <>
                <b>{c.component}</b>
                <br />
                <span class="muted small">
                  {c.instance} · {c.version}
                </span>
              </>
            ),
          },
          {
            title: w('state'),
            cell: (c) => (
              <>
                {isOld(c) ? (
                  <Badge tone="quiet">{w('concern_unknown')}</Badge>
                ) : (
                  <Badge tone={c.ready ? 'good' : 'bad'}>{c.ready ? w('ready') : w('not_ready')}</Badge>
                )}
                {!!c.reasons?.length && <p class="small">{c.reasons.join('; ')}</p>}
              </>
            ),
          },
          {
            title: w('breakers'),
            cell: (c) => (
              <ul>
                {c.breakers?.map((b) => (
                  <li key={b.name} class={b.state === 'closed' ? '' : 'warning'}>
                    {b.name}:{' '}
                    {b.state === 'closed'
                      ? w('breaker_closed')
                      : `▲ ${w(b.state === 'open' ? 'breaker_open' : 'breaker_half_open')}`}
                  </li>
                ))}
              </ul>
            ),
          },
          {
            title: w('pools'),
            cell: (c) => (
              <ul class="tabular">
                {c.pools?.map((p) => (
                  <li key={p.name}>
                    {p.name}: {p.in_use} / {p.max}
                  </li>
                ))}
              </ul>
            ),
          },
          {
            title: w('clock'),
            cell: (c) => (
              <ul class="tabular">
                {Object.entries(c.clock_offset_ms ?? {}).map(([name, ms]) => (
                  <li key={name}>
                    {name}: {Math.round(ms)} ms
                  </li>
                ))}
              </ul>
            ),
          },
          {title: w('seen'), cell: (c) => <time dateTime={c.at}>{stamp(c.at)}</time>},
        ]}
      />
    </>
  )
}
