import {useState} from 'preact/hooks'
import {getLimit, listLimitChanges, patchLimit, tryLimit} from '../api/merchant.ts'
import type {LimitState} from '../api/types.ts'
import {Dialog} from '../base/dialog.tsx'
import {count, stamp} from '../base/format.ts'
import {Field, Wrong} from '../base/parts.tsx'
import {Failed, useForm, useRead} from './parts.tsx'
import {type Difference, diff, type Edits, edited, effect, patchOf, type Rule, type RuleField, rare, show, usual} from './rule.ts'
import {refusedState, sentence, w} from './words.ts'

interface EditorProps {
  limit: LimitState
  version: number
  close: () => void
  reload: () => Promise<boolean>
}

// LimitForm changes fields of the rule in force. After a change by another operator, the edited fields keep their texts,
// and the others have the values of the new rule.
export function LimitForm({limit, version, close, reload}: EditorProps) {
  const old = (limit.rule ?? {}) as Rule
  const [edits, setEdits] = useState<Edits>({})
  const [typedName, setTypedName] = useState('')
  const [message, setMessage] = useState('')
  const [busy, setBusy] = useState(false)
  const {rule, wrong} = edited(old, edits)
  const changes = diff(old, rule)
  useForm(changes.length > 0)
  const refusesAll = rule.limit === 0 && old.limit !== 0
  const save = async (event: Event) => {
    event.preventDefault()
    if (busy) return
    if (wrong.length) {
      document.getElementById(`rule-${wrong[0]}`)?.focus()
      return setMessage(w('rule_wrong'))
    }
    if (!changes.length) return setMessage(w('diff_none'))
    if (refusesAll && typedName !== limit.name) {
      document.getElementById('refuse-all')?.focus()
      return setMessage(w('refuse_all_wrong'))
    }
    setBusy(true)
    const r = await patchLimit(limit.name, patchOf(old, rule), version)
    if (r.ok) return close()
    const reread = r.status !== 412 || (await reload())
    setBusy(false)
    if (!reread) return setMessage(w('state_changed'))
    const fields = r.problem.errors?.map((e) => `${e.field}: ${e.message}`).join('; ')
    setMessage(fields ? `${sentence(r)} ${fields}` : sentence(r))
  }
  const input = (f: RuleField) => (
    <RuleInput
      key={f.name}
      field={f}
      value={edits[f.name] ?? show(old[f.name])}
      wrong={wrong.includes(f.name) && edits[f.name] !== undefined}
      set={(text) => setEdits({...edits, [f.name]: text})}
    />
  )
  return (
    <Dialog title={w('edit_limit', {name: limit.name})} onClose={close}>
      <div class="stack">
        {/* The button to save belongs to this form by its attribute: the form to try a key is between them. */}
        <form id="rule-form" onSubmit={save}>
          <div class="two">{usual.map(input)}</div>
          <details>
            <summary>{w('more_fields')}</summary>
            <div class="two">{rare.map(input)}</div>
          </details>
          {refusesAll && (
            <Field label={w('refuse_all', {name: limit.name})} name="refuse-all">
              {(ids) => (
                <input {...ids} autocomplete="off" value={typedName} onInput={(e) => setTypedName(e.currentTarget.value)} />
              )}
            </Field>
          )}
        </form>
        <p class="effect" role="status">
          {wrong.length ? w('rule_wrong') : effect(rule)}
        </p>
        <h3>{w('diff')}</h3>
        <Differences list={changes} empty={w('diff_none')} />
        <Wrong text={message} />
        <Try name={limit.name} />
        <Refused name={limit.name} />
        <Changes name={limit.name} />
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

function RuleInput({
  field,
  value,
  wrong,
  set,
}: {
  field: RuleField
  value: string
  wrong: boolean
  set: (text: string) => void
}) {
  const {name, kind, standard} = field
  const id = `rule-${name}`
  const choices = kind === 'flag' ? ['true'] : kind
  return (
    <Field label={w(`rule_${name}` as 'rule_limit')} name={id} error={wrong ? w(`rule_wrong_${kind}` as 'rule_wrong_count') : ''}>
      {(ids) =>
        typeof choices === 'string' ? (
          <input
            {...ids}
            inputMode={kind === 'count' ? 'numeric' : undefined}
            autocomplete="off"
            placeholder={standard}
            value={value}
            onInput={(e) => set(e.currentTarget.value)}
          />
        ) : (
          <select {...ids} value={value === standard ? '' : value} onChange={(e) => set(e.currentTarget.value)}>
            <option value="">{standard}</option>
            {choices.map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </select>
        )
      }
    </Field>
  )
}

function Differences({list, empty}: {list: Difference[]; empty: string}) {
  if (!list.length) return <p class="muted">{empty}</p>
  return (
    <table class="diff">
      <tbody>
        {list.map((c) => (
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
  )
}

function Refused({name}: {name: string}) {
  const detail = useRead(() => getLimit(name), [name])
  return (
    <>
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
    </>
  )
}

// Changes shows the latest changes of a limit, with what each changed.
function Changes({name}: {name: string}) {
  const list = useRead(() => listLimitChanges(name), [name])
  return (
    <details>
      <summary>{w('changes')}</summary>
      <Failed failure={list.failure} retry={() => void list.reload()} />
      {list.data?.items.map((c) => {
        // Of a change by 0.1.0 only the new rule was recorded.
        const {rule, before, after = rule} = (c.details ?? {}) as {rule?: Rule; before?: Rule | null; after?: Rule | null}
        return (
          <section key={c.change_id}>
            <p>
              {stamp(c.at)} · <b>{c.actor}</b> · <code>{c.what}</code>
              {before === undefined && ` · ${w('rule_before_unknown')}`}
            </p>
            <Differences list={diff(before, after)} empty={w('diff_none')} />
          </section>
        )
      })}
      {list.data?.items.length === 0 && <p class="muted">{w('changes_none')}</p>}
    </details>
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
