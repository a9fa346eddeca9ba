// The merchant's console and the operator's pages.

// @ts-expect-error: the stand-in has no types
import {Room} from '../fixtures/room.mjs'
import {populate} from '../fixtures/shop.mjs'
import {expect, signIn, test} from './shop.ts'

test('from a product to a published sale', async ({page, shop}) => {
  await page.goto('/console')
  await page.getByLabel('User').fill('anna')
  await page.getByLabel('Role').selectOption('merchant')
  await page.getByRole('button', {name: 'Sign in'}).click()
  await page.getByRole('link', {name: 'Products'}).click()
  await page.getByRole('link', {name: 'New product'}).click()
  await page.getByLabel('Product name').fill('Kettle')
  await page.getByLabel('SKU name').fill('steel')
  await page.getByLabel('List price').fill('99.50')
  await page.getByRole('button', {name: 'Save'}).dblclick() // a double submit makes one product
  await expect(page.getByRole('link', {name: 'Kettle'})).toBeVisible()
  expect(shop.products.size).toBe(1)
  await page.getByRole('link', {name: 'Sales', exact: true}).click()
  await page.getByRole('link', {name: 'New sale'}).click()
  await page.getByLabel('Title').fill('Kettle week')
  await page.getByLabel('SKU').selectOption({index: 1})
  await page.getByLabel('Price').fill('49.50')
  await page.getByLabel('Stock').fill('100')
  await page.getByRole('button', {name: 'Save'}).click()
  await page.getByRole('button', {name: 'Publish'}).click()
  await expect(page.getByRole('dialog')).toContainText('100 units are offered.')
  await expect(page.getByRole('dialog').getByRole('row').last()).toHaveText('steel€49.50List price €99.50 −50 %100')
  await expect(page.getByRole('dialog').locator('.checks .warning')).toHaveText([/It has no picture/])
  await expect(page.getByRole('dialog').locator('.preview')).toContainText('Kettle week€49.50')
  await page.getByRole('dialog').getByRole('button', {name: 'Publish'}).click()
  await expect(page.getByText('Left', {exact: true}).first()).toBeVisible()
  const [sale] = [...shop.sales.values()]
  expect(sale.items[0]).toMatchObject({price: 4950, total: 100})
})

test('publishing warns of a start that has passed and of a price above the list price', async ({page, shop}) => {
  populate(shop)
  const draft = shop.sales.get('7')
  draft.starts = shop.now() - 1000
  draft.items[0].price = draft.items[0].list_price + 1
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/7')
  await page.getByRole('button', {name: 'Publish'}).click()
  const dialog = page.getByRole('dialog')
  const warned = dialog.locator('.checks .warning')
  await expect(warned.nth(0)).toHaveText(/The start has passed: it opens at once\./)
  await expect(warned.nth(1)).toHaveText(new RegExp(`${draft.items[0].name} costs more than its list price\\.`))
  await expect(dialog).not.toContainText('it opens at 2')
  await dialog.getByRole('button', {name: 'Publish'}).click() // warned, not refused
  await expect(dialog).toBeHidden()
})

test('two editors: the second sees the conflict and their own values', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/7/edit')
  await page.getByLabel('Title').fill('Mine')
  const sale = shop.sales.get('7')
  sale.title = 'Theirs'
  sale.version++
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('alert').first()).toContainText('Changed meanwhile, reloaded.')
  await expect(page.getByRole('alert').first()).toContainText('Mine')
  await expect(page.getByLabel('Title')).toHaveValue('Theirs')
})

test('an adjustment below what is left is refused; a retry keeps its key', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/1')
  await page.getByRole('button', {name: 'Adjust stock'}).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Change').fill('-74')
  await dialog.getByLabel('Reason').fill('damaged')
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toContainText('Fewer units are left than you take away.')
  await dialog.getByLabel('Change').fill('-3')
  shop.faults = [{match: /stock-adjustments/, times: 1, status: 503, code: 'unavailable', before: false}]
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toContainText('Press again: it is the same change')
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toHaveCount(0)
  expect(shop.sales.get('1').items[0].left).toBe(70)
})

