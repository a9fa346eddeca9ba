import {useState} from 'preact/hooks'
import {all} from '../api/client.ts'
import {getLimit, listLimits, putLimit, revertLimit, tryLimit} from '../api/merchant.ts'
import type {LimitRule, LimitState} from '../api/types.ts'
import {Dialog} from '../base/dialog.tsx'
import {count, stamp} from '../base/format.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {Confirm, Head, Table, useForm, useRead} from './parts.tsx'
import {diff, parseRule} from './rule-diff.ts'
import {refusedState, sentence, w} from './words.ts'

export function LimitsPage() {
  const list = useRead(() => all(listLimits), [])
  const name = here.value.searchParams.get('limit') ?? ''
  const chosen = list.data?.items.find((l) => l.name === name)
  const close = () => {
    setQuery({limit: ''})
    list.reload()
  }
  return (
    <>
      <Head title={w('limits')} />
      <Table
        label={w('limits')}
        rows={list.data?.items}
        rowKey={(l) => l.name}
        empty={w('limits_none')}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {title: w('limit_name'), cell: (l) => <b>{l.name}</b>},
          {title: w('rule'), cell: (l) => (l.rule ? summary(l.rule) : w('none'))},
          {title: w('source'), cell: (l) => w(`source_${l.source}`)},
          {title: w('allowed'), number: true, cell: (l) => count(l.allowed)},
          {title: w('refused'), number: true, cell: (l) => count(l.refused)},
          {title: w('waited'), number: true, cell: (l) => count(l.waited)},
          {title: w('shadowed'), number: true, cell: (l) => count(l.shadowed)},
          {
            title: w('actions'),
            cell: (l) => (
              <div class="row">
                <button onClick={() => setQuery({limit: l.name})} aria-label={`${w('edit')} ${l.name}`}>
                  {w('edit')}
                </button>
                {l.source === 'redis' && (
                  <Confirm
                    label={w('revert')}
                    title={w('revert_ask', {name: l.name})}
                    run={() => revertLimit(l.name)}
                    done={list.reload}
                  >
                    <p>{w('revert_text')}</p>
                  </Confirm>
                )}
              </div>
            ),
          },
        ]}
      />
      {chosen && list.data && (
        <Editor key={chosen.name} limit={chosen} version={list.data.version} close={close} reload={list.reload} />
      )}
    </>
  )
}

function summary(rule: LimitRule): string {
  const parts = [`${rule.limit} / ${rule.per ?? '1s'}`, rule.algorithm, rule.key && `${rule.key}`]
  if (rule.burst) parts.push(`burst ${rule.burst}`)
  if (rule.shadow) parts.push('shadow')
  return parts.filter(Boolean).join(' · ')
}

function Editor({
  limit,
  version,
  close,
  reload,
}: {
  limit: LimitState
  version: number
  close: () => void
  reload: () => Promise<boolean>
}) {
  useForm()
  const old = (limit.rule ?? {limit: 0}) as Record<string, unknown>
  const [text, setText] = useState(JSON.stringify(old, null, 2))
  const [message, setMessage] = useState('')
  const [busy, setBusy] = useState(false)
  const detail = useRead(() => getLimit(limit.name), [limit.name])
  const rule = parseRule(text)
  const changes = rule ? diff(old, rule) : []
  const save = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    if (!rule) return setMessage(w('rule_wrong'))
    if (!changes.length) return setMessage(w('diff_none'))
    setBusy(true)
    const r = await putLimit(limit.name, rule as unknown as LimitRule, version)
    if (r.ok) return close()
    // The typed rule stays; its differences are then those to the rule that the other editor saved.
    const reread = r.status !== 412 || (await reload())
    setBusy(false)
    if (!reread) return setMessage(w('state_changed'))
    const fields = r.problem.errors?.map((e) => `${e.field}: ${e.message}`).join('; ')
    setMessage(fields ? `${sentence(r)} ${fields}` : sentence(r))
  }
  return (
    <Dialog title={w('edit_limit', {name: limit.name})} onClose={close}>
      <div class="stack">
        {/* The button to save belongs to this form by its attribute: the form to try a key is between them. */}
        <form id="rule-form" onSubmit={save}>
          <Field label={w('rule_json')} name="rule" error={rule ? '' : w('rule_wrong')}>
            {(ids) => (
              <textarea
                {...ids}
                rows={9}
                spellcheck={false}
                class="mono"
                value={text}
                onInput={(e) => setText(e.currentTarget.value)}
              />
            )}
          </Field>
        </form>
        <h3>{w('diff')}</h3>
        {changes.length ? (
          <table class="diff">
            <tbody>
              {changes.map((c) => (
                <tr key={c.field}>
                  <th scope="row">{c.field}</th>
                  <td>
                    <del>{c.from || w('none')}</del>
                  </td>
                  <td>
                    <ins>{c.to || w('none')}</ins>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        ) : (
          <p class="muted">{w('diff_none')}</p>
        )}
        <Wrong text={message} />
        <Try name={limit.name} />
        <h3>{w('limited_now')}</h3>
        {detail.data?.limited.length ? (
          <ul>
            {detail.data.limited.slice(0, 10).map((l) => (
              <li key={l.key}>
                <code>{l.key || w('all')}</code> {count(l.refused)} · {w('until', {t: stamp(l.until)})}
              </li>
            ))}
          </ul>
        ) : (
          <p class="muted">{w('limited_none')}</p>
        )}
        <p class="hint">{w('limit_saved')}</p>
        <div class="dialog-actions">
          <button type="button" onClick={close}>
            {w('cancel')}
          </button>
          <button class="primary" type="submit" form="rule-form" aria-disabled={busy || !changes.length}>
            {w('save_limits')}
          </button>
        </div>
      </div>
    </Dialog>
  )
}

function Try({name}: {name: string}) {
  const [key, setKey] = useState('')
  const [answer, setAnswer] = useState('')
  const run = async (event: Event) => {
    event.preventDefault()
    const r = await tryLimit(name, key)
    if (!r.ok) setAnswer(r.code === 'state_conflict' ? refusedState(r) : sentence(r))
    else
      setAnswer(
        r.data.allowed ? w('try_allowed', {n: r.data.remaining}) : w('try_refused', {n: r.data.retry_after_s ?? 0}),
      )
  }
  return (
    <form class="try" onSubmit={run}>
      <Field label={w('try_key')} name="try-key">
        {(ids) => <input {...ids} maxLength={512} value={key} onInput={(e) => setKey(e.currentTarget.value)} />}
      </Field>
      <button type="submit">{w('try')}</button>
      <p role="status">{answer}</p>
    </form>
  )
}
