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

	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/order"
)

// world is one sale with everything in it.
type world struct {
	seed      uint64
	sale      sale
	plan      *plan
	history   *history
	dir       string
	scripts   map[string]string
	mini      atomic.Pointer[miniredis.Miniredis] // the master
	replica   *replica                            // nil: there is none
	rdb       redis.UniversalClient               // without faults
	gate      *stockgate.Gate                     // on rdb
	broker    *inproc.Bus
	books     map[string]*gorm.DB      // without faults
	writers   map[string]chan struct{} // one for each database
	redisLife atomic.Int64
	running   sync.WaitGroup

	began time.Time
	ends  ends

	mu        sync.Mutex
	over      bool
	turn      int
	downs     *rand.Rand
	lives     map[string]*process
	failures  []string
	concerned map[string]bool
	carried   map[string]bool // order_sns in messages that the broker has
	losses    []loss          // of what Redis knew
	purchases map[string]*purchase
	played    map[string]int64     // payment_id -> amount that the provider was heard to have taken
	forgotten map[string]bool      // order_sns whose closing order's database lost
	damaged   map[string]time.Time // order_sns whose entries somebody removed or spoiled, and when
	nonsense  time.Time            // since when an entry of the gate cannot be read; zero: all can
	forged    map[string]bool      // order_sns that somebody else used
	events    map[string]bool      // order_sn and step, of which order handed an event to the broker
}

// sale is what is sold and how, drawn from the seed.
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
	losses       []time.Duration // of the gate, after the start of the sale
	failover     time.Duration   // to a replica that has not heard of the last writes; 0: none
	behind       time.Duration   // for how long the replica has heard nothing by then
	alone        bool            // no inventory lives while it fails over
	garbles      bool            // some items arrive in a form that no consumer reads, until it is mended
	loudest      string          // the topic where most of them do; "": none
	mended       time.Duration   // when it is
	forges       time.Duration   // somebody publishes what contradicts the ledger; 0: nobody does
	damages      []time.Duration // somebody spoils what Redis holds of the gate
	losesFresh   bool            // reservations get lost that the broker confirmed
	losesTimers  bool            // half of the delayed closings get lost
	losesEvents  bool            // many of an order's events get lost
	keepsTimers  bool            // no confirmed closing gets lost
	hurries      bool            // half of the delayed closings come before their time
	behaviour    int             // of half the buyers; 0: they have none in common
	pauses       bool            // a merchant pauses the sale and resumes it
	greedy       bool            // buyers buy all they may when a replica is cut off, and once more when it is the master
	asks         bool            // orders may be told of by nobody: inventory asks about what stays reserved after a few seconds
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
		if r.IntN(2) == 0 { // what the replica has not heard of is missed
			for i := range s.stock {
				s.stock[i] = int64(1 + r.IntN(3))
			}
			s.buyers += 6
		} else { // what buyers hold is missed; there are pieces for those who try again
			for i := range s.stock {
				s.stock[i] += 6
			}
			s.greedy, s.failover = true, 2*time.Second+time.Duration(r.Int64N(int64(2*time.Second)))
		}
	}
	length := s.window + s.payWithin + 9*time.Second
	switch r.IntN(6) {
	case 0:
		s.garbles, s.mended = true, time.Duration(r.Int64N(int64(length*2/3)))
		if r.IntN(2) == 0 {
			s.loudest = loud[r.IntN(len(loud))]
		}
	case 1: // one makes up for the other
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
	s.suit(focusOf(seed), r, length)
	if s.garbles { // one kind of letters at a time, as each is decided in its own way
		s.forges = 0
	}
	s.asks = s.garbles || s.losesEvents && !s.keepsTimers
	return s
}

var loud = []string{contract.TopicDeadLetters, contract.TopicDeductions, contract.TopicOrderEvents, contract.TopicOrderClose, contract.TopicReservations}

// suit makes the sale one in which that point can be come by.
func (s *sale) suit(point string, r *rand.Rand, length time.Duration) {
	soon := 2*time.Second + time.Duration(r.Int64N(int64(s.window)))
	for _, topic := range loud {
		if point == "broker: garbles "+topic || point == "inventory: bus publish "+topic && topic != contract.TopicDeductions {
			s.garbles, s.mended, s.loudest = true, soon, topic
		}
	}
	switch {
	case point == "inventory: bus deliver dead-letters", point == "order: bus publish dead-letters":
		s.garbles, s.mended, s.loudest = true, soon, contract.TopicDeductions
	case point == "inventory: redis script lookup":
		s.garbles, s.mended, s.loudest = true, length, contract.TopicReservations
	case strings.HasPrefix(point, "operator: "), strings.HasSuffix(point, "dead_letters"):
		s.garbles, s.mended = true, soon
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
	case point == "inventory: redis script rejournal", point == "broker: forgets seckill-reservations":
		s.losesFresh = true
	case point == "inventory: http POST /internal/v1/orders:refund", point == "order: a closing is forgotten":
		s.behaviour, s.garbles, s.losesEvents = payForgotten, false, false
	case point == "order: db update orders", point == "inventory: bus publish order-close delayed":
		s.behaviour = beginAndLeave
	case strings.HasSuffix(point, "/pause"), strings.HasSuffix(point, "/resume"):
		s.pauses = true
	case strings.HasPrefix(point, "broker: ") && strings.Contains(point, contract.TopicDeductions):
		s.abandonAfter = 7 * time.Second
	case point == "broker: forgets order-close":
		s.losesTimers = true
	case point == "broker: hurries order-close":
		s.hurries = true
	case point == "broker: forgets order-events":
		s.losesEvents = true
	}
}

