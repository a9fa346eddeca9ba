import {archiveProduct, listProducts, unarchiveProduct} from '../api/merchant.ts'
import type {Product} from '../api/types.ts'
import {stamp} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Link} from '../base/parts.tsx'
import {here, setQuery} from '../base/route.ts'
import {Confirm, Head, SearchField, Table, usePages} from './parts.tsx'
import {merchantColumn} from './who.tsx'
import {w} from './words.ts'

export function ProductsPage() {
  const query = here.value.searchParams
  const archived = query.get('archived') === 'true'
  const q = query.get('q') ?? ''
  const list = usePages((cursor) => listProducts(cursor, {q, archived}), [q, archived])
  return (
    <>
      <Head title={w('products')}>
        <Link class="button primary" href="/console/products/new">
          {w('new_product')}
        </Link>
      </Head>
      <div class="filter" role="group" aria-label={w('products')}>
        {[false, true].map((one) => (
          <button
            key={String(one)}
            class="chip"
            aria-pressed={one === archived}
            onClick={() => setQuery({archived: one ? 'true' : ''})}
          >
            {w(one ? 'archived' : 'offered')}
          </button>
        ))}
      </div>
      <SearchField label={w('search_product')} q={q} />
      <Table
        label={w('products')}
        rows={list.items}
        rowKey={(p) => p.product_id}
        empty={w(q ? 'search_none' : archived ? 'archived_none' : 'products_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('name'),
            cell: (p) => (
              <Link class="strong" href={`/console/products/${encodeURIComponent(p.product_id)}`}>
                {p.name}
                {p.ref && <small class="muted"> {p.ref}</small>}
              </Link>
            ),
          },
          ...merchantColumn<Product>(),
          {
            title: w('skus'),
            cell: (p) => p.skus.map((s) => `${s.name} ${money(s.list_price, s)}`).join(' · '),
          },
          {title: w('at'), cell: (p) => <time dateTime={p.created_at}>{stamp(p.created_at)}</time>},
          {title: w('actions'), cell: (p) => <ArchiveButton product={p} done={list.reload} />},
        ]}
      />
    </>
  )
}

function ArchiveButton({product: {product_id: id, name, archived}, done}: {product: Product; done: () => void}) {
  return (
    <Confirm
      label={w(archived ? 'unarchive' : 'archive')}
      title={w(archived ? 'unarchive_ask' : 'archive_ask', {name})}
      run={() => (archived ? unarchiveProduct(id) : archiveProduct(id))}
      done={done}
    >
      <p>{w(archived ? 'unarchive_text' : 'archive_text')}</p>
    </Confirm>
  )
}
