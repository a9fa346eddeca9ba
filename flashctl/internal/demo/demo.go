package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

// run is one demo under way.
type run struct {
	plan     Plan
	client   *client.Client
	merchant *client.Caller
	table    *Table
	progress io.Writer

	buyers     []purchase.Buyer
	activityID string
	lines      []contract.Line
}

// ErrWrong says that the table has a row that is not as it had to be.
var ErrWrong = errors.New("the sale did not go as it had to")

// Run plays the sale. Progress is for people; the table is complete up to where an error ended it.
func Run(ctx context.Context, c *client.Client, plan Plan, progress io.Writer) (*Table, error) {
	r := &run{plan: plan, client: c, progress: progress, table: &Table{began: time.Now()}}
	err := r.play(ctx)
	if err == nil && r.table.Wrong() > 0 {
		err = ErrWrong
	}
	return r.table, err
}

func (r *run) play(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return fmt.Errorf("open the sale: %w", err)
	}
	winners, losers, err := r.firstWave(ctx)
	if err := r.sofar("first wave", err); err != nil {
		return err
	}
	if err := r.sofar("payments", r.payHalf(ctx, winners)); err != nil {
		return err
	}
	if err := r.sofar("closing", r.letExpire(ctx, winners)); err != nil {
		return err
	}
	if err := r.sofar("second wave", r.secondWave(ctx, losers)); err != nil {
		return err
	}
	return r.end(ctx)
}

// sofar ends the demo after a step that failed or got a figure wrong: what follows would only repeat it.
func (r *run) sofar(step string, err error) error {
	if err == nil && r.table.Wrong() > 0 {
		err = ErrWrong
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// open makes the sale, the crowd and their tokens.
func (r *run) open(ctx context.Context) error {
	r.say("opening a sale of %d pieces on %s", r.plan.Pieces, r.client.Origins())
	token, err := r.client.Token(ctx, "demo-merchant", auth.Merchant)
	if err != nil {
		return err
	}
	r.merchant = r.client.As(token)
	if r.buyers, err = purchase.NewBuyers(ctx, r.client, r.plan.Buyers); err != nil {
		return err
	}
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
		Items:        []client.Item{{SKUID: sku, Price: 49900, Stock: int64(r.plan.Pieces)}},
	})
	if err != nil {
		return err
	}
	if err := r.merchant.Change(ctx, r.activityID, "publish"); err != nil {
		return err
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
}

// rush lets all of them press the button and returns who was accepted and who was told that it is sold out.
func (r *run) rush(ctx context.Context, buyers []purchase.Buyer) (won []*winner, lost []purchase.Buyer, err error) {
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
		r.say("neither accepted nor sold out, for one: %v", other)
	}
	return won, lost, nil
}

func (r *run) firstWave(ctx context.Context) ([]*winner, []purchase.Buyer, error) {
	r.say("%d buyers press the button", r.plan.Buyers)
	winners, losers, err := r.rush(ctx, r.buyers)
	if err != nil {
		return nil, nil, err
	}
	r.table.headline(fmt.Sprintf("%d buyers pressed the button", r.plan.Buyers))
	r.table.count("accepted", int64(r.plan.Pieces), int64(len(winners)))
	r.table.count("told sold out", int64(r.plan.Buyers-r.plan.Pieces), int64(len(losers)))
	if err := r.orders(ctx, winners); err != nil {
		return nil, nil, err
	}
	stock, err := r.settled(ctx, 0, int64(r.plan.Pieces), 0)
	if err != nil {
		return nil, nil, err
	}
	r.stockRows(stock, 0, int64(r.plan.Pieces), 0)
	return winners, losers, nil
}

// orders waits until each accepted purchase is an order.
func (r *run) orders(ctx context.Context, winners []*winner) error {
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
	r.say("%d of them pay", r.plan.Paying())
	paid, err := r.pay(ctx, winners[:min(r.plan.Paying(), len(winners))])
	if err != nil {
		return err
	}
	r.table.headline("half of the winners paid")
	r.table.count("orders paid", int64(r.plan.Paying()), int64(paid))
	return nil
}

// pay lets them pay and waits until order and result both say so.
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

