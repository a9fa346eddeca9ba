// A chart since the start of the sale, at most of the last 15 minutes, one value a second. uPlot is loaded when the first chart is shown.

import {useEffect, useRef, useState} from 'preact/hooks'
import type uPlot from 'uplot'
import type {Board} from '../api/types.ts'
import {visible} from '../base/app.ts'
import {hour} from '../base/format.ts'
import {lang} from '../base/words.ts'
import {lastSecond, reasons, series, stack, windowOf} from './board-data.ts'
import {reasonName, w} from './words.ts'

const HEIGHT = 160
// One colour for each reason, most frequent first; the rest share the last. Each has a contrast of 3 on both themes.
const HUES = ['#d1491f', '#3d7fc4', '#b08900', '#8a5cc7', '#7b8290']
const hue = (i: number) => HUES[Math.min(i, HUES.length - 1)] as string

export function Chart({board, kind, label}: {board: Board; kind: 'accepted' | 'refused'; label: string}) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const [width, setWidth] = useState(0)
  const [loaded, setLoaded] = useState<typeof uPlot>()
  const [dark, setDark] = useState(matchMedia('(prefers-color-scheme: dark)').matches)
  const codes = kind === 'refused' ? reasons(board.points) : ['accepted']
  const shape = codes.join()

  useEffect(() => {
    let live = true
    void Promise.all([import('uplot'), import('uplot/dist/uPlot.min.css')]).then(
      ([m]) => live && setLoaded(() => m.default),
    )
    const watch = new ResizeObserver(([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)))
    if (box.current) watch.observe(box.current)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const change = () => setDark(scheme.matches)
    scheme.addEventListener('change', change)
    return () => {
      live = false
      watch.disconnect()
      scheme.removeEventListener('change', change)
    }
  }, [])

  useEffect(() => {
    if (!loaded || !width || !box.current || codes.length === 0) return
    const style = getComputedStyle(document.documentElement)
    const color = (name: string) => style.getPropertyValue(name).trim()
    const axis: uPlot.Axis = {
      stroke: color('--muted'),
      font: '12px system-ui',
      grid: {stroke: color('--line'), width: 1},
      ticks: {show: false},
    }
    plot.current = new loaded(
      {
        width,
        height: HEIGHT,
        padding: [8, 20, 0, 0],
        legend: {show: false},
        cursor: {show: false},
        scales: {x: {time: true}, y: {range: (_, __, max) => [0, Math.max(5, max * 1.1)]}},
        axes: [
          {
            ...axis,
            size: 28,
            values: (_, splits) => splits.map((s) => hour(s * 1000)),
          },
          {...axis, size: 48},
        ],
        // The last series is the largest sum; the smaller ones are painted over it.
        series: [
          {},
          ...codes
            .map((_, i) => kind === 'accepted' ? color('--good') : hue(i))
            .map((fill) => ({stroke: fill, width: 1, fill, points: {show: false}}))
            .reverse(),
        ],
      },
      data(board, codes, kind),
      box.current,
    )
    return () => {
      plot.current?.destroy()
      plot.current = null
    }
  }, [loaded, width, shape, dark, lang.value])

  useEffect(() => {
    if (visible.value) plot.current?.setData(data(board, codes, kind))
  }, [board])

  return (
    <>
      <div class="chart" ref={box} role="img" aria-label={label}>
        {board.points.length === 0 && <p class="muted">{w('chart_none')}</p>}
      </div>
      {kind === 'refused' && codes.length > 0 && (
        <p class="legend" aria-hidden="true">
          {codes.map((code, i) => (
            <span key={code}>
              <i class="swatch" style={{background: hue(i)}} /> {reasonName(code)}
            </span>
          ))}
        </p>
      )}
    </>
  )
}

function data(board: Board, codes: string[], kind: 'accepted' | 'refused'): uPlot.AlignedData {
  const end = lastSecond(board)
  const n = windowOf(board, end)
  const x = Array.from({length: n}, (_, i) => end - n + 1 + i)
  const lists = codes.map((code) =>
    series(board.points, end, n, (p) => (kind === 'accepted' ? p.accepted : (p.refused[code] ?? 0))),
  )
  return [x, ...stack(lists).reverse()]
}
