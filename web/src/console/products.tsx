import {listProducts} from '../api/merchant.ts'
import type {Product} from '../api/types.ts'
import {stamp} from '../base/format.ts'
import {money} from '../base/money.ts'
import {Link} from '../base/parts.tsx'
import {Head, Table, usePages} from './parts.tsx'
import {merchantColumn} from './who.tsx'
import {w} from './words.ts'

export function ProductsPage() {
  const list = usePages((cursor) => listProducts(cursor), [])
  return (
    <>
      <Head title={w('products')}>
        <Link class="button primary" href="/console/products/new">
          {w('new_product')}
        </Link>
      </Head>
      <Table
        label={w('products')}
        rows={list.items}
        rowKey={(p) => p.product_id}
        empty={w('products_none')}
        more={list.next ? list.more : undefined}
        failure={list.failure}
        reload={list.reload}
        columns={[
          {
            title: w('name'),
            cell: (p) => (
              <Link class="strong" href={`/console/products/${encodeURIComponent(p.product_id)}`}>
                {p.name}
              </Link>
            ),
          },
          ...merchantColumn<Product>(),
          {
            title: w('skus'),
            cell: (p) => p.skus.map((s) => `${s.name} ${money(s.list_price, s)}`).join(' · '),
          },
          {title: w('at'), cell: (p) => <time dateTime={p.created_at}>{stamp(p.created_at)}</time>},
        ]}
      />
    </>
  )
}
