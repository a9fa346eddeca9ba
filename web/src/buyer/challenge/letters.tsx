// An image with letters: the buyer marks those of the prompt in their order, by pointer, touch or keys.

import {useEffect, useRef, useState} from 'preact/hooks'
import type {Challenge, ChallengePoint} from '../../api/types.ts'
import type {Say} from './challenge.tsx'

interface Props {
  click: NonNullable<Challenge['click']>
  w: Say
  onSubmit: (points: ChallengePoint[]) => void
}

// STEP is how far an arrow key moves the cursor, in pixels of the image; with Shift it moves one pixel.
const STEP = 10
// REACH is the distance at which Enter removes a mark instead of placing one.
const REACH = 12

export function Letters({click, w, onSubmit}: Props) {
  const {width, height, count} = click
  const [marks, setMarks] = useState<ChallengePoint[]>([])
  const [cursor, setCursor] = useState<ChallengePoint | undefined>(undefined)
  const picture = useRef<HTMLDivElement>(null)
  const full = marks.length === count
  useEffect(() => {
    // On phones the action bar covers the lower edge of the page.
    picture.current?.focus({preventScroll: true})
    picture.current?.closest('form')?.scrollIntoView({block: 'center'})
  }, [])
  const style = ({x, y}: ChallengePoint) => ({left: `${(x / width) * 100}%`, top: `${(y / height) * 100}%`})
  const within = (n: number, most: number) => Math.round(Math.min(most, Math.max(0, n)))
  const add = (p: ChallengePoint) => !full && setMarks([...marks, p])
  const without = (i: number) => setMarks(marks.filter((_, j) => j !== i))
  const remove = (i: number) => {
    without(i)
    picture.current?.focus({preventScroll: true})
  }
  const onKeyDown = (e: KeyboardEvent) => {
    // With these a key is the browser's, such as Alt and an arrow to go back.
    if (e.target !== e.currentTarget || e.altKey || e.ctrlKey || e.metaKey) return
    const at = cursor ?? {x: width / 2, y: height / 2}
    const by = e.shiftKey ? 1 : STEP
    const [dx = 0, dy = 0] = {ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by]}[e.key] ?? []
    if (dx || dy) setCursor({x: within(at.x + dx, width), y: within(at.y + dy, height)})
    else if (e.key === 'Backspace') setMarks(marks.slice(0, -1))
    else if (e.key !== 'Enter') return
    // A key that is still held must not mark the next image, which gets the focus after a wrong answer.
    else if (!e.repeat) {
      const near = marks.findIndex((m) => Math.hypot(m.x - at.x, m.y - at.y) < REACH)
      if (near >= 0) without(near)
      else add(at)
      setCursor(at)
    }
    e.preventDefault()
  }
  return (
    <form
      class="letters"
      onSubmit={(e) => {
        e.preventDefault()
        if (full) onSubmit(marks)
      }}
    >
      <img src={click.prompt} width={click.prompt_width} height={click.prompt_height} alt={w('prompt')} />
      <div
        ref={picture}
        class="letters-picture"
        role="application"
        tabIndex={0}
        aria-label={cursor ? w('cursor', cursor) : w('picture')}
        aria-describedby="letters-hint"
        style={{aspectRatio: `${width} / ${height}`}}
        onKeyDown={onKeyDown}
        onClick={(e) => {
          if (e.target instanceof HTMLButtonElement) return
          const box = e.currentTarget.getBoundingClientRect()
          add({x: within(((e.clientX - box.left) * width) / box.width, width), y: within(((e.clientY - box.top) * height) / box.height, height)})
        }}
      >
        <img src={click.image} alt="" draggable={false} />
        {cursor && <span class="letters-cursor" aria-hidden="true" style={style(cursor)} />}
        {marks.map((m, i) => (
          <button key={i} type="button" style={style(m)} aria-label={w('mark', {n: i + 1})} onClick={() => remove(i)}>
            {i + 1}
          </button>
        ))}
      </div>
      <p id="letters-hint" class="muted small">
        {w('click_hint')}
      </p>
      <p class="small" aria-live="polite">
        {w('placed', {n: marks.length, max: count})}
      </p>
      <button class="primary" aria-disabled={!full}>
        {w('submit')}
      </button>
    </form>
  )
}