// letExpire waits for the deadline of those who did not pay and checks that each order was closed on time.
func (r *run) letExpire(ctx context.Context, winners []*winner) error {
	idle := winners[min(r.plan.Paying(), len(winners)):]
	last := time.Now()
	for _, w := range idle {
		if w.order.ExpiresAt.After(last) {
			last = w.order.ExpiresAt
		}
	}
	r.say("%d let their order expire, in %s", len(idle), time.Until(last).Round(time.Second))
	ctx, cancel := context.WithDeadline(ctx, last.Add(r.plan.LateAtMost+90*time.Second))
	defer cancel()
	err := purchase.Each(ctx, 32, len(idle), func(ctx context.Context, i int) error {
		w := idle[i]
		// closed_at tells when it was; until it has to be, nobody's questions hold it up.
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
	for i, w := range idle {
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
	r.table.count("orders closed, reason expired", int64(r.plan.Expiring()), int64(closed))
	r.table.fact("closed before the deadline", "never", lateness(earliest), earliest >= 0)
	r.table.fact("closed after the deadline", "at most "+r.plan.LateAtMost.String(), lateness(latest), latest <= r.plan.LateAtMost)
	back, sold := int64(r.plan.Expiring()), int64(r.plan.Paying())
	stock, err := r.settled(ctx, back, 0, sold)
	if err != nil {
		return err
	}
	r.table.headline("their pieces are back")
	r.stockRows(stock, back, 0, sold)
	return nil
}

func lateness(d time.Duration) string {
	if d < 0 {
		return strconv.FormatInt(-d.Milliseconds(), 10) + " ms early"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + " ms after it"
}

func (r *run) secondWave(ctx context.Context, losers []purchase.Buyer) error {
	back := r.plan.Expiring()
	r.say("the %d who got nothing try again", len(losers))
	winners, rest, err := r.rush(ctx, losers)
	if err != nil {
		return err
	}
	r.table.headline("those who got nothing pressed the button again")
	r.table.count("accepted", int64(back), int64(len(winners)))
	r.table.count("told sold out", int64(len(losers)-back), int64(len(rest)))
	if err := r.orders(ctx, winners); err != nil {
		return err
	}
	paid, err := r.pay(ctx, winners)
	if err != nil {
		return err
	}
	r.table.count("orders paid", int64(back), int64(paid))
	return nil
}

// end looks at the whole once more and ends the sale.
func (r *run) end(ctx context.Context) error {
	stock, err := r.settled(ctx, 0, 0, int64(r.plan.Pieces))
	if err != nil {
		return err
	}
	r.table.headline("everything is sold")
	r.stockRows(stock, 0, 0, int64(r.plan.Pieces))
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
	r.table.count("ledger: sold", int64(r.plan.Pieces), states["sold"])
	r.table.count("ledger: released", int64(r.plan.Expiring()), states["released"])
	r.table.count("ledger: reserved or rejected", 0, states["reserved"]+states["rejected"])
	r.table.count("buyers with more than one purchase", 0, twice)
	return r.merchant.Change(ctx, r.activityID, "end")
}

// settled waits until the stock view is as it has to be, or its time is over: then the rows of the table show what differs.
func (r *run) settled(ctx context.Context, available, reserved, sold int64) (client.SKUStock, error) {
	ctx, cancel := context.WithTimeout(ctx, r.plan.SettleWithin)
	defer cancel()
	var seen client.SKUStock
	_, err := purchase.Await(ctx, func(ctx context.Context) (client.SKUStock, error) {
		view, err := r.merchant.Stock(ctx, r.activityID)
		if err != nil {
			return client.SKUStock{}, err
		}
		if len(view.SKUs) != 1 {
			return client.SKUStock{}, fmt.Errorf("the sale has one SKU and the stock view shows %d", len(view.SKUs))
		}
		seen = view.SKUs[0]
		return seen, nil
	}, func(s client.SKUStock) bool {
		return s.MySQL.Available == available && s.MySQL.Reserved == reserved && s.MySQL.Sold == sold &&
			s.Gate.Left == available && s.Gate.Held == reserved && s.Journal == 0 && s.InFlight == 0 && s.Difference == 0
	})
	if errors.Is(err, purchase.ErrNotReached) && seen.SKUID != "" {
		err = nil
	}
	return seen, err
}

func (r *run) stockRows(s client.SKUStock, available, reserved, sold int64) {
	r.table.fact("pieces in the database: available, reserved, sold",
		triple(available, reserved, sold), triple(s.MySQL.Available, s.MySQL.Reserved, s.MySQL.Sold),
		s.MySQL.Available == available && s.MySQL.Reserved == reserved && s.MySQL.Sold == sold)
	r.table.fact("pieces in the gate: left, held",
		fmt.Sprintf("%d, %d", available, reserved), fmt.Sprintf("%d, %d", s.Gate.Left, s.Gate.Held),
		s.Gate.Left == available && s.Gate.Held == reserved)
	r.table.count("difference, journal and in flight", 0, abs(s.Difference)+s.Journal+s.InFlight)
}

func triple(a, b, c int64) string { return fmt.Sprintf("%d, %d, %d", a, b, c) }

func abs(n int64) int64 { return max(n, -n) }

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.progress, "%6.1fs  %s\n", time.Since(r.table.began).Seconds(), fmt.Sprintf(format, args...))
}
