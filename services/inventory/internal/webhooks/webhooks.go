// Package webhooks sends the changes of orders to the endpoints of merchants. A scan turns the changed rows of the
// ledger into deliveries, once each; senders claim and send them. Nothing of it is on the path of a purchase.
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
	NextAt     time.Time // the next attempt, or the end of the claim of a sender
	Status     int       // of the last response; 0 without one
	Error      string    // of the last attempt
	Body       []byte    // empty unless it waits
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
	// DueDeliveries returns for each endpoint the time of the delivery that is due for the longest time, if one is.
	DueDeliveries(ctx context.Context, endpointIDs []string, now time.Time) (map[string]time.Time, error)
	// OldestWaiting returns for each endpoint its oldest delivery that waits, due or not, without its body.
	OldestWaiting(ctx context.Context, endpointIDs []string) (map[string]Delivery, error)
	// ClaimDeliveries counts an attempt of due deliveries and makes them due again when the lease ends. Their NextAt is
	// that of before the claim.
	ClaimDeliveries(ctx context.Context, endpointID string, lease time.Duration, limit int) ([]Delivery, error)
	// FinishDeliveries marks deliveries as delivered, with their Status.
	FinishDeliveries(ctx context.Context, list []Delivery) error
	// ReturnDelivery writes State, Attempts, Status and Error, if the delivery has as many attempts as when it was claimed.
	// It is due after the pause; without one since its NextAt.
	ReturnDelivery(ctx context.Context, d Delivery, claimed int, pause time.Duration) error
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

	mu     sync.Mutex
	lanes  map[string]*lane // by endpoint
	failed error            // of the tables, in a lane
}

// New makes the service and starts nothing.
func New(d Deps) *Service {
	return &Service{Deps: d, passes: map[string]*pass{}, wake: make(chan struct{}, 1), lanes: map[string]*lane{}}
}

// Enabled reports whether keys are set, so that events are sent.
func (s *Service) Enabled() bool { return s.Sealer != nil }