test('the board shows known counts, live and as a table', async ({page, shop}) => {
  populate(shop)
  shop.boards.get('8').points.splice(-10) // their seconds come later
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8')
  for (const n of ['8,204', '1,310', '486']) {
    await expect(page.locator('.stat b').getByText(n, {exact: true}).first()).toBeVisible()
  }
  await expect(page.getByText('Live')).toBeVisible()
  shop.boards.get('8').units = {total: 10000, left: 8000, held: 1500, sold: 500}
  await expect(page.locator('.stat b').getByText('8,000')).toBeVisible()
  const now = Math.floor(Date.now() / 1000) * 1000
  const at = (s: number) => new Date(now + s * 1000).toISOString()
  const points = [-4, -3].map((s) => ({at: at(s), accepted: 75 + s, paths: 0, refused: {sold_out: 9}}))
  shop.boards.get('8').points.push(...points) // two seconds settle at once, without stock
  await expect(page.locator('.row.between p').first()).toContainText(/^7[12] \/s/)
  await expect(page.locator('.row.between p').nth(1)).toContainText(/^9 \/s/)
  await page.getByText('The same as a table').click()
  await expect(page.getByRole('region', {name: 'Per second'}).locator('tbody tr')).toHaveCount(60)
  await expect(page.getByRole('region', {name: 'Per second'}).locator('tbody tr').first()).toContainText('72')
  await expect(page.getByRole('region', {name: 'Per second'}).locator('tbody tr').nth(1)).toContainText('71')
})

test('the board of a merchant: money, time, each SKU and the room; that of an operator: stock three ways and the mode', async ({page, shop}) => {
  populate(shop)
  shop.sales.get('8').room = new Room(shop.sales.get('8'), {rate: 20})
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8')
  const stat = (name: string) => page.locator('.stat', {has: page.getByText(name, {exact: true})})
  await expect(stat('Revenue').locator('b')).toHaveText(/^CN¥[\d,]+\.\d\d$/)
  await expect(stat('Paid')).toContainText('25 % of the orders') // 486 of 1,888
  await expect(page.getByRole('timer')).toHaveText(/^ends in (\d+ days? )?\d\d:\d\d/)
  const left = page.locator('section', {has: page.getByRole('heading', {name: 'Left of each SKU'})})
  await expect(left.getByRole('listitem')).toHaveCount(2)
  await expect(left.getByRole('listitem').first()).toContainText('4,912 of 6,000')
  for (const part of [page.locator('.as-of'), left, page.locator('section', {has: page.getByRole('heading', {name: 'Orders by state'})})])
    await expect(part).toContainText('As of')
  const room = page.locator('section', {has: page.getByRole('heading', {name: 'Waiting room'})})
  await expect(room.getByRole('row', {name: 'Waiting', exact: false}).first()).toContainText('1,200')
  await expect(room.getByRole('row', {name: /All admitted in/})).toContainText('01:00')
  await expect(page.getByText('Stock three ways')).toHaveCount(0)
  await expect(page.locator('.as-of')).not.toContainText('Redis')
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/sales/8')
  await expect(page.getByRole('heading', {name: 'Stock three ways'})).toBeVisible()
  await expect(page.getByRole('heading', {name: 'Left of each SKU'})).toHaveCount(0)
})

test('orders: filter in the address, and the CSV has the same rows', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8/orders')
  await page.getByLabel('State').selectOption('paid')
  await expect(page).toHaveURL(/state=paid/)
  const rows = page.locator('tbody tr')
  await expect(rows).toHaveCount(8)
  const href = await page.getByRole('link', {name: 'Download CSV'}).getAttribute('href')
  const csv = await (await page.request.get(href as string)).text()
  expect(csv.trim().split('\n')).toHaveLength(9)
  await page.reload()
  await expect(rows).toHaveCount(8)
})

test('abuse: suspects with a CSV, and the review cancels what is selected', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8/abuse')
  await expect(page.getByRole('region', {name: 'Users'}).locator('tbody tr')).toHaveCount(3)
  await expect(page.getByRole('region', {name: 'Addresses'})).toContainText('2001:db8:1:2::/64')
  const href = await page.getByRole('link', {name: 'Download CSV'}).getAttribute('href')
  expect(await (await page.request.get(href as string)).text()).toContain('user,user-104')
  const orders = page.getByRole('region', {name: 'Review before fulfilment'})
  const open = page.getByRole('button', {name: 'Cancel orders'})
  await expect(orders.locator('tbody tr')).toHaveCount(2)
  await expect(open).toBeDisabled()
  for (const box of await orders.getByRole('checkbox').all()) await box.check()
  await expect(page.getByText('2 selected')).toBeVisible()
  await open.click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('Cancel and refund 2 orders?')
  await dialog.getByRole('button', {name: 'Cancel orders'}).click()
  await expect(dialog.getByLabel('Reason')).toHaveAttribute('aria-invalid', 'true')
  await dialog.getByLabel('Reason').fill('bought by robots')
  await dialog.getByRole('button', {name: 'Cancel orders'}).click()
  await expect(page.getByText('1 cancelled, 1 being refunded, 0 had ended before.')).toBeVisible()
  await expect(page.getByText('No order of a suspicious user.')).toBeVisible()
  await page.getByRole('link', {name: 'History'}).click()
  await expect(page.getByRole('region', {name: 'Changes'}).locator('tbody tr').first()).toContainText('Orders cancelled')
})

