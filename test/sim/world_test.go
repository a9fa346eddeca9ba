package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/order"
)

// world is one simulated sale: the services, their dependencies, the callers and the records of the checks.
type world struct {
	seed       uint64
	sale       sale
	plan       *plan
	history    *history
	dir        string
	scripts    map[string]string
	mini       atomic.Pointer[miniredis.Miniredis] // the master
	replica    *replica                            // nil without a failover
	rdb        redis.UniversalClient               // without faults
	gate       *stockgate.Gate                     // on rdb
	broker     *inproc.Bus
	books      map[string]*gorm.DB      // without faults
	writers    map[string]chan struct{} // one for each database
	full       atomic.Bool              // Redis has reached maxmemory
	tight      atomic.Int64             // Redis has reported since then (Unix ns) that little memory is left; 0: it does not
	redisLife  atomic.Int64
	noBroker   atomic.Bool  // the broker is unavailable
	stalled    atomic.Bool  // the broker holds messages of a topic
	brokerLife atomic.Int64 // lives of the broker that have ended
	switched   atomic.Int64 // when the first message was a call without the broker (Unix ns); 0: none was
	noRedis    atomic.Bool  // Redis is unavailable
	running    sync.WaitGroup

	began   time.Time
	selling time.Time   // start of the sale
	begun   atomic.Bool // selling is set; processes run before it

	activities []*activity
	opened     int                   // activities that were created, also those whose publication failed
	starting   chan struct{}         // held while no process of order or inventory may start
	redisTurn  chan struct{}         // one command of a service at a time; guards the next two
	final      map[string]finalEntry // by key of the hash and order_sn
	unbalanced map[string]int64      // by SKU, units that damage added to the total (negative: to what is left)

	mu           sync.Mutex
	ended        bool
	turn         int
	downs        *rand.Rand
	ids          *rand.Rand
	lives        map[string]*process
	failures     []string
	concerned    map[string]bool
	carried      map[string]time.Time // order_sns in readable messages that the broker has, or in the ledger, and since when
	garbled      map[string]bool      // order_sns whose first message became unreadable
	lost         map[string]entryLoss // order_sns whose entries in the gate were lost or damaged
	happened     map[string]bool      // losses and damage in this sale
	spoiled      map[string]time.Time // order_sns of spoiled entries, and when they were repaired; zero for not yet
	purchases    map[string]*purchase
	played       map[string]int64          // payment_id -> amount of a confirmed payment
	lostClosings map[string]bool           // order_sns whose closing order's database lost
	forged       map[string]bool           // order_sns of forged messages
	events       map[string]bool           // order_sn and step of events that order gave to the broker
	issued       map[int][]issue           // order_sns by worker id
	early        map[string]int            // by order_sn, how often order responded to a closing that it is not due
	unheard      map[string]bool           // order_sns that order closed for a caller that had given up
	kept         []bus.Message             // what the broker delivers 25 h later
	confirmed    map[string]bool           // order_sns that a 202 may name, if it waits for the replica
	setBack      map[string]bool           // order_sns of which a restored database lost a commit
	lostOrders   map[string]bool           // those of which order's database did
	started      []*process                // of order and inventory
	over         bool                      // the gates have expired, a day after the sale
	redislessAt  map[string]redislessPhase // by activity, how it became redisless
	decided      map[string]decision       // by activity, the last decision of its merchant
	queues       map[string]*queue         // by activity, its waiting room
	reviewed     map[string]string         // by order_sn, the outcome of its review
	leftReviews  []review                  // whose callers gave up without a response
	shop         *shop                     // nil without an endpoint
	checkout     *checkout                 // the provider
}

