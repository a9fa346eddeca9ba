// A purchase from the press to the payment, and what may come between.

import {buy, expect, said, signIn, status, test, watch} from './shop.ts'

test('from the sign-in form to paid', async ({page, shop}) => {
  shop.sale('1')
  await page.goto('/sales/1')
  await page.getByLabel('User').fill('42')
  await page.getByRole('button', {name: 'Sign in'}).click()
  await buy(page).click()
  await expect(status(page)).toContainText('Order created. Pay by')
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click()
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.')
  expect(shop.count('POST', /\/paths$/)).toBe(1)
})

test('a failed payment can be repeated', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment fails'}).click()
  await expect(page.getByRole('status').first()).toContainText('The payment failed. You can pay again.')
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click()
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.')
})

test('a second press on Pay, here or in another tab, goes on with the same payment', async ({page, shop, context, problems}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await page.getByRole('button', {name: /^Pay /}).dblclick()
  await page.getByRole('button', {name: 'Payment succeeds'}).waitFor()
  const second = await context.newPage()
  watch(second, problems)
  await second.goto(`/orders/${[...shop.orders.keys()][0]}`)
  await second.getByRole('button', {name: /^Pay /}).click()
  await second.getByRole('button', {name: 'Payment succeeds'}).click()
  await expect(second.getByRole('status').first()).toContainText('Paid. Thank you.')
  expect(shop.payments.size).toBe(1)
  await page.reload()
  await expect(page.getByText('Paid. Thank you.').first()).toBeVisible()
  expect(shop.payments.size).toBe(1)
})

test('while the payment provider is busy, the button counts down to the turn and goes on by itself', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  shop.faults.push({match: /\/payments$/, method: 'POST', times: 2, status: 503, code: 'provider_busy', retryAfter: 2})
  await page.getByRole('button', {name: /^Pay /}).click()
  await expect(page.getByRole('button', {name: /^Many are paying. Your turn in 00:0/})).toBeVisible()
  await page.getByRole('button', {name: 'Payment succeeds'}).click({timeout: 15_000})
  await expect(page.getByRole('status').first()).toContainText('Paid. Thank you.')
  expect(shop.payments.size).toBe(1)
})

test('cancel gives the unit to another buyer', async ({page, shop, browser, address, problems}) => {
  shop.sale('1', {items: [{sku_id: '11', name: 'A', price: 100, currency: 'EUR', total: 1, left: 1}]})
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const context = await browser.newContext({baseURL: address})
  const other = await context.newPage()
  watch(other, problems)
  await signIn(other, '43')
  await other.goto('/sales/1')
  await expect(status(other)).toContainText('Sold out.')
  await page.getByRole('button', {name: 'Cancel order'}).click()
  await page.getByRole('dialog').getByRole('button', {name: 'Cancel order'}).click()
  await expect(status(page)).toContainText('You cancelled.')
  await buy(other).and(other.locator('[aria-disabled=false]')).click({timeout: 15_000})
  await expect(status(other)).toContainText('Order created')
  await context.close()
})

const troubles = [
  {name: '503 of the path route', fault: {match: /\/paths$/, times: 1, status: 503, code: 'overloaded', retryAfter: 1}, words: 'Very many people are here. We try again in'},
  {name: '429 of the path route', fault: {match: /\/paths$/, times: 1, status: 429, code: 'rate_limited', retryAfter: 1}, words: 'Very many people are here. We try again in'},
  {name: '503 of the reservation', fault: {match: /\/reservations$/, method: 'POST', times: 2, status: 503, code: 'journal_full', retryAfter: 1}, words: 'The line is full. We try again in'},
]
for (const {name, fault, words} of troubles) {
  test(`${name} is repeated with the same path`, async ({page, shop}) => {
    shop.sale('1')
    shop.faults = [fault]
    await signIn(page)
    await page.goto('/sales/1')
    await buy(page).click()
    await expect(status(page)).toContainText('Order created', {timeout: 15_000})
    await said(page, words)
    expect(shop.reservations.size).toBe(1)
    expect(shop.paths.size).toBe(1)
  })
}