test('roles: a merchant does not see the operator, a buyer sees neither', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/operator/limits')
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Your account may not do this.')
  await signIn(page, 'buyer')
  await page.goto('/console')
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Your account may not do this.')
})

test('operator: replay, reject, edit a limit and revert it, reconcile', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/dead-letters')
  await page.getByRole('button', {name: 'Reject'}).click()
  await expect(page.getByRole('dialog')).toContainText('cannot be undone')
  await page.getByRole('dialog').getByRole('button', {name: 'Reject'}).click()
  await expect(page.getByText('No dead letter.')).toBeVisible()
  await page.goto('/console/operator/limits')
  await page.getByRole('button', {name: 'Edit path'}).click()
  await expect(page.getByRole('dialog')).toContainText('Each param activity_id: 1000 in 1s. Up to 200 at once. The others are refused.')
  await page.getByLabel('Permits', {exact: true}).fill('1500')
  await page.getByLabel('Permits at once').fill('')
  await page.getByLabel('Per', {exact: true}).fill('0s')
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByLabel('Per', {exact: true})).toBeFocused()
  await expect(page.getByText('A duration above 0')).toBeVisible()
  await page.getByLabel('Per', {exact: true}).fill('2s')
  await expect(page.getByRole('dialog')).toContainText('Each param activity_id: 1500 in 2s. The others are refused.')
  await expect(page.locator('.diff ins').nth(1)).toHaveText('1500')
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.limits.get('path').rule).toEqual({algorithm: 'token_bucket', limit: 1500, per: '2s', key: 'param:activity_id'})
  // 0 permits refuse all: the limit's name must be typed. The change before it is listed.
  await page.getByRole('button', {name: 'Edit path'}).click()
  await page.getByRole('dialog').getByText('Changes', {exact: true}).click()
  await expect(page.getByRole('dialog').locator('section')).toContainText('ops-1')
  await expect(page.getByRole('dialog').locator('section del').first()).toHaveText('200')
  await page.getByLabel('Permits', {exact: true}).fill('0')
  await expect(page.getByRole('dialog')).toContainText('Every request is refused.')
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByRole('dialog')).toContainText('Type the name of the limit')
  expect(shop.limits.get('path').rule.limit).toBe(1500)
  await page.getByLabel('Type path to confirm').fill('path')
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.limits.get('path').rule).toMatchObject({limit: 0, refuse_all: true})
  await page.getByRole('row', {name: /path/}).getByRole('button', {name: 'Revert'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Revert'}).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.limits.get('path').rule.limit).toBe(1000)
  await page.goto('/console/operator/reconcile')
  await page.getByRole('button', {name: 'Reconcile'}).click()
  await expect(page.getByText('None: gate and database agree.')).toBeVisible()
})

test('the state and the numbers of the dialogs are right on each tab of a sale', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8/orders')
  await page.getByRole('button', {name: 'End sale'}).click()
  await expect(page.getByRole('dialog')).toContainText('1,310 buyers')
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel'}).click()
  await page.getByRole('link', {name: 'Board'}).click()
  await expect(page.getByText('Live')).toBeVisible()
  await page.getByRole('link', {name: 'Orders', exact: true}).click()
  await page.getByRole('button', {name: 'Pause'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Pause'}).click()
  await expect(page.locator('.facts .badge').first()).toContainText('Paused')
  await expect(page.getByRole('button', {name: 'Resume'})).toBeVisible()
  // An ended sale is not live.
  shop.sales.get('8').ended = true
  await page.goto('/console/sales/8')
  await expect(page.locator('.as-of')).toContainText('Ended')
  await expect(page.getByText('Live')).toHaveCount(0)
})

test('two editors of a limit: the typed rule stays; a tried key saves nothing', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  const details = {name: 'path', rule: {algorithm: 'token_bucket', limit: 900, per: '1s', key: 'path'}}
  shop.limits.get('path').changes = [{change_id: '1', at: '2026-09-01T10:00:00Z', actor: 'ops-0', role: 'operator', what: 'limit.put', details}]
  await page.goto('/console/operator/limits?limit=path')
  const permits = page.getByLabel('Permits', {exact: true})
  await page.getByRole('dialog').getByText('Changes', {exact: true}).click()
  await expect(page.getByRole('dialog').locator('section')).toContainText('the rule before it was not recorded')
  await expect(page.getByRole('dialog').locator('section ins').first()).toHaveText('token_bucket')
  await permits.fill('1500')
  await page.getByLabel('Key').fill('42')
  await page.getByLabel('Key').press('Enter')
  await expect(page.getByRole('dialog').locator('.try').getByRole('status')).toContainText('Allowed')
  expect(shop.limits.get('path').rule.limit).toBe(1000)
  shop.limitsVersion++
  shop.limits.get('path').rule = {...shop.limits.get('path').rule, burst: 300}
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByRole('dialog')).toContainText('Changed meanwhile')
  await expect(permits).toHaveValue('1500')
  await expect(page.getByLabel('Permits at once')).toHaveValue('300') // the other editor's value stays
  await page.getByRole('button', {name: 'Save limits'}).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(shop.limits.get('path').rule).toMatchObject({limit: 1500, burst: 300})
})

