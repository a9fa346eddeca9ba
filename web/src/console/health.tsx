import {useEffect} from 'preact/hooks'
import {getHealth} from '../api/merchant.ts'
import {around, loop} from '../base/loop.ts'
import {stamp} from '../base/format.ts'
import {Badge} from '../base/parts.tsx'
import {Head, Table, useRead} from './parts.tsx'
import {w} from './words.ts'

export function HealthPage() {
  const read = useRead(() => getHealth(), [])
  useEffect(() => {
    let first = true
    return loop(async () => {
      if (!first) read.reload()
      first = false
      return around(5000)
    }).stop
  }, [])
  const rows =
    read.data &&
    [...read.data.items].sort((a, b) => `${a.component} ${a.instance}`.localeCompare(`${b.component} ${b.instance}`))
  return (
    <>
      <Head title={w('health')} />
      {read.data?.source === 'self' && (
        <p class="note">
          <span aria-hidden="true">▲ </span>
          {w('health_self')}
        </p>
      )}
      <Table
        label={w('health')}
        rows={rows}
        rowKey={(c) => `${c.component} ${c.instance}`}
        empty={w('health_none')}
        failure={read.failure}
        reload={read.reload}
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
                <Badge tone={c.ready ? 'good' : 'bad'}>{c.ready ? w('ready') : w('not_ready')}</Badge>
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
                    {b.name}: {b.state === 'closed' ? b.state : `▲ ${b.state}`}
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
