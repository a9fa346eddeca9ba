package trouble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// TestSaleWithoutABroker sells 5,000 units with a pay window of a minute while the broker is down for three minutes.
func TestSaleWithoutABroker(t *testing.T) {
	runBrokerless(t, brokerlessPlan{
		Buyers: 5_000, PerSecond: 20, PayWithin: time.Minute, Before: 20 * time.Second, Down: 3 * time.Minute,
		Deadline: 20 * time.Minute, OrdersWithin: 2 * time.Second, ClosedWithin: 10 * time.Second, PortOffset: 2500,
	})
}

// brokerlessPlan is a sale during which the broker is killed and restarted. One buyer in two pays; the orders of the others
// expire.
type brokerlessPlan struct {
	Buyers, PerSecond int
	PayWithin         time.Duration
	Before, Down      time.Duration // the first arrival until the kill; the kill until the restart
	Deadline          time.Duration
	// OrdersWithin bounds the time from the switch of seckill to the first order, ClosedWithin the lateness of closings
	// without a broker: a sweep every 5 s, from 1 s after the deadline on.
	OrdersWithin, ClosedWithin time.Duration
	PortOffset                 int // of the dependencies; different from that of every other set that runs
}

// resumesWithin bounds the time from the return of the broker until messages go to it again: a probe each second, and
// the client library's reconnection. It is generous, for slow machines.
const resumesWithin = 30 * time.Second

// runBrokerless runs the plan. All settings are the defaults, so messages are calls when publishing has failed for 10
// s.
func runBrokerless(t *testing.T, plan brokerlessPlan) {
	t.Helper()
	dependencies := rig.OwnDependencies(t, plan.PortOffset)
	r := rig.New(t, dependencies.Option())
	dependencies.Prepare(t, r)
	r.Up(t)
	ctx, cancel := context.WithTimeout(context.Background(), plan.Deadline)
	defer cancel()
	r.UsePatientClient(t)
	sale := shop.Open(t, r, shop.Sale{Stock: int64(plan.Buyers), PayWithinS: int64(plan.PayWithin / time.Second)})
	buyers := &shop.Buyers{
		Sale: sale, Client: r.Client, Count: plan.Buyers, PerSecond: plan.PerSecond,
		Rand: rand.New(rand.NewPCG(20, 1)),
	}
	_, ended := buyers.Start(ctx)
	require.NoError(t, shop.Until(ctx, time.Now().Add(plan.Before)))

	killed := time.Now()
	dependencies.Do(t, "kill", "broker")
	require.NoError(t, shop.Poll(ctx, func() (bool, error) { return isBrokerless(ctx, r.Seckill) }))
	switched := time.Now()
	orders := sale.CountOrders(t, r)
	require.NoError(t, shop.Poll(ctx, func() (bool, error) { return sale.CountOrders(t, r) > orders, nil }))
	first := time.Since(switched)
	t.Logf("messages are calls %s after the kill; the first order follows %s later",
		switched.Sub(killed).Round(time.Millisecond), first.Round(time.Millisecond))
	assert.LessOrEqual(t, first, plan.OrdersWithin, "from the switch to the first order")

	require.NoError(t, shop.Until(ctx, switched.Add(repeatedWithin+longestPoll)))
	require.Zero(t, buyers.UnlandedSince(time.Time{}, killed), "purchases accepted before the kill have no order")

	require.NoError(t, shop.Until(ctx, killed.Add(plan.Down)))
	before := time.Now().Add(-plan.ClosedWithin - longestPoll)
	require.Zero(t, buyers.UnlandedSince(time.Time{}, before), "purchases accepted without a broker are queued")
	require.Zero(t, buyers.Overdue(before), "orders are overdue without a broker")
	paid, closed := buyers.Ended(switched)
	t.Logf("%d orders paid and %d closed without a broker", paid, closed)
	require.Positive(t, paid)
	require.Positive(t, closed)
	for _, topic := range []string{contract.TopicReservations, contract.TopicDeductions, contract.TopicOrderEvents} {
		require.Positive(t, published(ctx, t, r, topic, "brokerless"), topic)
	}
	unsent := published(ctx, t, r, contract.TopicOrderClose, "none")
	require.Positive(t, unsent, "delayed closings count as sent")

	returns := time.Now()
	dependencies.Do(t, "up", "broker")
	available := time.Now()
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		brokerless, err := isBrokerless(ctx, r.Seckill)
		return err == nil && !brokerless, err
	}))
	t.Logf("the broker starts in %s; messages go to it %s later", available.Sub(returns).Round(time.Millisecond),
		time.Since(available).Round(time.Millisecond))
	assert.LessOrEqual(t, time.Since(available), resumesWithin)

	require.NoError(t, ended(), "error of a buyer")
	late := buyers.Lateness(switched.Add(plan.ClosedWithin), time.Now())
	t.Logf("closed after the deadline, from the switch on: at most %s", late.Round(time.Millisecond))
	assert.LessOrEqual(t, late, plan.ClosedWithin)
	buyers.Check(t, r)
	shop.NoDeadLetters(t, r)
	for _, p := range r.Processes() {
		shop.NoIncidents(t, p)
	}
}

// repeatedWithin bounds the time from the switch of seckill until each purchase whose message the broker died with has
// its order: it is repeated when it is 10 s old.
const repeatedWithin = 20 * time.Second

// longestPoll is the longest pause between two readings of a result by its buyer.
const longestPoll = 3 * time.Second

// isBrokerless reports whether the process is brokerless.
func isBrokerless(ctx context.Context, p *rig.Process) (bool, error) {
	lines, err := metrics(ctx, p)
	for _, line := range lines {
		if value, is := strings.CutPrefix(line, `flashsale_breaker{flashsale_dependency="rocketmq"} `); is {
			return value != "0", nil
		}
	}
	if err == nil {
		err = errors.New("no metric of the breaker before the broker")
	}
	return false, fmt.Errorf("%s: %w", p.Name, err)
}

// published returns how many messages of the topic went by that transport, over all processes.
func published(ctx context.Context, t *testing.T, r *rig.Rig, topic, transport string) (n float64) {
	t.Helper()
	for _, p := range r.Processes() {
		lines, err := metrics(ctx, p)
		require.NoError(t, err)
		for _, line := range lines {
			if strings.HasPrefix(line, "flashsale_bus_published_total{") &&
				strings.Contains(line, `flashsale_transport="`+transport+`"`) &&
				strings.Contains(line, `messaging_destination_name="`+topic+`"`) {
				value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
				require.NoError(t, err)
				n += value
			}
		}
	}
	return n
}

func metrics(ctx context.Context, p *rig.Process) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return strings.Split(string(body), "\n"), err
}
