package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

// run is the sale of one merchant in progress.
type run struct {
	plan     Plan
	sale     Sale
	client   *client.Client
	merchant *client.Caller
	table    *table
	progress *progress
	buyers   []purchase.Buyer

	activityID string
	lines      []contract.Line
	paid       []*winner
}

// ErrWrong is returned by Run if a row of the table is not as expected.
var ErrWrong = errors.New("a value is not as expected")

// Run runs the sales and writes their progress as text. After an error the report holds the rows up to the failed step.
func Run(ctx context.Context, c *client.Client, plan Plan, out io.Writer) (_ *Report, err error) {
	border := &table{title: "the merchants", began: time.Now()}
	report := &Report{}
	// The buyers are created in one call, because users of two calls might be the same.
	buyers, err := purchase.NewBuyers(ctx, c, plan.Sales[0].Buyers+plan.Sales[1].Buyers)
	if err != nil {
		return report, err
	}
	var runs [2]*run
	p := &progress{out: out, began: border.began}
	for i, sale := range plan.Sales {
		runs[i] = &run{
			plan: plan, sale: sale, client: c, progress: p, buyers: buyers[:sale.Buyers],
			table: &table{title: "merchant " + sale.Merchant, began: border.began},
		}
		buyers = buyers[sale.Buyers:]
		report.tables = append(report.tables, runs[i].table)
	}
	report.tables = append(report.tables, border)
	defer func() { err = errors.Join(err, both(runs, func(r *run) error { return r.end(ctx) })) }()
	if err := both(runs, func(r *run) error { return r.runSteps(ctx) }); err != nil {
		return report, err
	}
	if err := checkBorder(ctx, border, runs); err != nil {
		return report, fmt.Errorf("border between the merchants: %w", err)
	}
	if report.Wrong() > 0 {
		return report, ErrWrong
	}
	return report, nil
}

// end ends the sale, if it was created, also after an error or interrupt: sales that have not ended count for the quota
// of their merchant.
func (r *run) end(ctx context.Context) error {
	if r.activityID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.merchant.Change(ctx, r.activityID, "end"); err != nil {
		return fmt.Errorf("end the sale: %w", err)
	}
	return nil
}