// sale holds the parameters of a sale, drawn from the seed.
type sale struct {
	skus         int
	stock        []int64
	limit        int64
	price        int64
	buyers       int
	window       time.Duration
	payWithin    time.Duration
	instances    int
	abandonAfter time.Duration
	journalMax   int
	together     time.Duration            // buyers post at multiples of this, so that purchases form groups; 0: at any time
	losses       []time.Duration          // of the gate, after the start of the sale
	failover     time.Duration            // time of a failover to a replica without the last writes; 0 for none
	behind       time.Duration            // length of time that the replica is cut off before
	alone        bool                     // no inventory process runs during the failover
	garbles      bool                     // some items are unreadable for consumers until `readable`
	loudest      string                   // the topic with the most of them; "" for none
	readable     time.Duration            // time from which garbled messages are readable
	twin         bool                     // the forged message uses an order_sn in the other activity
	forges       time.Duration            // time of a forged message that contradicts the ledger; 0 for none
	damages      []time.Duration          // times at which the gate is damaged
	losesFresh   bool                     // the broker loses confirmed reservations
	losesTimers  bool                     // the broker loses half of the delayed closings
	losesEvents  bool                     // the broker loses many events of orders
	keepsTimers  bool                     // the broker loses no confirmed closing
	hurries      bool                     // half of the delayed closings arrive early
	behaviour    int                      // behaviour of half of the buyers; 0 for a random one each
	compares     bool                     // order compares with the provider every 10 s, and the provider loses successes
	pauses       bool                     // the merchant pauses and resumes the sale
	adjusts      bool                     // the merchant adjusts the stock all the time
	edits        bool                     // the merchant changes the title all the time
	opensLate    bool                     // it opens an hour after the processes have started, so that hourly work falls into it
	greedy       bool                     // buyers use their whole limit when the replica is cut off, and try again after the failover
	other        []int64                  // stock of a second activity with the same buyers; nil for none
	full         time.Duration            // time at which Redis reaches maxmemory; 0 for never
	fullFor      time.Duration            // until memory is freed
	tight        time.Duration            // for how long Redis reports that little is left, before it is full
	waits        bool                     // a 202 waits for the replica
	acquires     bool                     // the failover loses the acquisition of a worker lease
	latecomers   bool                     // the broker delivers messages again 25 h after the sale, some for the first time
	freezes      []freeze                 // processes that are stopped (SIGSTOP) for a while
	clocks       map[string]time.Duration // by process, how far its clock is ahead while faults happen
	brokerAhead  time.Duration            // how much earlier the broker delivers delayed messages (negative: later)
	setback      setback                  // a restore of databases
	brokerless   brokerless               // a time without the broker
	redisless    redisless                // a time without Redis, in a degraded sale
	room         room                     // the waiting room
	challenge    bool                     // buyers compute a proof of work
	reviews      bool                     // the merchant cancels some orders before fulfilment
	webhooks     webhooks                 // the endpoint of the shop
	provider     provider                 // the payment provider, unless it is the sandbox
	losesOrders  bool                     // all events of an order may be lost: inventory checks overdue reservations after seconds
}