test('health is shown although its responses take longer than the pause between reads', async ({page, shop}) => {
  populate(shop)
  await page.addInitScript(() => {
    const real = setTimeout
    const short = (run: () => void, ms = 0) => real(run, ms > 4000 && ms < 6000 ? 200 : ms) // the pause of 5 s
    window.setTimeout = short as typeof setTimeout
  })
  shop.faults = [{match: /health/, times: 1000, delayMs: 700}]
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/health')
  await expect(page.getByText('database: time-out')).toBeVisible()
  shop.components.find((c: {ready: boolean}) => !c.ready).reasons = ['redis: time-out']
  await expect(page.getByText('redis: time-out')).toBeVisible()
})

test('health claims nothing by old data', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/health')
  const table = page.getByRole('region', {name: 'Health'})
  await expect(table.getByText(/Ready$/)).not.toHaveCount(0)
  shop.faults = [{match: /\/health/, times: 1000, status: 503, code: 'unavailable'}]
  await page.clock.install()
  await page.clock.runFor(10_000)
  await expect(page.getByRole('alert')).toBeVisible()
  await expect(table.getByText(/Ready$/)).toHaveCount(0)
  await expect(table.getByText('Unknown')).toHaveCount(shop.components.length)
})

test('the overview: one verdict, the worst first; counts in the navigation; grey when it is old', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator')
  await expect(page.locator('.verdict')).toContainText('Something is wrong')
  const first = page.locator('.concerns li').first()
  await expect(first).toContainText('Processes without a dependency')
  await expect(page.getByRole('navigation').getByRole('link', {name: /Dead letters/})).toContainText('1')
  await first.getByRole('link').click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Health')
  await page.goto('/console/operator/overview')
  await expect(page.locator('.verdict')).toContainText('Something is wrong')
  shop.faults = [{match: /\/overview/, times: 1000, status: 503, code: 'unavailable'}]
  await page.context().setOffline(true)
  await expect(page.locator('.verdict')).toContainText('We do not know')
  await expect(page.locator('.overview')).toHaveClass(/stale/)
  await page.context().setOffline(false)
  await expect(page.locator('.verdict')).toContainText('We do not know') // the reading fails
  await expect(page.getByRole('alert')).toBeVisible()
  shop.faults = []
  await page.reload()
  await expect(page.locator('.overview')).not.toHaveClass(/stale/)
  // A merchant neither sees it nor reads it.
  const read: string[] = []
  page.on('request', (r) => read.push(r.url()))
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales')
  await expect(page.getByRole('heading', {level: 1})).toBeVisible()
  await expect(page.getByRole('link', {name: 'Overview'})).toHaveCount(0)
  expect(read.filter((url) => url.includes('/overview'))).toEqual([])
})

test('health and overview of a response that is kept too long claim nothing', async ({page, shop}) => {
  populate(shop)
  await page.clock.install()
  await signIn(page, 'ops-1', ['operator'])
  for (const [path, mark] of [
    ['/console/operator/overview', page.locator('.verdict')],
    ['/console/operator/health', page.getByRole('region', {name: 'Health'})],
  ] as const) {
    shop.faults = []
    await page.goto(path)
    await expect(mark).not.toContainText(/do not know|Unknown/)
    shop.faults = [{match: /^\/v1\/merchant\/(overview|health)/, times: 1000, delayMs: 30_000}]
    await page.clock.runFor(60_000)
    await expect(mark).toContainText(/do not know|Unknown/)
  }
})

test('products and sales after the first page can be chosen', async ({page, shop}) => {
  populate(shop)
  shop.pageSize = 2
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/sales/new')
  const products = page.getByLabel('SKU')
  await expect(products.locator('option', {hasText: 'Phone X'})).toHaveCount(0)
  await page.getByRole('button', {name: 'Load more products'}).click()
  await expect(products.locator('option', {hasText: 'Phone X'})).toHaveCount(2)
  await expect(page.getByRole('button', {name: 'Load more products'})).toHaveCount(0)
  await page.goto('/console/operator/reconcile')
  const sales = page.getByLabel('Sale', {exact: true})
  await expect(sales.locator('option')).toHaveCount(1) // and a draft
  await page.getByRole('button', {name: 'Load more sales'}).click()
  await expect(sales.locator('option')).toHaveCount(3)
})