// both calls do for the two sales at the same time.
func both(runs [2]*run, do func(r *run) error) error {
	var errs [2]error
	var work sync.WaitGroup
	for i, r := range runs {
		work.Go(func() {
			if err := do(r); err != nil {
				errs[i] = fmt.Errorf("merchant %s: %w", r.sale.Merchant, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs[:]...)
}

func (r *run) runSteps(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return fmt.Errorf("open the sale: %w", err)
	}
	winners, losers, err := r.firstWave(ctx)
	if err := r.checked("first wave", err); err != nil {
		return err
	}
	if err := r.checked("payments", r.payHalf(ctx, winners)); err != nil {
		return err
	}
	if err := r.checked("closing", r.letExpire(ctx, winners)); err != nil {
		return err
	}
	if err := r.checked("second wave", r.secondWave(ctx, losers)); err != nil {
		return err
	}
	return r.checkEnd(ctx)
}

// checked returns an error after a step that failed or added a wrong row: the later steps would only repeat it.
func (r *run) checked(step string, err error) error {
	if err == nil && r.table.wrong() > 0 {
		err = ErrWrong
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// open creates and publishes the sale.
func (r *run) open(ctx context.Context) error {
	r.logf("opening a sale of %d units on %s", r.sale.Units, r.client.Origins())
	token, err := r.client.TokenFor(ctx, auth.Identity{
		UserID: "demo-merchant", Roles: []auth.Role{auth.Merchant}, MerchantID: r.sale.Merchant,
	})
	if err != nil {
		return err
	}
	r.merchant = r.client.As(token)
	sku, err := r.merchant.NewProduct(ctx, client.Product{Name: "Demo phone", ListPrice: 99900, Currency: "EUR"})
	if err != nil {
		return err
	}
	now := time.Now()
	r.activityID, err = r.merchant.NewActivity(ctx, client.Draft{
		Title:        "Demo sale",
		StartsAt:     now,
		EndsAt:       now.Add(time.Hour),
		PerUserLimit: 1,
		PayWithinS:   int64(r.plan.PayWithin / time.Second),
		Items:        []client.Item{{SKUID: sku, Price: 49900, Stock: int64(r.sale.Units)}},
	})
	if err != nil {
		return err
	}
	if err := r.merchant.Change(ctx, r.activityID, "publish"); err != nil {
		return err
	}
	if o := r.client.Origins(); o == client.Single(o.Seckill) {
		r.logf("its board: %s/console, sign in with the role merchant for merchant %s", o.Seckill, r.sale.Merchant)
	}
	r.lines = []contract.Line{{SKUID: sku, Qty: 1}}
	r.table.headline("the sale is open, activity " + r.activityID)
	return nil
}

// winner is a buyer who was accepted.
type winner struct {
	purchase.Buyer
	orderSN string
	order   client.Order
	contact client.Contact // as it was stored
}

// buyAll makes one attempt to buy for each buyer. It returns the accepted buyers, and those refused as sold out.
func (r *run) buyAll(ctx context.Context, buyers []purchase.Buyer) (won []*winner, lost []purchase.Buyer, err error) {
	attempts := make([]purchase.Attempt, len(buyers))
	err = purchase.Each(ctx, r.plan.Width, len(buyers), func(ctx context.Context, i int) error {
		attempts[i] = purchase.Buy(ctx, buyers[i].Caller, buyers[i].UserID, r.activityID, r.lines)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	var other error
	for i, a := range attempts {
		switch a.Outcome {
		case purchase.Accepted:
			won = append(won, &winner{Buyer: buyers[i], orderSN: a.OrderSN})
		case purchase.SoldOut:
			lost = append(lost, buyers[i])
		default:
			other = fmt.Errorf("%s: %s: %w", a.UserID, a.Outcome, a.Err)
		}
	}
	if other != nil {
		r.logf("unexpected outcome, for example: %v", other)
	}
	return won, lost, nil
}

func (r *run) firstWave(ctx context.Context) ([]*winner, []purchase.Buyer, error) {
	r.logf("%d buyers buy", r.sale.Buyers)
	winners, losers, err := r.buyAll(ctx, r.buyers)
	if err != nil {
		return nil, nil, err
	}
	r.table.headline(fmt.Sprintf("%d buyers have bought", r.sale.Buyers))
	r.table.count("accepted", int64(r.sale.Units), int64(len(winners)))
	r.table.count("refused as sold out", int64(r.sale.Buyers-r.sale.Units), int64(len(losers)))
	if err := r.awaitOrders(ctx, winners); err != nil {
		return nil, nil, err
	}
	stock, err := r.settled(ctx, 0, int64(r.sale.Units), 0)
	if err != nil {
		return nil, nil, err
	}
	r.stockRows(stock, 0, int64(r.sale.Units), 0)
	return winners, losers, nil
}

// awaitOrders waits until each accepted purchase is an order.
func (r *run) awaitOrders(ctx context.Context, winners []*winner) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	distinct := map[string]bool{}
	err := purchase.Each(ctx, 32, len(winners), func(ctx context.Context, i int) error {
		w := winners[i]
		reservation, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return w.Reservation(ctx, r.activityID, w.orderSN)
		}, func(v client.Reservation) bool { return v.Status != client.Queued })
		if err != nil {
			return fmt.Errorf("order %s: %w", w.orderSN, err)
		}
		if reservation.Status == client.Failed {
			return fmt.Errorf("order %s failed: %s", w.orderSN, reservation.Reason)
		}
		w.order, err = w.Order(ctx, w.orderSN)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range winners {
		if w.order.UserID == w.UserID && w.order.ActivityID == r.activityID {
			distinct[w.order.OrderSN] = true
		}
	}
	r.table.count("orders, one for each accepted buyer", int64(len(winners)), int64(len(distinct)))
	return nil
}

func (r *run) payHalf(ctx context.Context, winners []*winner) error {
	r.logf("%d of them pay", r.sale.Paying())
	paid, err := r.pay(ctx, winners[:min(r.sale.Paying(), len(winners))])
	if err != nil {
		return err
	}
	r.table.headline("half of the winners paid")
	r.table.count("orders paid", int64(r.sale.Paying()), int64(paid))
	r.paid = append(r.paid, winners[:min(r.sale.Paying(), len(winners))]...)
	return r.giveContacts(ctx)
}

// pay pays these orders and waits until both the order and the status of the purchase are paid.
func (r *run) pay(ctx context.Context, winners []*winner) (paid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	err = purchase.Each(ctx, 32, len(winners), func(ctx context.Context, i int) error {
		w := winners[i]
		if err := purchase.Pay(ctx, w.Caller, w.orderSN); err != nil {
			return err
		}
		order, err := purchase.Await(ctx, func(ctx context.Context) (client.Order, error) {
			return w.Order(ctx, w.orderSN)
		}, func(o client.Order) bool { return o.State != "pending" })
		if err != nil {
			return fmt.Errorf("order %s: %w", w.orderSN, err)
		}
		w.order = order
		_, err = purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return w.Reservation(ctx, r.activityID, w.orderSN)
		}, func(v client.Reservation) bool { return v.Status == client.Paid })
		if err != nil {
			return fmt.Errorf("result of order %s: %w", w.orderSN, err)
		}
		return nil
	})
	for _, w := range winners {
		if w.order.State == "paid" && !w.order.PaidAt.IsZero() {
			paid++
		}
	}
	return paid, err
}

// letExpire waits for the pay deadlines of the unpaid orders and checks that each was closed on time.
func (r *run) letExpire(ctx context.Context, winners []*winner) error {
	unpaid := winners[min(r.sale.Paying(), len(winners)):]
	last := time.Now()
	for _, w := range unpaid {
		if w.order.ExpiresAt.After(last) {
			last = w.order.ExpiresAt
		}
	}
	r.logf("%d orders expire in %s", len(unpaid), time.Until(last).Round(time.Second))
	ctx, cancel := context.WithDeadline(ctx, last.Add(r.plan.LateAtMost+90*time.Second))
	defer cancel()
	err := purchase.Each(ctx, 32, len(unpaid), func(ctx context.Context, i int) error {
		w := unpaid[i]
		// closed_at holds the time of the closing, so nothing is read before the order must be closed.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(w.order.ExpiresAt.Add(r.plan.LateAtMost))):
		}
		order, err := purchase.Await(ctx, func(ctx context.Context) (client.Order, error) {
			return w.Order(ctx, w.orderSN)
		}, func(o client.Order) bool { return o.State != "pending" })
		if err != nil {
			return fmt.Errorf("order %s: %w", w.orderSN, err)
		}
		w.order = order
		_, err = purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return w.Reservation(ctx, r.activityID, w.orderSN)
		}, func(v client.Reservation) bool { return v.Status == client.Closed })
		if err != nil {
			return fmt.Errorf("result of order %s: %w", w.orderSN, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	closed, earliest, latest := 0, time.Duration(0), time.Duration(0)
	for i, w := range unpaid {
		if w.order.State == "closed" && w.order.CloseReason == "expired" {
			closed++
		}
		late := w.order.ClosedAt.Sub(w.order.ExpiresAt)
		if i == 0 || late < earliest {
			earliest = late
		}
		latest = max(latest, late)
	}
	r.table.headline("the others let their order expire")
	r.table.count("orders closed, reason expired", int64(r.sale.Expiring()), int64(closed))
	r.table.fact("closed before the deadline", "never", lateness(earliest), earliest >= 0)
	r.table.fact("closed after the deadline", "at most "+r.plan.LateAtMost.String(), lateness(latest),
		latest <= r.plan.LateAtMost)
	released, sold := int64(r.sale.Expiring()), int64(r.sale.Paying())
	stock, err := r.settled(ctx, released, 0, sold)
	if err != nil {
		return err
	}
	r.table.headline("their units are released")
	r.stockRows(stock, released, 0, sold)
	return nil
}

func lateness(d time.Duration) string {
	if d < 0 {
		return strconv.FormatInt(-d.Milliseconds(), 10) + " ms early"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + " ms after it"
}

func (r *run) secondWave(ctx context.Context, losers []purchase.Buyer) error {
	units := r.sale.Expiring()
	r.logf("the %d refused buyers buy again", len(losers))
	winners, rest, err := r.buyAll(ctx, losers)
	if err != nil {
		return err
	}
	r.table.headline("the refused buyers have bought again")
	r.table.count("accepted", int64(units), int64(len(winners)))
	r.table.count("refused as sold out", int64(len(losers)-units), int64(len(rest)))
	if err := r.awaitOrders(ctx, winners); err != nil {
		return err
	}
	paid, err := r.pay(ctx, winners)
	if err != nil {
		return err
	}
	r.table.count("orders paid", int64(units), int64(paid))
	r.paid = append(r.paid, winners...)
	return r.giveContacts(ctx)
}

// checkEnd checks stock, ledger and contacts when everything is sold.
func (r *run) checkEnd(ctx context.Context) error {
	stock, err := r.settled(ctx, 0, 0, int64(r.sale.Units))
	if err != nil {
		return err
	}
	r.table.headline("everything is sold")
	r.stockRows(stock, 0, 0, int64(r.sale.Units))
	rows, err := r.merchant.Ledger(ctx, r.activityID)
	if err != nil {
		return err
	}
	states, users, twice := map[string]int64{}, map[string]int{}, int64(0)
	for _, row := range rows {
		states[row.State]++
		if users[row.UserID]++; users[row.UserID] == 2 {
			twice++
		}
	}
	r.table.count("ledger: sold", int64(r.sale.Units), states["sold"])
	r.table.count("ledger: released", int64(r.sale.Expiring()), states["released"])
	r.table.count("ledger: reserved or rejected", 0, states["reserved"]+states["rejected"])
	r.table.count("buyers with more than one purchase", 0, twice)
	r.checkContacts(rows)
	return nil
}

// settled waits until the stock view is as expected, at most for SettleWithin, and returns the last view.
func (r *run) settled(ctx context.Context, available, reserved, sold int64) (client.SKUStock, error) {
	ctx, cancel := context.WithTimeout(ctx, r.plan.SettleWithin)
	defer cancel()
	var last client.SKUStock
	_, err := purchase.Await(ctx, func(ctx context.Context) (client.SKUStock, error) {
		view, err := r.merchant.Stock(ctx, r.activityID)
		if err != nil {
			return client.SKUStock{}, err
		}
		if len(view.SKUs) != 1 {
			return client.SKUStock{}, fmt.Errorf("the sale has one SKU and the stock view shows %d", len(view.SKUs))
		}
		last = view.SKUs[0]
		return last, nil
	}, func(s client.SKUStock) bool {
		return s.MySQL.Available == available && s.MySQL.Reserved == reserved && s.MySQL.Sold == sold &&
			s.Gate.Left == available && s.Gate.Held == reserved && s.Journal == 0 && s.InFlight == 0 &&
			s.Difference == 0
	})
	if errors.Is(err, purchase.ErrNotReached) && last.SKUID != "" {
		err = nil // the rows of the table show the difference
	}
	return last, err
}

func (r *run) stockRows(s client.SKUStock, available, reserved, sold int64) {
	r.table.fact("units in the database: available, reserved, sold",
		triple(available, reserved, sold), triple(s.MySQL.Available, s.MySQL.Reserved, s.MySQL.Sold),
		s.MySQL.Available == available && s.MySQL.Reserved == reserved && s.MySQL.Sold == sold)
	r.table.fact("units in the gate: left, held",
		fmt.Sprintf("%d, %d", available, reserved), fmt.Sprintf("%d, %d", s.Gate.Left, s.Gate.Held),
		s.Gate.Left == available && s.Gate.Held == reserved)
	r.table.count("difference, journal and in flight", 0, abs(s.Difference)+s.Journal+s.InFlight)
}

func triple(a, b, c int64) string { return fmt.Sprintf("%d, %d, %d", a, b, c) }

func abs(n int64) int64 { return max(n, -n) }

func (r *run) logf(format string, args ...any) {
	r.progress.printf("%s: %s", r.sale.Merchant, fmt.Sprintf(format, args...))
}

// progress writes lines of both sales, with the time since the start.
type progress struct {
	began time.Time

	mu  sync.Mutex
	out io.Writer
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}
