import {useEffect, useRef} from 'preact/hooks'
import {mayCompute} from '../base/compute.ts'
import {code, say} from '../base/problem.ts'
import {lang, words} from '../base/words.ts'
import type {Challenge} from '../api/types.ts'
import {provider as en} from '../words/provider.en.ts'
import {provider as zh} from '../words/provider.zh.ts'
import type {CheckModel} from './check-model.ts'
import {show} from './widget.ts'

const w = words({en, zh})

export function Check({model}: {model: CheckModel}) {
  const stage = model.stage.value
  const task = model.task.value
  const failure = model.failure.value
  useEffect(() => {
    document.documentElement.lang = lang.value === 'zh' ? 'zh-CN' : 'en'
    document.title = w('title')
  }, [])
  return (
    <main id="main" class="check">
      <h1>{w('title')}</h1>
      <p role="status">
        {stage === 'provider' && model.wrong.value && `${code('captcha_wrong')} `}
        {failure ? say(failure) : w(stage)}
      </p>
      {stage === 'provider' && task?.widget && <Widget key={task.captcha_id} model={model} task={task} />}
      {stage === 'failed' && (
        <button type="button" class="primary" onClick={() => void model.request()}>
          {w('again')}
        </button>
      )}
      {(stage === 'provider' || stage === 'failed') && mayCompute() && (
        <button type="button" class="quiet" onClick={() => void model.request('pow')}>
          {w('compute')}
        </button>
      )}
      <a href={model.back}>{w('back')}</a>
    </main>
  )
}

function Widget({model, task}: {model: CheckModel; task: Challenge}) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (!task.widget || !place.current) return
    void show(task.widget, task.captcha_id, place.current, (token) => void model.answer(task, {token}), () => model.task.value === task && model.failed())
  }, [task])
  return <div class="check-widget" ref={place} />
}