func drawSale(seed uint64) sale {
	r := rng(seed, "sale")
	s := sale{
		skus: 1 + r.IntN(2), limit: int64(1 + r.IntN(3)), price: int64(100 + r.IntN(900)), buyers: 4 + r.IntN(9),
		window: time.Duration(3+r.IntN(8)) * time.Second, payWithin: time.Duration(2+r.IntN(6)) * time.Second,
		instances: 1, abandonAfter: 24 * time.Hour, journalMax: 1000,
	}
	for range s.skus {
		s.stock = append(s.stock, int64(1+r.IntN(8)))
	}
	if rng(seed, "together").IntN(4) == 0 {
		s.together = s.window / 2
		s.buyers += 6
		for i := range s.stock {
			s.stock[i] += 6
		}
	}
	if r.IntN(4) == 0 {
		s.instances = 2
	}
	if r.IntN(5) == 0 {
		s.abandonAfter = 7 * time.Second
	}
	if r.IntN(10) == 0 {
		s.journalMax = 2
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(2) {
			s.losses = append(s.losses, time.Duration(r.Int64N(int64(s.window+s.payWithin))))
		}
	}
	if r.IntN(4) == 0 {
		s.failover = time.Second + time.Duration(r.Int64N(int64(s.window)))
		s.behind = time.Duration(1+r.IntN(25)) * 100 * time.Millisecond
		s.alone = r.IntN(3) == 0
		if r.IntN(2) == 0 { // few units: the writes that the replica lacks matter
			for i := range s.stock {
				s.stock[i] = int64(1 + r.IntN(3))
			}
			s.buyers += 6
		} else { // many units: the holdings of buyers that the replica lacks matter
			for i := range s.stock {
				s.stock[i] += 6
			}
			s.greedy, s.failover = true, 2*time.Second+time.Duration(r.Int64N(int64(2*time.Second)))
		}
	}
	length := s.length()
	switch r.IntN(6) {
	case 0:
		s.garbles, s.readable = true, time.Duration(r.Int64N(int64(length*2/3)))
		if r.IntN(2) == 0 {
			s.loudest = loud[r.IntN(len(loud))]
		}
	case 1: // closings replace lost events
		s.losesEvents, s.keepsTimers = true, true
	case 2:
		s.losesTimers = true
	case 3:
		s.losesEvents, s.losesTimers = true, true
	}
	if r.IntN(6) == 0 {
		for range 1 + r.IntN(3) {
			s.damages = append(s.damages, 2*time.Second+time.Duration(r.Int64N(int64(length))))
		}
	}
	if r.IntN(6) == 0 {
		s.forges = 2*time.Second + time.Duration(r.Int64N(int64(length)))
	}
	s.hurries = rng(seed, "hurries").IntN(5) == 0
	s.drawFeatures(seed)
	s.drawRare(seed)
	s.suit(focusOf(seed), r, length)
	if s.garbles { // one kind of dead letter per sale, as the operator decides each kind in its own way
		s.forges = 0
	}
	if s.setback.of != "" {
		s.brokerless, s.provider = brokerless{}, provider{} // an operator brings the sandbox into agreement
		s.addSetback(s.setback.of, s.setback.backup, s.setback.restore)
	}
	if s.garbles || s.forges > 0 { // an operator would have to decide about the same messages once more
		s.latecomers = false
	}
	if s.acquires { // the requests for paths must not wait
		s.room, s.challenge = room{}, false
		s.instances, s.alone, s.behind = 2, false, max(s.behind, 1500*time.Millisecond)
		s.failover, s.window = 2*time.Second, 12*time.Second // both processes may issue before the sale ends
	}
	if s.brokerless.happens() { // closings count as sent, and those of paid orders never follow
		s.keepsTimers = false
	}
	s.fitRedisless()
	s.fitBrokersDeath()
	s.losesOrders = s.garbles || s.losesEvents && !s.keepsTimers
	return s
}

var loud = []string{contract.TopicDeadLetters, contract.TopicDeductions, contract.TopicOrderEvents, contract.TopicOrderClose, contract.TopicReservations}

