import type {OverviewItem} from '../api/types.ts'
import {clock, online, tick} from '../base/app.ts'
import {ago, count, stamp} from '../base/format.ts'
import {Badge, Link, Skeleton} from '../base/parts.tsx'
import {overview, overviewFailure} from './overview-data.ts'
import {Head} from './parts.tsx'
import {sentence, w} from './words.ts'

const STALE_MS = 30_000 // two readings that were missed

const tones = {bad: 'bad', unknown: 'quiet', warning: 'warning', good: 'good'} as const

const places: Record<OverviewItem['what'], string> = {
  processes: '/console/operator/health',
  dependencies: '/console/operator/health',
  clocks: '/console/operator/health',
  restore: '',
  redisless_sales: '/console/sales',
  dead_letters: '/console/operator/dead-letters',
  refunds: '/console/operator/refunds',
}

// OverviewPage shows one verdict and its reasons, the worst first. Without a fresh reading it claims nothing: the last
// one is grey, with its time.
export function OverviewPage() {
  const data = overview.value
  const failure = overviewFailure.value
  const old = !!failure || !online.value || (!!data && clock.synced && tick.value - Date.parse(data.as_of) > STALE_MS)
  return (
    <>
      <Head title={w('overview')} />
      {failure && (
        <p class="banner quiet" role="alert">
          <span aria-hidden="true">▲ </span>
          {sentence(failure)}
        </p>
      )}
      {!data ? (
        !failure && <Skeleton label={w('loading')} />
      ) : (
        <div class={old ? 'overview stale' : 'overview'}>
          <p class="verdict" role="status">
            <Badge tone={old ? 'quiet' : tones[data.verdict]}>{w(old ? 'verdict_unknown' : `verdict_${data.verdict}`)}</Badge>{' '}
            <span class="muted">{w('as_of', {t: stamp(data.as_of)})}</span>
          </p>
          <ul class="concerns card">
            {data.items.map((item) => (
              <Concern key={item.what} item={item} asOf={data.as_of} old={old} />
            ))}
          </ul>
        </div>
      )}
    </>
  )
}

function Concern({item, asOf, old}: {item: OverviewItem; asOf: string; old: boolean}) {
  const name = w(`concern_${item.what}`)
  return (
    <li>
      <Badge tone={old ? 'quiet' : tones[item.state]}>{w(`concern_${item.state}`)}</Badge>
      <span>
        {places[item.what] ? <Link href={places[item.what]}>{name}</Link> : name}
        {item.since && <span class="muted small"> · {w('since', {t: ago(item.since, asOf)})}</span>}
      </span>
      <b class="tabular">{item.state === 'unknown' ? w('none') : count(item.count)}</b>
    </li>
  )
}
