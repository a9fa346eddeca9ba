package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/seal"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/publisher"
	"flashsale.internal/services/order/internal/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

const payWithin = 60 * time.Second

// world is a core on a real store. The test controls its clock, bus, recorder and provider.
type world struct {
	*core.Service
	db       *gorm.DB
	clock    *clock
	bus      *recordingBus
	recorder *recorder
	provider *provider
	sealer   core.Sealer
	sn       int64
}

func newWorld(t testing.TB, db *gorm.DB) *world {
	t.Helper()
	w := &world{
		db: db, clock: &clock{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}, bus: &recordingBus{},
		recorder: &recorder{}, provider: &provider{refunded: map[string]int64{}}, sealer: keys(t, seal.DevelopmentKey),
	}
	w.Service = w.service(t, w.provider)
	return w
}

// service returns a core on the same store, clock and bus, with other providers.
func (w *world) service(t testing.TB, providers ...core.Provider) *core.Service {
	return w.serviceOn(t, store.New(w.db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now)), providers...)
}

func (w *world) serviceOn(t testing.TB, s core.Store, providers ...core.Provider) *core.Service {
	pub := publisher.New(w.bus, telemetry.Discard(t))
	return core.New(s, pub, genes.ByUser{}, w.recorder, providers, w.sealer, core.Options{
		Now: w.clock.Now, RefundFirstRetry: time.Second, RefundTimeout: time.Second,
	})
}

// process returns a core on the same database and bus, in a process whose clock is wrong by offset.
func (w *world) process(t testing.TB, offset time.Duration) *core.Service {
	return w.processOn(t, w.tables(t), offset)
}

// tables returns the tables as a process reads them.
func (w *world) tables(t testing.TB) core.Store {
	return store.New(w.db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now))
}

func (w *world) processOn(t testing.TB, tables core.Store, offset time.Duration) *core.Service {
	now := func() time.Time { return w.clock.Now().Add(offset) }
	return core.New(tables, publisher.New(w.bus, telemetry.Discard(t)), genes.ByUser{},
		w.recorder, []core.Provider{w.provider}, w.sealer, core.Options{
			Now: now, RefundFirstRetry: time.Second, RefundTimeout: time.Second,
		})
}

func keys(t testing.TB, encoded ...string) *seal.Keys {
	t.Helper()
	k, err := seal.NewKeys(encoded)
	require.NoError(t, err)
	return k
}

// orderSN returns a new order_sn of a user.
func (w *world) orderSN(user string) string {
	w.sn++
	return ordersn.SN{Time: w.clock.Now(), Worker: int(w.sn >> 6 & 0xff), Sequence: int(w.sn & 63), Gene: ordersn.Gene(user)}.String()
}

func (w *world) deduction(user string) contract.Deduction {
	return contract.Deduction{
		OrderSN: w.orderSN(user), UserID: user, ActivityID: "7", Currency: "EUR", PayWithinS: int64(payWithin / time.Second),
		Lines: []contract.PricedLine{{SKUID: "11", Qty: 2, Price: 350}, {SKUID: "12", Qty: 1, Price: 99}},
	}
}

// created lands one order.
func (w *world) created(t testing.TB, user string) contract.Deduction {
	t.Helper()
	d := w.deduction(user)
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, nil))
	return d
}

func (w *world) started(t testing.TB, d contract.Deduction, key string) core.StartedPayment {
	t.Helper()
	p, err := w.StartPayment(t.Context(), d.UserID, d.OrderSN, providerName, call(d, key))
	require.NoError(t, err)
	return p
}

func call(d contract.Deduction, key string) core.Call {
	return core.Call{Caller: d.UserID, Method: "POST", Path: "/v1/orders/" + d.OrderSN + "/payments", Key: key, Body: []byte("{}")}
}

const fullAmount = 799 // the amount of a deduction of world.deduction

func success(paymentID string) core.PaymentEvent {
	return core.PaymentEvent{
		Provider: providerName, EventID: "ok-" + paymentID, PaymentID: paymentID, Outcome: core.OutcomeSucceeded, Amount: fullAmount, Currency: "EUR",
	}
}

func failure(paymentID string) core.PaymentEvent {
	e := success(paymentID)
	e.EventID, e.Outcome = "no-"+paymentID, core.OutcomeFailed
	return e
}

func (w *world) succeed(t testing.TB, paymentID string) {
	t.Helper()
	handled, err := w.Callback(t.Context(), success(paymentID))
	require.NoError(t, err)
	require.Equal(t, core.EventApplied, handled)
}