test('a session that ends does not take what was typed', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  const revoke = async () => {
    for (const {name, value} of await page.context().cookies()) shop.revoked.add(`${name}=${value}`)
  }
  await page.goto('/console/sales/new')
  await page.getByLabel('Title').fill('Typed with care')
  await page.getByLabel('SKU').selectOption({index: 1})
  await page.getByLabel('Price').fill('49.50')
  await page.getByLabel('Stock').fill('100')
  await revoke()
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('form .error')).toContainText('Sign in again in another tab')
  await expect(page.getByLabel('Title')).toHaveValue('Typed with care')
  await signIn(page, 'anna', ['merchant'])
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Typed with care')

  // A read of the board reports the end of the session while a dialog is open.
  await page.goto('/console/sales/8')
  await page.getByRole('button', {name: 'Adjust stock'}).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('damaged')
  await revoke()
  shop.streams = false
  for (const stream of shop.streamsOpen) stream.end()
  await expect(page.locator('.banner a')).toHaveText('Sign in')
  await expect(page.getByRole('dialog').getByLabel('Reason')).toHaveValue('damaged')
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel'}).click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Sign in')
})

test('a conflict lists prices and stock too; a refusal without one keeps what was typed', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/7/edit')
  await page.getByLabel('Stock').fill('555')
  const sale = shop.sales.get('7')
  sale.items[0].price = 59900
  sale.version++
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('alert').first()).toContainText('Winter jacket · Blue, L: CN¥699.00 × 555 (CN¥599.00 × 400)')
  await expect(page.getByLabel('Stock')).toHaveValue('400')

  await page.goto('/console/products/1')
  await page.getByLabel('List price').first().fill('1')
  shop.products.get('1').version++
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('alert').first()).toContainText('SKU Black: Black · CN¥1.00 (Black · CN¥4,599.00)')

  await page.goto('/console/sales/8/edit')
  await page.getByLabel('Title').fill('Mine')
  await page.getByLabel('End', {exact: true}).fill('2020-01-01T00:00:00')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('form .error')).toContainText('Its present state does not allow this.')
  await expect(page.locator('form .error')).toContainText('ends_at may only become later')
  await expect(page.getByLabel('Title')).toHaveValue('Mine')

  // Changed by another editor, and the sale cannot be read again.
  shop.sales.get('8').version++
  shop.faults = [{match: /activities\/8$/, method: 'GET', times: 1, status: 503, code: 'unavailable'}]
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('form .error')).toContainText('Load the page again before you save.')
  await expect(page.getByLabel('Title')).toHaveValue('Mine')
})

test('a change that is stored but not yet at the gate is repeated from its new version', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8/edit')
  await page.getByLabel('Title').fill('Mine')
  const fault = {status: 503, code: 'gate_unavailable', more: {version: 2}}
  shop.faults = [{match: /activities\/8$/, method: 'PATCH', times: 1, before: false, ...fault}]
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('form .error')).toContainText('No answer right now.')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Mine')
  expect(shop.sales.get('8').version).toBe(3)
})

test('an adjustment without a response is the same one after its dialog was closed', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/1')
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', {name: 'Adjust stock'}).click()
  await dialog.getByLabel('Change').fill('-3')
  await dialog.getByLabel('Reason').fill('damaged')
  shop.faults = [{match: /stock-adjustments/, times: 1, status: 503, code: 'unavailable', before: false}]
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toContainText('Press again: it is the same change')
  await dialog.getByRole('button', {name: 'Cancel'}).click()
  await page.getByRole('button', {name: 'Adjust stock'}).click()
  await expect(dialog.getByLabel('Change')).toHaveValue('-3')
  await dialog.getByRole('button', {name: 'Apply'}).click()
  await expect(dialog).toHaveCount(0)
  expect(shop.sales.get('1').items[0].left).toBe(70)
  await page.getByRole('button', {name: 'Adjust stock'}).click()
  await expect(dialog.getByLabel('Change')).toHaveValue('')
})

test('a new product whose response was lost and whose values changed can still be saved', async ({page, shop}) => {
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/products/new')
  await page.getByLabel('Product name').fill('Kettle')
  await page.getByLabel('SKU name').fill('steel')
  await page.getByLabel('List price').fill('99.50')
  shop.faults = [{match: /products/, method: 'POST', times: 1, status: 503, code: 'unavailable', before: false}]
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('form .error')).toContainText('No answer')
  await page.getByLabel('Product name').fill('Kettle 2')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('form .error')).toContainText('An earlier attempt to save arrived after all')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('link', {name: 'Kettle 2'})).toBeVisible()
  expect(shop.products.size).toBe(2)
})

