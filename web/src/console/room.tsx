// The waiting room of a sale on its board: rate, times, and the published draw.

import {useEffect, useState} from 'preact/hooks'
import {getDraw} from '../api/room.ts'
import type {Activity, Board, Draw} from '../api/types.ts'
import {loop} from '../base/loop.ts'
import {count, stamp} from '../base/format.ts'
import {timeText} from './parts.tsx'
import {w} from './words.ts'

const OPENS_MS = 600_000 // before the start
const EARLY_MS = 60_000
const REFRESH_MS = 5000

export function RoomCard({activity, board: {room}}: {activity: Activity; board: Board}) {
  const rate = activity.waiting_room?.admit_per_second ?? 0
  const [draw, setDraw] = useState<Draw>()
  useEffect(() => {
    if (!rate) return
    const reading = loop(async () => {
      const r = await getDraw(activity.activity_id)
      if (r.ok) setDraw(r.data)
      // The room is not open yet.
      else if (r.code !== 'activity_not_started') return r
      // A draw whose key is published does not change.
      return r.ok && r.data.key ? REFRESH_MS * 60 : REFRESH_MS
    })
    return reading.stop
  }, [activity.activity_id, rate])
  if (!rate) return null
  const before = (ms: number) => stamp(new Date(Date.parse(activity.starts_at) - ms).toISOString())
  const state = !draw ? 'room_not_open' : draw.key ? 'room_drawn' : draw.root ? 'room_closed' : 'room_joining'
  return (
    <section class="card pad">
      <h2>{w('room')}</h2>
      <table>
        <tbody>
          {room && (
            <>
              <Row name={w('room_waiting')} value={count(room.waiting)} />
              <Row name={w('room_admitted')} value={count(room.admitted)} />
              <Row name={w('room_lapsed')} value={count(room.lapsed)} />
              <Row name={w('room_estimate')} value={timeText(room.estimate_s * 1000)} />
            </>
          )}
          <Row name={w('room_rate')} value={count(rate)} />
          <Row name={w('room_opens')} value={before(OPENS_MS)} />
          <Row name={w('room_closes')} value={before(EARLY_MS)} />
          <Row name={w('room_state')} value={w(state)} />
          {draw?.early_tickets !== undefined && <Row name={w('room_early')} value={count(draw.early_tickets)} />}
        </tbody>
      </table>
      {draw && (
        <p>
          <a href={`/v1/activities/${encodeURIComponent(activity.activity_id)}/room/draw`} target="_blank" rel="noreferrer">
            {w('room_draw')}
          </a>
        </p>
      )}
    </section>
  )
}

const Row = ({name, value}: {name: string; value: string}) => (
  <tr>
    <th scope="row">{name}</th>
    <td class="number">{value}</td>
  </tr>
)
