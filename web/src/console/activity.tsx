// One sale: its head with the actions, and the tabs board, orders, suspects and history.

import {useEffect, useState} from 'preact/hooks'
import {act, getActivity, getBoard, type Act} from '../api/merchant.ts'
import type {Activity, Board} from '../api/types.ts'
import {hasRole} from '../base/app.ts'
import {count, stamp} from '../base/format.ts'
import {Link} from '../base/parts.tsx'
import {go} from '../base/route.ts'
import {SuspectsView} from './suspects.tsx'
import {AdjustButton} from './adjust.tsx'
import {BoardView} from './board.tsx'
import {DeleteButton, DuplicateButton} from './drafts.tsx'
import {HistoryView} from './history.tsx'
import {HoldingsView} from './holdings.tsx'
import {Items, PublishButton} from './publishing.tsx'
import {NoticeButton, NoticeLine} from './notice.tsx'
import {Confirm, Failed, Head, StateBadge, useRead} from './parts.tsx'
import {MerchantLink} from './who.tsx'
import {w} from './words.ts'

export function ActivityPage({id, tab}: {id: string; tab: string}) {
  const read = useRead(() => getActivity(id), [id])
  const [board, setBoard] = useState<Board>()
  // The state that was read last, with the sale or with its board.
  const [state, setState] = useState('')
  useEffect(() => setState(read.data?.state ?? ''), [read.data])
  const activity = read.data
  if (!activity) {
    return (
      <>
        <Head title={w('sales')} />
        <Failed failure={read.failure} retry={read.reload} />
      </>
    )
  }
  const base = `/console/sales/${encodeURIComponent(id)}`
  const draft = activity.state === 'draft'
  const tabs = [
    ['board', base, w('board')],
    ['orders', `${base}/orders`, w('orders')],
    ['abuse', `${base}/abuse`, w('abuse')],
    ['history', `${base}/history`, w('history')],
  ] as const
  return (
    <>
      <Head title={activity.title}>
        <Actions
          activity={activity}
          state={state || activity.state}
          board={tab === 'board' ? board : undefined}
          onChange={read.reload}
        />
      </Head>
      <p class="row facts">
        <StateBadge state={state || activity.state} />
        <span>
          {stamp(activity.starts_at)} – {stamp(activity.ended_at ?? activity.ends_at)}
        </span>
        {hasRole('operator') && (
          <span>
            {w('merchant')} <MerchantLink id={activity.merchant_id} />
          </span>
        )}
        {!draft && (
          <a href={`/sales/${encodeURIComponent(id)}`} target="_blank" rel="noreferrer">
            {w('preview')}
          </a>
        )}
      </p>
      <NoticeLine activity={activity} />
      <Failed failure={read.failure} retry={read.reload} />
      {draft ? (
        <Draft activity={activity} />
      ) : (
        <>
          <nav class="tabs" aria-label={activity.title}>
            {tabs.map(([name, href, label]) => (
              <Link key={name} href={href} aria-current={name === tab ? 'page' : undefined}>
                {label}
              </Link>
            ))}
          </nav>
          {tab === 'orders' ? (
            <HoldingsView activity={activity} />
          ) : tab === 'abuse' ? (
            <SuspectsView activity={activity} />
          ) : tab === 'history' ? (
            <HistoryView activity={activity} />
          ) : (
            <BoardView id={id} activity={activity} board={board} onBoard={(b) => (setBoard(b), setState(b.state))} />
          )}
        </>
      )}
    </>
  )
}

function Actions({
  activity,
  state,
  board,
  onChange,
}: {
  activity: Activity
  state: string
  board?: Board
  onChange: () => void
}) {
  const {activity_id: id, title} = activity
  const run = (what: Act) => () => act(id, what)
  const edit = (
    <Link class="button" href={`/console/sales/${encodeURIComponent(id)}/edit`}>
      {w('edit')}
    </Link>
  )
  if (state === 'draft') {
    return (
      <>
        {edit}
        <DuplicateButton activity={activity} />
        <NoticeButton activity={activity} done={onChange} />
        <PublishButton activity={activity} done={onChange} />
        <DeleteButton activity={activity} gone={() => go('/console/sales')} changed={onChange} />
      </>
    )
  }
  if (state === 'ended') return <DuplicateButton activity={activity} />
  return (
    <>
      {edit}
      <DuplicateButton activity={activity} />
      <NoticeButton activity={activity} done={onChange} />
      <AdjustButton activity={activity} done={onChange} />
      {state === 'paused' ? (
        <Confirm label={w('resume')} title={w('resume_ask', {title})} run={run('resume')} done={onChange}>
          <Consequence id={id} board={board} say={(b) => w('resume_text', {n: b ? count(b.units.left) : w('none')})} />
        </Confirm>
      ) : (
        <Confirm label={w('pause')} title={w('pause_ask', {title})} run={run('pause')} done={onChange}>
          <Consequence
            id={id}
            board={board}
            say={(b) => w('pause_text', {n: b ? count(b.orders.pending) : w('none')})}
          />
        </Confirm>
      )}
      <Confirm label={w('end')} title={w('end_ask', {title})} danger run={run('end')} done={onChange}>
        <Consequence id={id} board={board} say={(b) => w('end_text', {n: b ? count(b.orders.pending) : w('none')})} />
      </Confirm>
    </>
  )
}

// Consequence says what an action means for how many, by the live board, or by one that is read when the dialog opens.
function Consequence({id, board, say}: {id: string; board?: Board; say: (b?: Board) => string}) {
  const read = useRead<Board | undefined>(
    () => (board ? Promise.resolve({ok: true, data: undefined, etag: ''}) : getBoard(id)),
    [id],
  )
  return <p>{say(board ?? read.data)}</p>
}

function Draft({activity}: {activity: Activity}) {
  return (
    <section class="card pad">
      <p class="note">{w('draft_text')}</p>
      <Items activity={activity} />
      <p class="muted">{w('total_units', {n: activity.items.reduce((sum, i) => sum + i.stock, 0)})}</p>
    </section>
  )
}