test('a reconciliation is shown under its own sale only', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'ops-1', ['operator'])
  await page.goto('/console/operator/reconcile?sale=8')
  shop.faults = [{match: /reconciliations/, method: 'POST', times: 1, delayMs: 600}]
  const done = page.waitForResponse((r) => r.request().method() === 'POST')
  await page.getByRole('button', {name: 'Reconcile'}).click()
  await expect(page.getByText('Comparing')).toBeVisible()
  await page.getByLabel('Sale', {exact: true}).selectOption('1')
  await expect(page.getByText('Comparing')).toHaveCount(0)
  await done
  await expect(page.getByRole('button', {name: 'Reconcile'})).toHaveAttribute('aria-disabled', 'false')
  await expect(page.getByText('None: gate and database agree.')).toHaveCount(0)
  await page.getByLabel('Sale', {exact: true}).selectOption('8')
  await expect(page.getByText('None: gate and database agree.')).toBeVisible()
})

test('the Chinese history words actions and states; an empty role is not shown', async ({page, shop}) => {
  populate(shop)
  const at = new Date().toISOString()
  shop.changes.push({change_id: '0', activity_id: '8', at, actor: 'reconciler', what: 'activity.reconcile'})
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/8/history')
  await page.getByRole('button', {name: '中文'}).click()
  const changes = page.getByRole('region', {name: '变更'})
  await expect(changes.getByRole('row', {name: /reconciler/})).toContainText('库存修复')
  await expect(changes.getByRole('row', {name: /reconciler/})).not.toContainText('商户')
  await expect(changes).not.toContainText('activity.')
  await expect(page.getByRole('region', {name: '库存调整'})).toContainText('已生效')
  await page.getByRole('link', {name: '订单'}).click()
  await expect(page.getByRole('region', {name: '订单'})).toContainText('已关闭 (超时未付)')
})

test('waiting room, reorder limit and degraded sale: created, refused by field, changed while open, switched off', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/new')
  await page.getByLabel('Title').fill('Concert')
  await page.getByLabel('SKU').selectOption({index: 1})
  await page.getByLabel('Price').fill('680')
  await page.getByLabel('Stock').fill('500')
  const rate = page.getByLabel('Waiting room: admitted per second')
  const perSecond = page.getByLabel('Purchases per second')
  const unfold = () => page.locator('summary', {hasText: 'Advanced'}).click()
  await unfold()
  await rate.fill('many')
  await page.getByLabel('Orders a buyer may drop').fill('16')
  await perSecond.fill('100')
  await page.getByLabel('Refused at random, %').fill('100')
  await page.getByLabel('Kept back, %').fill('101')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(rate).toHaveAccessibleDescription(/from 1 to 1000000/)
  await expect(rate).toBeFocused()
  await expect(page.getByLabel('Orders a buyer may drop')).toHaveAccessibleDescription(/from 0 to 15/)
  await expect(page.getByLabel('Refused at random, %')).toHaveAccessibleDescription(/from 0 to 99/)
  await expect(page.getByLabel('Kept back, %')).toHaveAccessibleDescription(/from 0 to 100/)
  await expect(rate).toHaveAttribute('aria-invalid', 'true')
  await rate.fill('1000')
  await page.getByLabel('Orders a buyer may drop').fill('3')
  await page.getByLabel('Refused at random, %').fill('20')
  await page.getByLabel('Kept back, %').fill('2')
  await page.getByRole('button', {name: 'Save'}).click()
  await page.getByRole('button', {name: 'Publish'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Publish'}).click()
  await expect(page.getByText('Live')).toBeVisible()
  const sale = [...shop.sales.values()].find((s) => s.title === 'Concert')
  expect(sale).toMatchObject({reorder_limit: 3, degraded_sale: {per_second: 100, drop: 20, reserve: 2}})
  expect(sale.room.rate).toBe(1000)
  // While it is published: the rate and the degraded sale, nothing else.
  await page.getByRole('link', {name: 'Edit', exact: true}).click()
  await expect(page.getByLabel('Orders a buyer may drop')).toBeDisabled() // own settings are unfolded
  await rate.fill('500')
  await perSecond.fill('')
  await expect(page.getByLabel('Kept back, %')).toBeDisabled()
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('heading', {name: 'Waiting room'})).toBeVisible()
  await expect(page.getByRole('row', {name: /Admitted per second, at most/})).toContainText('500')
  expect(sale.degraded_sale).toBeNull()
  // A sale without a room cannot get one.
  await page.goto('/console/sales/1/edit')
  await expect(rate).toBeDisabled()
  // The board states whether the sale would go on without Redis, and why not.
  const kept = shop.sales.get('1')
  kept.degraded_readiness = 'ready'
  await page.goto('/console/sales/1')
  await expect(page.getByText('Without Redis: goes on')).toBeVisible()
  kept.degraded_readiness = 'outdated'
  await expect(page.getByText('Without Redis: stops')).toBeVisible()
  await expect(page.getByRole('status').getByText('were last read too long ago')).toBeVisible()
  // The board states that the ledger decides.
  Object.assign(kept, {mode: 'direct', degraded_readiness: 'ready'})
  await page.goto('/console/sales/1')
  await expect(page.getByText('Redis is unavailable. The ledger sells')).toBeVisible()
})