// refundOf returns the pending refund of a payment that succeeded after its order was cancelled.
func (w *world) refundOf(t testing.TB, user string) core.Refund {
	t.Helper()
	d := w.created(t, user)
	p := w.started(t, d, "k")
	_, err := w.Cancel(t.Context(), user, d.OrderSN)
	require.NoError(t, err)
	w.succeed(t, p.PaymentID)
	return w.get(t, d).Refunds[0]
}

// refund returns the stored refund.
func (w *world) refund(t testing.TB, r core.Refund) core.Refund {
	t.Helper()
	o, found, err := store.New(w.db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now)).Order(t.Context(), r.OrderSN)
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, o.Refunds, 1)
	return o.Refunds[0]
}

func (w *world) state(t testing.TB, d contract.Deduction) core.State {
	t.Helper()
	return w.get(t, d).State
}

func (w *world) get(t testing.TB, d contract.Deduction) core.Order {
	t.Helper()
	o, err := w.Order(t.Context(), d.UserID, d.OrderSN)
	require.NoError(t, err)
	return o
}

func (w *world) close(t testing.TB, reason string, sns ...string) []core.CloseResult {
	t.Helper()
	r, err := w.CloseOrders(t.Context(), sns, reason)
	require.NoError(t, err)
	return r
}

// outbox returns the order events that are not yet published.
func (w *world) outbox(t helper) []contract.OrderEvent {
	t.Helper()
	return inOutbox[contract.OrderEvent](t, w, contract.TopicOrderEvents)
}

func inOutbox[T contract.Item](t helper, w *world, topic string) (all []T) {
	t.Helper()
	var items []string
	require.NoError(t, w.db.Table("outbox").Where("topic = ?", topic).Order("id").Pluck("item", &items).Error)
	for _, it := range items {
		good, bad := contract.Decode[T]([]byte(`{"v":1,"items":[` + it + `]}`))
		require.Empty(t, bad)
		all = append(all, good...)
	}
	return all
}

func (w *world) payments(t helper, orderSN string) (list []payment) {
	t.Helper()
	require.NoError(t, w.db.Table("payments").Where("order_sn = ?", orderSN).Order("payment_id").Find(&list).Error)
	return list
}

func (w *world) refunds(t helper, orderSN string) (list []refund) {
	t.Helper()
	require.NoError(t, w.db.Table("refunds").Where("order_sn = ?", orderSN).Find(&list).Error)
	return list
}

type payment struct {
	PaymentID  string
	State      core.PaymentState
	Amount     int64
	PaidAmount int64
}

type refund struct {
	PaymentID string
	State     core.RefundState
	Amount    int64
	Reason    string
	Attempts  int
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var errBroker = errors.New("no broker")

// recordingBus keeps published messages and fails those for which fail returns true.
type recordingBus struct {
	mu       sync.Mutex
	messages []bus.Message
	fail     func(bus.Message) bool
}

func (b *recordingBus) Publish(_ context.Context, m bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil && b.fail(m) {
		return errBroker
	}
	b.messages = append(b.messages, m)
	return nil
}

// take returns the messages of a topic and discards the messages of all topics.
func (b *recordingBus) take(topic string) []bus.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []bus.Message
	for _, m := range b.messages {
		if m.Topic == topic {
			found = append(found, m)
		}
	}
	b.messages = nil
	return found
}

func items[T contract.Item](t testing.TB, messages []bus.Message) []T {
	t.Helper()
	var all []T
	for _, m := range messages {
		good, bad := contract.Decode[T](m.Body)
		require.Empty(t, bad)
		require.LessOrEqual(t, len(good), contract.MaxItems)
		all = append(all, good...)
	}
	return all
}

func (b *recordingBus) all(topic string) []bus.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []bus.Message
	for _, m := range b.messages {
		if m.Topic == topic {
			found = append(found, m)
		}
	}
	return found
}

// recorder is a core.Recorder that keeps what the tests check.
type recorder struct {
	mu      sync.Mutex
	kinds   []string
	created int
	lags    []time.Duration
	late    []time.Duration
	closed  map[string]int
	resent  int
}

func (r *recorder) Created(_ context.Context, n int, lags []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created += n
	r.lags = append(r.lags, lags...)
}
func (r *recorder) Paid(context.Context) {}
func (r *recorder) Closed(_ context.Context, reason string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = map[string]int{}
	}
	r.closed[reason] += n
}

func (r *recorder) Lateness(_ context.Context, d time.Duration) {
	r.mu.Lock()
	r.late = append(r.late, d)
	r.mu.Unlock()
}
func (r *recorder) Refund(context.Context, core.RefundState) {}
func (r *recorder) ClosingsResent(_ context.Context, n int) {
	r.mu.Lock()
	r.resent += n
	r.mu.Unlock()
}

func (r *recorder) ContactsDeleted(context.Context, int) {}

