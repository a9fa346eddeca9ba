// Package webhooks sends the changes of orders to the endpoints of merchants. A scan turns the changed rows of the
// ledger into deliveries, once each; one process at a time sends those of an endpoint. Nothing of it is on the path of
// a purchase.
package webhooks

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// State is the state of an endpoint. Only an active one gets deliveries.
type State string

// The states of an endpoint.
const (
	Active State = "active"
	Off    State = "off"  // by its merchant
	Gone   State = "gone" // it responded with 410
)

// Endpoint is an address of a merchant that receives events.
type Endpoint struct {
	ID         string
	MerchantID string
	URL        string
	Types      []string
	State      State
	Secret     string     // sealed
	OldSecret  string     // sealed; signs besides Secret until OldUntil
	OldUntil   *time.Time // nil if there is none
	ScannedTo  time.Time  // the changes before it have their deliveries
	Replay     string     // progress of a replay; "" for none
	CreatedAt  time.Time
	LeasedTo   time.Time // until then a process sends, or the endpoint pauses
	Failures   int       // attempts in a row that failed
}

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery.
const (
	Waiting   DeliveryState = "waiting"
	Delivered DeliveryState = "delivered"
	Failed    DeliveryState = "failed" // after the last attempt
)

// Delivery is one event for one endpoint.
type Delivery struct {
	ID         string
	EndpointID string
	OrderSN    string
	ChangedAt  time.Time
	Type       string
	State      DeliveryState
	Attempts   int
	NextAt     time.Time     // the next attempt
	Pause      time.Duration // before the next attempt, if the last one failed
	Status     int           // of the last response; 0 without one
	Error      string        // of the last attempt
	Body       []byte        // empty unless it waits
	CreatedAt  time.Time
}

// ChangeID identifies a change of an order for an endpoint.
type ChangeID struct {
	EndpointID, OrderSN string
	ChangedAt           int64 // Unix milliseconds
}

// Endpoints keeps endpoints. Every method is one transaction.
type Endpoints interface {
	// CreateWebhook locks the merchant and calls check with the number of its endpoints, which may refuse.
	CreateWebhook(ctx context.Context, e Endpoint, c core.Change, check func(used int64) error) (Endpoint, error)
	Webhook(ctx context.Context, in core.Scope, id string) (*Endpoint, error) // nil when the scope has none
	// Webhooks returns endpoints, newest first.
	Webhooks(ctx context.Context, in core.Scope, p core.Page) ([]Endpoint, error)
	// ChangeWebhook locks the endpoint, calls fn to change it, and writes it, and the change unless it is nil. It
	// refuses with not_found if the scope has no such endpoint.
	ChangeWebhook(
		ctx context.Context, in core.Scope, id string, c *core.Change, fn func(e *Endpoint) error,
	) (*Endpoint, error)
	DeleteWebhook(ctx context.Context, in core.Scope, id string, c core.Change) error
	ActiveWebhooks(ctx context.Context) ([]Endpoint, error)
	// LeaseEndpoint lets one process send to an endpoint until a time; ok is false while another one does, or the endpoint
	// pauses.
	LeaseEndpoint(ctx context.Context, id string, lease time.Duration) (until time.Time, ok bool, err error)
	// ReturnEndpoint ends the lease until that time, if it has not ended, and writes Failures. The endpoint pauses then.
	ReturnEndpoint(ctx context.Context, id string, until time.Time, failures int, pause time.Duration) error
	// StaleSecrets returns endpoints after an id, at most 100 in the order of ids, with a secret that is not sealed under
	// this key, or with an old one that ended before a time.
	StaleSecrets(ctx context.Context, keyID, after string, ended time.Time) ([]Endpoint, error)
	// Deliveries returns those of an endpoint in a state, newest first.
	Deliveries(ctx context.Context, endpointID string, state DeliveryState, p core.Page) ([]Delivery, error)
}

// Queue keeps deliveries. Time is that of the database.
type Queue interface {
	Now(ctx context.Context) (time.Time, error)
	// KnownChanges returns those of the places that have a delivery, for each of the endpoints.
	KnownChanges(
		ctx context.Context, endpointIDs []string, places []core.ReservationPlace,
	) (map[ChangeID]bool, error)
	// AddDeliveries adds waiting deliveries. Known ones stay as they are, or are replaced if they are sent again.
	AddDeliveries(ctx context.Context, list []Delivery, again bool) error
	// OldestDue returns for each endpoint the time of the delivery that is due for the longest time, if one is.
	OldestDue(ctx context.Context, endpointIDs []string, now time.Time) (map[string]time.Time, error)
	// OldestWaiting returns for each endpoint its oldest delivery that waits, due or not, without its body.
	OldestWaiting(ctx context.Context, endpointIDs []string) (map[string]Delivery, error)
	// DueDeliveries returns deliveries of an endpoint, those that are due for the longest time first.
	DueDeliveries(ctx context.Context, endpointID string, limit int) ([]Delivery, error)
	// EndAttempts writes the state of deliveries after an attempt each, which has been counted. Those that wait are due
	// after their Pause. A failed attempt changes nothing that another process has attempted or ended meanwhile.
	EndAttempts(ctx context.Context, list []Delivery) error
	// ExpireDeliveries marks deliveries to an endpoint that wait, and were added before a time, as failed, at most some
	// thousand of them.
	ExpireDeliveries(ctx context.Context, endpointID string, before time.Time) error
	// SweepDeliveries deletes deliveries that were created before a time.
	SweepDeliveries(ctx context.Context, before time.Time) error
}

// Feed reads the changed rows of a merchant.
type Feed interface {
	Feed(ctx context.Context, r merchants.FeedRequest) (merchants.FeedPage, error)
}

// Sealer encrypts the secrets of endpoints, each for its merchant.
type Sealer interface {
	Seal(object string, plain []byte) (keyID string, sealed []byte)
	Open(object, keyID string, sealed []byte) ([]byte, error)
	Current() string
}

// Recorder records the work of the senders.
type Recorder interface {
	// OldestDelivery records the ages of the oldest deliveries that wait, due or not: of endpoints that fail, and of the
	// others. Without one it is 0.
	OldestDelivery(waiting, failing time.Duration, err error)
}

// Deps are the ports and settings of a Service.
type Deps struct {
	Endpoints Endpoints
	Queue     Queue
	Feed      Feed
	Sealer    Sealer                        // nil: no keys are set, and nothing is sent
	Data      func(r merchants.FeedRow) any // the row as the feed shows it
	Client    *http.Client                  // see NewClient
	Recorder  Recorder
	Log       *slog.Logger
	Now       func() time.Time // clock of the process
	// CheckClocks returns an error while this process must not decide by time.
	CheckClocks func(ctx context.Context) error
}

// Service manages endpoints, scans for their events, and sends them. It is safe for concurrent use.
type Service struct {
	Deps
	passes  map[string]*pass // of the scan, by merchant; one goroutine scans at a time
	logged  time.Time        // when failing endpoints were logged last; the goroutine that dispatches has it
	wake    chan struct{}
	sending sync.WaitGroup // lanes that run

	scanned time.Time // start of the last scan
	adds    int       // changes that it may add for each merchant

	mu     sync.Mutex
	lanes  map[string]bool // endpoints to which this process sends; true: that fail
	failed error           // of the tables, in a lane
}

// New makes the service and starts nothing.
func New(d Deps) *Service {
	return &Service{Deps: d, passes: map[string]*pass{}, wake: make(chan struct{}, 1), lanes: map[string]bool{}}
}

// Enabled reports whether keys are set, so that events are sent.
func (s *Service) Enabled() bool { return s.Sealer != nil }
