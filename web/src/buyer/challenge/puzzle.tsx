// A puzzle: the buyer moves a part to its place in a picture, by pointer, touch or keys.

import {useEffect, useRef, useState} from 'preact/hooks'
import type {Challenge} from '../../api/types.ts'
import type {Say} from './challenge.tsx'

interface Props {
  slide: NonNullable<Challenge['slide']>
  w: Say
  onSubmit: (x: number) => void
}

export function Puzzle({slide, w, onSubmit}: Props) {
  const {width, height, piece_width, piece_height, piece_x, piece_y} = slide
  const max = width - piece_width
  const [x, setX] = useState(piece_x)
  const from = useRef<{at: number; x: number} | undefined>(undefined)
  const range = useRef<HTMLInputElement>(null)
  useEffect(() => {
    // On phones the action bar covers the lower edge of the page.
    range.current?.focus({preventScroll: true})
    range.current?.form?.scrollIntoView({block: 'center'})
  }, [])
  const share = (n: number, whole: number) => `${(n / whole) * 100}%`
  const move = (to: number) => setX(Math.round(Math.min(max, Math.max(0, to))))
  const drag = (e: PointerEvent & {currentTarget: HTMLElement}) => {
    if (!from.current) return
    const picture = e.currentTarget.parentElement as HTMLElement
    move(from.current.x + ((e.clientX - from.current.at) * width) / picture.clientWidth)
  }
  return (
    <form
      class="puzzle"
      onSubmit={(e) => {
        e.preventDefault()
        onSubmit(x)
      }}
    >
      <div class="puzzle-picture" style={{aspectRatio: `${width} / ${height}`}}>
        <img src={slide.image} alt={w('picture')} draggable={false} />
        <img
          class="puzzle-part"
          src={slide.piece}
          alt=""
          draggable={false}
          style={{left: share(x, width), top: share(piece_y, height), width: share(piece_width, width), height: share(piece_height, height)}}
          onPointerDown={(e) => {
            e.currentTarget.setPointerCapture(e.pointerId)
            from.current = {at: e.clientX, x}
          }}
          onPointerMove={drag}
          onPointerUp={() => (from.current = undefined)}
          onPointerCancel={() => (from.current = undefined)}
        />
      </div>
      <input
        ref={range}
        type="range"
        min="0"
        max={max}
        step="1"
        value={x}
        aria-label={w('slider')}
        aria-valuetext={w('position', {n: x, max})}
        aria-describedby="puzzle-hint"
        onInput={(e) => move(Number(e.currentTarget.value))}
        onKeyDown={(e) => {
          if (e.key !== 'Enter') return
          e.preventDefault()
          // After a wrong answer the next puzzle gets the focus. A key that is still held must not answer that one too.
          if (!e.repeat) onSubmit(x)
        }}
      />
      <p id="puzzle-hint" class="muted small">
        {w('slide_hint')}
      </p>
      <button class="primary">{w('submit')}</button>
    </form>
  )
}