test('a challenge: chosen for a new sale, refused by field, changed and switched off while open', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales/new')
  await page.getByLabel('Title').fill('Concert')
  await page.getByLabel('SKU').selectOption({index: 1})
  await page.getByLabel('Price').fill('680')
  await page.getByLabel('Stock').fill('500')
  const kind = page.getByLabel('Challenge before buying')
  const difficulty = page.getByLabel('Proof of work: thousands of hashes, at most')
  const unfold = () => page.locator('summary', {hasText: 'Advanced'}).click()
  await expect(page.getByLabel('First come, first served')).toBeChecked()
  await unfold()
  await expect(kind).toHaveValue('none')
  await expect(difficulty).toBeDisabled()
  await page.getByLabel('Against robots').check()
  await expect(kind).toHaveValue('click')
  await difficulty.fill('1001')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(difficulty).toHaveAccessibleDescription(/from 1 to 1000/)
  await difficulty.fill('80')
  await page.getByRole('button', {name: 'Save'}).click()
  await page.getByRole('button', {name: 'Publish'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Publish'}).click()
  await expect(page.getByText('Live')).toBeVisible()
  const sale = [...shop.sales.values()].find((s) => s.title === 'Concert')
  expect(sale.challenge.kind).toBe('click')
  expect(sale.captcha_difficulty).toBe(80)
  await page.getByRole('link', {name: 'Edit', exact: true}).click()
  await unfold()
  await expect(kind).toHaveValue('click')
  await expect(difficulty).toHaveValue('80')
  await kind.selectOption('proof of work')
  await difficulty.fill('90')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Live')).toBeVisible()
  expect(sale.challenge.kind).toBe('pow')
  expect(sale.captcha_difficulty).toBe(90)
  await page.getByRole('link', {name: 'Edit', exact: true}).click()
  await expect(page.getByLabel('Own settings')).toBeChecked()
  await kind.selectOption('none') // own settings are unfolded
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByText('Live')).toBeVisible()
  expect(sale.challenge).toBeUndefined()
})

test('the form of a sale: all fields are checked at once, the first wrong one has the focus, nothing typed is lost by leaving', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/sales')
  await page.getByRole('link', {name: 'New sale'}).click()
  const legends = await page.locator('form > fieldset > legend').allTextContents()
  expect(legends).toEqual(['What is sold', 'How it is shown', 'When', 'Rules'])
  await page.getByLabel('Pay within, minutes').fill('0')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.locator('[aria-invalid=true]')).toHaveCount(5) // title, SKU, price, stock, minutes
  await expect(page.getByLabel('Title')).toBeFocused()
  await expect(page.getByLabel('Title')).toHaveAccessibleDescription(/This is missing/)
  await expect(page.getByLabel('Pay within, minutes')).toHaveAccessibleDescription(/from 0\.1 to 1440/)
  // The preset of high demand has a room and a challenge. A field of the unfolded part may make it another preset.
  await page.getByLabel('High demand').check()
  await page.locator('summary', {hasText: 'Advanced'}).click()
  const rate = page.getByLabel('Waiting room: admitted per second')
  await expect(rate).toHaveValue('100')
  await rate.fill('20')
  await page.getByLabel('Challenge before buying').selectOption('none')
  await expect(page.getByLabel('Own settings')).toBeChecked()
  await page.getByLabel('Challenge before buying').selectOption('click')
  await expect(page.getByLabel('High demand')).toBeChecked()
  await expect(page.getByLabel('Challenge before buying')).toBeVisible()
  await page.getByLabel('Against robots').check()
  await expect(rate).toHaveValue('')
  await page.getByLabel('Title').fill('Concert')
  const asked: string[] = []
  let stay = true
  page.on('dialog', (d) => {
    asked.push(d.message())
    void (stay ? d.dismiss() : d.accept())
  })
  await page.getByRole('navigation').getByRole('link', {name: 'Products'}).click()
  await expect(page.getByLabel('Title')).toHaveValue('Concert')
  await page.goBack()
  await expect(page.getByLabel('Title')).toHaveValue('Concert')
  await expect(page).toHaveURL(/sales\/new/)
  await page.getByRole('button', {name: 'Sign out'}).click()
  await expect(page.getByLabel('Title')).toHaveValue('Concert')
  await expect(page.getByRole('button', {name: 'Sign out'})).toBeVisible()
  stay = false
  await page.getByRole('navigation').getByRole('link', {name: 'Products'}).click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Products')
  expect(asked).toEqual(Array(4).fill('Leave without saving? What you typed is lost.'))
  // Back and Forward that are declined keep the entries after and before the form.
  await page.goBack()
  await page.getByLabel('Title').fill('Concert')
  // The form is guarded once its change is drawn: a cancelable beforeunload has a listener then.
  await expect.poll(() => page.evaluate(() => !dispatchEvent(new Event('beforeunload', {cancelable: true})))).toBe(true)
  stay = true
  await page.goForward()
  await expect.poll(() => asked.length).toBe(5)
  await page.goBack()
  await expect.poll(() => asked.length).toBe(6)
  await expect(page).toHaveURL(/sales\/new/)
  await expect(page.getByLabel('Title')).toHaveValue('Concert')
  stay = false
  await page.goForward()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Products')
  expect(asked).toHaveLength(7)
  // A form that was not changed, or was saved, is left without a question.
  await page.goto('/console/sales/7/edit')
  await page.getByRole('navigation').getByRole('link', {name: 'Products'}).click()
  await page.goto('/console/sales/7/edit')
  await page.getByLabel('Title').fill('Other')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('heading', {level: 1})).toHaveText('Other')
  expect(asked).toHaveLength(7)
})