// suit changes the sale so that calls reach the point.
func (s *sale) suit(point string, r *rand.Rand, length time.Duration) {
	soon := 2*time.Second + time.Duration(r.Int64N(int64(s.window)))
	for _, topic := range loud {
		if point == "broker: garbles "+topic || point == "inventory: bus publish "+topic &&
			topic != contract.TopicDeductions {
			s.garbles, s.readable, s.loudest = true, soon, topic
		}
	}
	switch {
	case s.suitRare(point, soon):
	case point == "inventory: bus deliver dead-letters", point == "order: bus publish dead-letters":
		s.garbles, s.readable, s.loudest = true, soon, contract.TopicDeductions
	case point == "inventory: redis script lookup":
		s.garbles, s.readable, s.loudest = true, length, contract.TopicReservations
	case strings.HasPrefix(point, "operator: "), strings.HasSuffix(point, "dead_letters"):
		s.garbles, s.readable = true, soon
	case strings.HasPrefix(point, "forger: "):
		s.garbles, s.forges = false, soon+time.Second
	case point == "redis: emptied", point == "redis: gate deleted":
		s.losses = append(s.losses, soon)
	case strings.HasPrefix(point, "redis: failover"):
		s.failover, s.behind, s.alone = soon, time.Second, point != "redis: failover"
	case strings.HasPrefix(point, "redis: "):
		s.damages = append(s.damages, soon, soon+time.Second, soon+3*time.Second)
	case slices.Contains(repairing, point): // early enough to be repaired while something may still fail
		s.window, s.payWithin, s.damages = 10*time.Second, 7*time.Second, nil
		for range 6 {
			s.damages = append(s.damages, 3*time.Second+time.Duration(r.Int64N(int64(6*time.Second))))
		}
	case point == "inventory: redis script rejournal", point == "broker: loses seckill-reservations":
		s.losesFresh = true
	case point == "inventory: http POST /internal/v1/orders:refund", point == "order: a closing is lost":
		s.behaviour, s.garbles, s.losesEvents = payAfterLoss, false, false
		s.provider = provider{} // it takes no payment of a closed order
	case point == "inventory: bus publish order-close delayed":
		s.behaviour = beginAndLeave
	case strings.HasSuffix(point, "/pause"), strings.HasSuffix(point, "/resume"):
		s.pauses = true
	case strings.HasPrefix(point, "broker: ") && strings.Contains(point, contract.TopicDeductions):
		s.abandonAfter = 7 * time.Second
	case strings.HasPrefix(point, "provider: ") && point != successLost, slices.Contains(ofProvider, point):
		s.addProvider(r)
		s.compares = s.compares || strings.Contains(point, "GET")
	case strings.HasPrefix(point, "shop: "), strings.Contains(point, "webhooks"), strings.Contains(point, "deliveries"):
		s.addWebhooks(r)
		s.webhooks.replays = soon
		if point == shopAway {
			s.webhooks.from, s.webhooks.lasts = 0, length
		}
	case point == "broker: loses order-close":
		s.losesTimers = true
	case point == "broker: hurries order-close":
		s.hurries = true
	case point == "broker: loses order-events":
		s.losesEvents = true
	}
}

// repairing holds the points that the reconciler reaches only if the gate is wrong.
var repairing = []string{"inventory: redis script correct", "inventory: redis script rebuild_buyer", "inventory: redis script repair"}

// ofProvider holds the calls of order to the provider.
var ofProvider = []string{
	"order: http GET /charges", "order: http GET /payments/*/refund", "order: http GET /refunds", "order: http POST /payments/*/cancel",
	"order: http POST /payments/*/refund",
}

var services = []string{"order", "inventory", "seckill"}

// templates creates migrated databases, which every sale copies.
func templates(ctx context.Context, dir string) error {
	for _, service := range []string{"order", "inventory"} {
		db, err := sqldb.Open("sqlite:"+filepath.Join(dir, service+".db"), sqldb.Options{})
		if err != nil {
			return err
		}
		log := slog.New(slog.DiscardHandler)
		if service == "inventory" {
			err = inventory.Migrate(ctx, db, log)
		} else {
			err = order.Migrate(ctx, db, log)
		}
		if err != nil {
			return err
		}
		if err := sqldb.Close(db); err != nil {
			return err
		}
	}
	return nil
}