test('a broken connection is repeated with the same path', async ({page, shop}) => {
  shop.sale('1')
  // Broken in the browser: it repeats a request itself where only the server's end of a kept connection breaks.
  await page.route('**/paths/*/reservations', (route) => route.abort('connectionreset'), {times: 1})
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', {timeout: 15_000})
  await said(page, 'nothing is bought twice')
  expect(shop.reservations.size).toBe(1)
  expect(shop.paths.size).toBe(1)
})

test('an answer that is lost after the purchase was made buys once', async ({page, shop}) => {
  shop.sale('1')
  shop.faults = [{match: /\/reservations$/, method: 'POST', times: 1, drop: true, before: false}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', {timeout: 15_000})
  expect(shop.reservations.size).toBe(1)
})

test('without streams the outcome comes by polling', async ({page, shop}) => {
  shop.sale('1')
  shop.streams = false
  shop.createAfterMs = 4000
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created', {timeout: 15_000})
  await said(page, 'Accepted. Your order is being created.')
})

test('a stream that ended is opened again', async ({page, shop}) => {
  shop.sale('1')
  shop.createAfterMs = Infinity
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect.poll(() => shop.streamsOpen.size).toBe(1)
  for (const s of shop.streamsOpen) s.end()
  await expect.poll(() => shop.count('GET', /events$/)).toBe(2)
  await expect.poll(() => shop.streamsOpen.size).toBe(1)
  shop.created([...shop.reservations.values()][0])
  await expect(status(page)).toContainText('Order created')
})

test('a stream whose ticket expired is opened again with a new one', async ({page, shop}) => {
  shop.sale('1')
  shop.createAfterMs = Infinity
  shop.faults = [{match: /events$/, times: 1, status: 401, code: 'unauthenticated'}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect.poll(() => shop.streamsOpen.size).toBe(1)
  const tickets = shop.log.filter((l: {path: string}) => l.path.endsWith('/events')).map((l: {search: string}) => l.search)
  expect(new Set(tickets).size).toBe(2)
  shop.created([...shop.reservations.values()][0])
  await expect(status(page)).toContainText('Order created')
})

test('sold out, may return, back in stock', async ({page, shop}) => {
  const sale = shop.sale('1', {may_return_until: new Date(Date.now() + 600_000).toISOString(), items: [{sku_id: '11', name: 'A', price: 100, currency: 'EUR', total: 1, left: 0}]})
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('Sold out. Unpaid items may come back until')
  await expect(buy(page)).toHaveAttribute('aria-disabled', 'true')
  const item = (sale as {items: {left: number}[]}).items[0] as {left: number}
  item.left = 1
  await expect(status(page)).toContainText('Back in stock', {timeout: 15_000})
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
})

test('limit reached shows the order', async ({page, shop}) => {
  shop.sale('1')
  shop.faults = [{match: /\/paths$/, times: 1, status: 409, code: 'limit_reached', more: {order_sn: '77'}}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('You already have as many as allowed.')
  await expect(page.getByRole('link', {name: 'See order'})).toHaveAttribute('href', '/orders/77')
})

test('pause and resume', async ({page, shop}) => {
  const sale = shop.sale('1', {paused: true}) as {paused: boolean}
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('Paused. It goes on by itself.')
  sale.paused = false
  await expect(status(page)).toContainText('On sale now.', {timeout: 15_000})
})

test('expiry closes the order on the page', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const [sn] = [...shop.orders.keys()]
  shop.close(sn, 'expired')
  await page.reload()
  await expect(status(page)).toContainText('Time to pay is over.')
})

test('script in a title is text', async ({page, shop}) => {
  shop.sale('1', {title: '<img src=x onerror=alert(1)><script>alert(2)</script>'})
  await page.goto('/sales/1')
  await expect(page.getByRole('heading', {level: 1})).toHaveText('<img src=x onerror=alert(1)><script>alert(2)</script>')
})

test('a sold-out SKU leaves the others on sale', async ({page, shop}) => {
  const sku = (sku_id: string, name: string) => ({sku_id, name, price: 100, currency: 'EUR', total: 9, left: 9})
  const sale = shop.sale('1', {items: [sku('11', 'Red'), sku('12', 'Blue')]}) as {items: {left: number}[]}
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  await page.route('**/v1/activities/1', (route) => route.abort()) // the page keeps the sale that it has
  Object.assign(sale.items[0] as object, {left: 0})
  await buy(page).click()
  await expect(status(page)).toContainText('Sold out.')
  await page.getByRole('radio', {name: /Blue/}).check()
  await expect(status(page)).toContainText('On sale now.')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
})

test('the quantity is at most what the limit leaves', async ({page, shop}) => {
  shop.sale('1', {per_user_limit: 3})
  await signIn(page)
  await page.goto('/sales/1')
  await page.getByLabel('Quantity').selectOption('2')
  await buy(page).click()
  await page.getByRole('button', {name: /^Pay /}).click()
  await page.getByRole('button', {name: 'Payment succeeds'}).click()
  await page.getByRole('link', {name: 'Sale 1'}).click()
  await expect(page.getByRole('button', {name: 'Buy again'})).toBeVisible()
  await expect(page.getByLabel('Quantity')).toBeDisabled() // one is left
  await page.getByRole('button', {name: 'Buy again'}).click()
  await expect(status(page)).toContainText('Order created')
})

test('a limit that was reached elsewhere shows the order that reached it', async ({page, shop, browser, address, problems}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await expect(status(page)).toContainText('On sale now.')
  const context = await browser.newContext({baseURL: address})
  const elsewhere = await context.newPage()
  watch(elsewhere, problems)
  await signIn(elsewhere)
  await elsewhere.goto('/sales/1')
  await buy(elsewhere).click()
  await expect(status(elsewhere)).toContainText('Order created')
  await context.close()
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
})

test('a purchase that is no longer found is asked for by its path', async ({page, shop}) => {
  shop.sale('1')
  shop.streams = false
  shop.createAfterMs = Infinity
  shop.faults = [{match: /\/reservations\/\d+$/, times: 1, status: 404, code: 'not_found'}]
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect.poll(() => shop.count('POST', /\/reservations$/), {timeout: 15_000}).toBe(2)
  await expect(status(page)).toContainText('Accepted.')
  expect(shop.paths.size).toBe(1)
})

test('a contact that cannot be read is not replaced by an empty one', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  const [sn] = [...shop.orders.keys()]
  shop.contacts.set(sn, {name: 'Li Lei', phone: '+8613812345678'})
  shop.orders.get(sn).contact_given = true
  shop.faults = [{match: /\/contact$/, method: 'GET', times: 1, status: 503, code: 'unavailable'}]
  await page.goto(`/orders/${sn}`)
  await page.getByRole('button', {name: 'Contact'}).click()
  await expect(page.getByRole('alert')).toContainText('No answer right now.')
  await expect(page.getByLabel('Name')).toHaveCount(0)
  await page.getByRole('button', {name: 'Contact'}).click()
  await expect(page.getByLabel('Name')).toHaveValue('Li Lei')
  await page.getByRole('button', {name: 'Save contact'}).click()
  await expect(page.getByText('Contact saved.')).toBeVisible()
  await expect(page.getByRole('button', {name: 'Contact'})).toBeFocused()
})

test('a late list of orders does not replace that of another filter', async ({page, shop}) => {
  shop.sale('1')
  await signIn(page)
  await page.goto('/sales/1')
  await buy(page).click()
  await expect(status(page)).toContainText('Order created')
  let late = () => {}
  await page.route('**/v1/orders?limit=20', async (route) => {
    await new Promise<void>((resolve) => (late = resolve))
    await route.continue()
  })
  await page.goto('/orders')
  await page.getByRole('button', {name: 'Refunded'}).click()
  await expect(page.getByText('No orders here yet.')).toBeVisible()
  const answered = page.waitForResponse('**/v1/orders?limit=20')
  late()
  await (await answered).finished()
  await page.evaluate(() => new Promise(requestAnimationFrame))
  await expect(page.getByText('No orders here yet.')).toBeVisible()
})