test('an amount that can be read in two ways is refused, and the form says what it understood', async ({page, shop}) => {
  populate(shop)
  await signIn(page, 'anna', ['merchant'])
  await page.goto('/console/products/new')
  await page.getByLabel('Product name').fill('Grand piano')
  await page.getByLabel('SKU name').fill('black')
  const price = page.getByLabel('List price')
  const currency = page.getByLabel('Currency')
  for (const [code, text, understood] of [
    ['EUR', '9000', '€9,000.00'],
    ['EUR', '9000,50', '€9,000.50'],
    ['JPY', '10000', 'JP¥10,000'],
    ['KWD', '01.500', 'KWD 1.500'],
  ] as const) {
    await currency.fill(code)
    await price.fill(text)
    await expect(price).toHaveAccessibleDescription(understood)
  }
  for (const [code, text, example] of [
    ['EUR', '9,000', '9000.00'],
    ['USD', '2.500', '9000.00'],
    ['JPY', '10,000', '9000,'],
    ['KWD', '1.500', '01.500'],
  ] as const) {
    await currency.fill(code)
    await price.fill(text)
    await page.getByRole('button', {name: 'Save'}).click()
    await expect(price).toHaveAttribute('aria-invalid', 'true')
    await expect(price).toHaveAccessibleDescription(new RegExp(example))
  }
  await currency.fill('EUX')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(currency).toHaveAccessibleDescription(/such as EUR/)
  await currency.fill('EUR')
  await price.fill('9000')
  await page.getByRole('button', {name: 'Save'}).click()
  await expect(page.getByRole('row', {name: /Grand piano/})).toContainText('€9,000.00')
})

test.describe('in a zone where an hour occurs twice', () => {
  test.use({timezoneId: 'Europe/Berlin'})
  test('a form leaves the times alone that nobody changed', async ({page, shop}) => {
    populate(shop)
    const draft = shop.sales.get('7')
    const times = {starts: Date.parse('2027-10-31T01:30:00Z'), ends: Date.parse('2027-10-31T03:30:00.500Z')}
    Object.assign(draft, times)
    await signIn(page, 'anna', ['merchant'])
    await page.goto(`/console/sales/${draft.activity_id}/edit`)
    await page.getByLabel('Title').fill('Night sale')
    await page.getByRole('button', {name: 'Save'}).click()
    await expect(page.getByRole('heading', {name: 'Night sale'})).toBeVisible()
    expect(draft).toMatchObject({title: 'Night sale', ...times})
  })

  test('a time that occurs twice is asked about', async ({page, shop}) => {
    populate(shop)
    const draft = shop.sales.get('7')
    Object.assign(draft, {starts: Date.parse('2027-10-30T01:30:00Z'), ends: Date.parse('2027-10-31T05:30:00Z')})
    await signIn(page, 'anna', ['merchant'])
    await page.goto(`/console/sales/${draft.activity_id}/edit`)
    await page.getByLabel('Start', {exact: true}).fill('2027-10-31T02:30')
    await page.getByRole('button', {name: 'Save'}).click()
    await expect(page.locator('#starts_at-error')).toContainText('The clocks show this time twice.')
    await page.getByLabel('Start: which of the two').selectOption('2027-10-31 01:30 UTC')
    await expect(page.locator('#starts_at-hint')).toHaveText('Europe/Berlin; 2027-10-31 01:30 UTC')
    await page.getByRole('button', {name: 'Save'}).click()
    await expect(page.getByRole('heading', {name: draft.title})).toBeVisible()
    expect(new Date(draft.starts).toISOString()).toBe('2027-10-31T01:30:00.000Z')
  })
})