// repairing are the points that the reconciler comes by when something is wrong with the gate.
var repairing = []string{"inventory: redis script correct", "inventory: redis script mend", "inventory: redis script repair"}

// loss is what Redis forgot: all that it heard of between from and to.
type loss struct {
	from, to time.Time
	whole    bool // nothing is left; a failover leaves an earlier state, which heals
}

var services = []string{"order", "inventory", "seckill"}

// templates makes the migrated databases that every sale begins with, once.
func templates(ctx context.Context, dir string) error {
	for _, service := range []string{"order", "inventory"} {
		db, err := sqldb.Open("sqlite:"+filepath.Join(dir, service+".db"), sqldb.Options{})
		if err != nil {
			return err
		}
		migrations := order.Migrations
		if service == "inventory" {
			migrations = inventory.Migrations
		}
		if err := sqldb.Migrate(ctx, db, migrations, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		if err := sqldb.Close(db); err != nil {
			return err
		}
	}
	return nil
}

// newWorld prepares a sale; it is called inside the bubble, with the databases in dir.
func newWorld(seed uint64, dir string, scripts map[string]string) (*world, error) {
	w := &world{
		seed: seed, sale: drawSale(seed), dir: dir, scripts: scripts, downs: rng(seed, "downs"),
		history: &history{began: time.Now()},
		lives:   map[string]*process{}, concerned: map[string]bool{}, carried: map[string]bool{}, purchases: map[string]*purchase{},
		played: map[string]int64{}, forgotten: map[string]bool{}, forged: map[string]bool{}, damaged: map[string]time.Time{}, events: map[string]bool{}, began: time.Now(), books: map[string]*gorm.DB{}, writers: map[string]chan struct{}{},
	}
	w.redisLife.Store(1)
	w.plan = newPlan(seed, w.sale.window+w.sale.payWithin+9*time.Second)
	w.ends.forget(func() { w.mini.Store(newRedis()) })
	if w.sale.failover > 0 {
		w.replica = newReplica()
	}
	w.rdb = w.dialRedis()
	w.gate = stockgate.New(w.rdb, stockgate.Options{})
	w.broker = inproc.New(inproc.Options{RetryMin: 200 * time.Millisecond, RetryMax: 5 * time.Second}, slog.New(&logs{h: w.history, who: "broker"}))
	for _, service := range []string{"order", "inventory"} {
		db, err := sqldb.Open(w.dsn(service), sqldb.Options{MaxOpen: 2})
		if err != nil {
			return nil, err
		}
		w.books[service], w.writers[service] = db, make(chan struct{}, 1)
	}
	return w, nil
}

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

// noteCarried keeps which reservations the broker was given: from then on no loss of Redis may lose them. What nobody can
// read is none.
func (w *world) noteCarried(body []byte) {
	good, _ := contract.Decode[contract.Reservation](body)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range good {
		w.carried[it.OrderSN] = true
	}
}

// loseGate empties Redis, or deletes all that belongs to the gate.
func (w *world) loseGate(whole bool) {
	w.mu.Lock()
	w.losses = append(w.losses, loss{time.Time{}, time.Now(), true})
	w.mu.Unlock()
	mini := w.mini.Load()
	w.history.note("redis", "! gate is lost", whole)
	if whole {
		w.redisLife.Add(1)
		w.ends.forget(mini.FlushAll)
		if w.replica != nil {
			w.replica.mini.FlushAll()
		}
		coverage.pass("redis: emptied")
		coverage.add("redis: emptied", happens)
		return
	}
	w.ends.forget(func() {
		for _, key := range mini.Keys() {
			if strings.HasPrefix(key, "fs:{") {
				mini.Del(key)
				if w.replica != nil {
					w.replica.mini.Del(key)
				}
			}
		}
	})
	coverage.pass("redis: gate deleted")
	coverage.add("redis: gate deleted", happens)
}

// end stops everything, in order, so that nothing of the bubble is left.
func (w *world) end() {
	w.mu.Lock()
	w.over = true
	lives := w.lives
	w.lives = map[string]*process{}
	w.mu.Unlock()
	for _, p := range lives {
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

func refOf(activity string) contract.GateRef { return contract.GateRef{ActivityID: activity} }
