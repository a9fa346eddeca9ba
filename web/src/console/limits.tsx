import {all} from '../api/client.ts'
import {listLimits, revertLimit} from '../api/merchant.ts'
import {count} from '../base/format.ts'
import {here, setQuery} from '../base/route.ts'
import {LimitForm} from './limit-form.tsx'
import {Confirm, Head, Table, useRead} from './parts.tsx'
import {effect, type Rule} from './rule.ts'
import {w} from './words.ts'

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
          {title: w('rule'), cell: (l) => (l.rule ? effect(l.rule as Rule) : w('none'))},
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
        <LimitForm key={chosen.name} limit={chosen} version={list.data.version} close={close} reload={list.reload} />
      )}
    </>
  )
}