func (r *recorder) Incident(_ context.Context, kind, _ string, _ ...any) {
	r.mu.Lock()
	r.kinds = append(r.kinds, kind)
	r.mu.Unlock()
}

func (r *recorder) count(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, k := range r.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

const providerName = "testpay"

// provider makes every refund, unless the test sets fail or late.
type provider struct {
	mu       sync.Mutex
	refunded map[string]int64 // by refund id
	calls    int
	fail     func(refundID string) error // its error prevents the refund
	late     func(refundID string) error // its error loses the response of a refund that was made

	begun     []begun
	begin     func(p core.Payment) error // its error is that of Begin
	reference string                     // of each payment
	cancelled []core.Payment
	cancel    func(p core.Payment) error // its error is that of Cancel

	lookups     int
	unreachable error // of FindRefund

	charges []core.Charge         // oldest first
	made    []core.ProviderRefund // oldest first, as refunded
	broken  func(page int) error  // of Charges
	pages   int
	stuck   bool // the list of charges repeats its second page without end
}

type begun struct {
	core.Payment
	deadline time.Time
}

func (*provider) Name() string { return providerName }

func (p *provider) Begin(_ context.Context, pay core.Payment, deadline time.Time) (core.Begun, error) {
	p.mu.Lock()
	p.begun = append(p.begun, begun{pay, deadline})
	p.mu.Unlock()
	if p.begin != nil {
		if err := p.begin(pay); err != nil {
			return core.Begun{}, err
		}
	}
	return core.Begun{PayURL: "/pay/" + pay.PaymentID, Reference: p.reference}, nil
}

func (p *provider) Cancel(_ context.Context, pay core.Payment) error {
	p.mu.Lock()
	p.cancelled = append(p.cancelled, pay)
	p.mu.Unlock()
	if p.cancel != nil {
		return p.cancel(pay)
	}
	return nil
}

func (p *provider) FindRefund(_ context.Context, pay core.Payment) (core.ProviderRefund, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookups++
	amount, found := p.refunded[pay.PaymentID]
	return core.ProviderRefund{Amount: amount, Currency: "EUR"}, found, p.unreachable
}

// charge takes the money of a payment without a callback.
func (p *provider) charge(c core.Charge) core.Charge {
	p.charges = append(p.charges, c)
	return c
}

// giveBack refunds a payment without any request.
func (p *provider) giveBack(c core.Charge) {
	p.made = append(p.made, core.ProviderRefund{RefundID: c.PaymentID, Amount: c.Amount, Currency: c.Currency, At: c.At})
	p.refunded[c.PaymentID] = c.Amount
}

func (p *provider) FindCharge(_ context.Context, pay core.Payment) (core.Charge, bool, error) {
	id := pay.PaymentID
	for _, c := range p.charges {
		if c.PaymentID == id {
			return c, true, nil
		}
	}
	return core.Charge{}, false, nil
}

func (p *provider) Charges(_ context.Context, since time.Time, cursor string, limit int) ([]core.Charge, string, error) {
	p.pages++
	if p.broken != nil {
		if err := p.broken(p.pages); err != nil {
			return nil, "", err
		}
	}
	if p.stuck && cursor != "" {
		page, _, err := pageOf(p.charges, func(core.Charge) bool { return true }, cursor, limit)
		return page, cursor, err
	}
	return pageOf(p.charges, func(c core.Charge) bool { return !c.At.Before(since) }, cursor, limit)
}

func (p *provider) Refunds(
	_ context.Context, since time.Time, cursor string, limit int,
) ([]core.ProviderRefund, string, error) {
	return pageOf(p.made, func(r core.ProviderRefund) bool { return !r.At.Before(since) }, cursor, limit)
}

func pageOf[T any](all []T, wanted func(T) bool, cursor string, limit int) (page []T, next string, err error) {
	first, _ := strconv.Atoi(cursor)
	for i := first; i < len(all); i++ {
		if len(page) == limit {
			return page, strconv.Itoa(i), nil
		}
		if wanted(all[i]) {
			page = append(page, all[i])
		}
	}
	return page, "", nil
}

func (*provider) Parse(context.Context, http.Header, []byte) ([]core.PaymentEvent, error) {
	return nil, nil
}

func (p *provider) Refund(_ context.Context, pay core.Payment) error {
	id, amount := pay.PaymentID, pay.PaidAmount
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.fail != nil {
		if err := p.fail(id); err != nil {
			return err
		}
	}
	if before, known := p.refunded[id]; known && before != amount {
		return fmt.Errorf("%w: another amount", core.ErrRefundDeclined)
	}
	p.refunded[id] = amount
	if p.late != nil {
		return p.late(id)
	}
	return nil
}

// helper is a test, or one run of a property.
type helper interface {
	require.TestingT
	Helper()
}