// newWorld prepares a sale. It is called inside the synctest bubble, with the databases in dir.
func newWorld(seed uint64, dir string, scripts map[string]string) (*world, error) {
	w := &world{
		seed: seed, sale: drawSale(seed), dir: dir, scripts: scripts, downs: rng(seed, "downs"), ids: rng(seed, "ids"),
		history: &history{seed: seed, began: time.Now()},
		lives:   map[string]*process{}, concerned: map[string]bool{}, carried: map[string]time.Time{}, garbled: map[string]bool{}, purchases: map[string]*purchase{},
		played: map[string]int64{}, lostClosings: map[string]bool{}, forged: map[string]bool{}, lost: map[string]entryLoss{}, issued: map[int][]issue{}, confirmed: map[string]bool{}, early: map[string]int{}, unheard: map[string]bool{}, happened: map[string]bool{}, spoiled: map[string]time.Time{}, events: map[string]bool{}, began: time.Now().Add(warmUp), books: map[string]*gorm.DB{}, writers: map[string]chan struct{}{},
		setBack: map[string]bool{}, redislessAt: map[string]redislessPhase{}, decided: map[string]decision{}, queues: map[string]*queue{}, reviewed: map[string]string{}, lostOrders: map[string]bool{}, starting: make(chan struct{}, 1),
		redisTurn: make(chan struct{}, 1), final: map[string]finalEntry{}, unbalanced: map[string]int64{},
	}
	w.checkout = newCheckout(w)
	w.redisLife.Store(1)
	w.plan = newPlan(seed, warmUp+w.sale.length()-w.sale.brokerless.lasts-w.sale.redisless.lasts)
	w.mini.Store(newRedis(w.full.Load))
	if w.sale.failover > 0 || w.sale.redisless.returns == asOld {
		w.replica = newReplica(w.full.Load)
	}
	w.rdb = w.dialRedis()
	w.gate = stockgate.New(w.rdb, stockgate.Options{})
	w.broker = inproc.New(inproc.Options{RetryMin: 200 * time.Millisecond, RetryMax: 5 * time.Second},
		slog.New(&logs{h: w.history, who: "broker"}))
	for _, service := range []string{"order", "inventory"} {
		db, err := sqldb.Open(w.dsn(service), sqldb.Options{MaxOpen: 2})
		if err != nil {
			return nil, err
		}
		w.books[service], w.writers[service] = db, make(chan struct{}, 1)
	}
	return w, nil
}

// length is for how long faults happen.
func (s *sale) length() time.Duration {
	return s.window + s.payWithin + 9*time.Second + s.brokerless.lasts + s.redisless.lasts
}

// warmUp is the time from the start of the processes to that of the sale: a process issues no order_sn within one lease
// of the acquisition of its worker id.
const warmUp = 5500 * time.Millisecond

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *world) concern(orderSN string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.concerned[orderSN] = true
}

// noteCarried records reservations that the broker has: from then on a loss in Redis may not lose them. Unreadable
// items do not count.
func (w *world) noteCarried(body []byte) {
	good, _ := contract.Decode[contract.Reservation](body)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range good {
		if w.carried[it.OrderSN].IsZero() && !w.garbled[it.OrderSN] {
			w.carried[it.OrderSN] = time.Now()
		}
	}
}

// noteGarbled records reservations whose message became unreadable. An operator may reject its dead letter, and a
// later copy is refused then. So the message does not bring back a purchase that Redis loses.
func (w *world) noteGarbled(body []byte) {
	good, _ := contract.Decode[contract.Reservation](body)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range good {
		if w.carried[it.OrderSN].IsZero() {
			w.garbled[it.OrderSN] = true
		}
	}
}

// loseGate empties Redis (whole), or deletes all keys of the gates.
func (w *world) loseGate(whole bool) {
	w.history.note("redis", "! gate is lost", whole)
	what := "gate deleted"
	if whole {
		what = "emptied"
	}
	w.happens(what)
	w.betweenCommands(func() {
		mini := w.mini.Load()
		w.noteLoss(mini)
		servers := []*miniredis.Miniredis{mini}
		if w.replica != nil && w.replica.mini != mini {
			servers = append(servers, w.replica.mini)
		}
		for _, m := range servers {
			if whole {
				m.FlushAll()
				continue
			}
			for _, key := range m.Keys() {
				if strings.HasPrefix(key, "fs:{") {
					m.Del(key)
				}
			}
		}
		if whole {
			w.redisLife.Add(1)
		}
	})
}

// happens records a loss or damage.
func (w *world) happens(what string) {
	w.mu.Lock()
	w.happened[what] = true
	w.mu.Unlock()
	coverage.pass("redis: " + what)
	coverage.add("redis: "+what, happens)
}

// end stops everything in order, so that no goroutine of the bubble is left.
func (w *world) end() {
	w.mu.Lock()
	w.ended = true
	lives := w.lives
	w.lives = map[string]*process{}
	w.mu.Unlock()
	for _, p := range lives {
		p.thaw()
		p.cancel()
	}
	w.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = w.broker.Close(ctx)
	_ = w.rdb.Close()
	w.mini.Load().Close()
	if w.replica != nil {
		w.replica.close()
	}
	for _, db := range w.books {
		_ = sqldb.Close(db)
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}
