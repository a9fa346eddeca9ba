package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/redisless"
)

// Internal serves the calls of the other services: messages that arrive by a call, and sales without Redis.
type Internal struct {
	redisless *redisless.Service
	tel       *telemetry.Telemetry
	transient func(error) bool
}

// NewInternal returns the handler of the internal listener. It accepts each of the secrets. messages handles the
// messages that arrive by a call, transient reports whether the database is unavailable.
func NewInternal(
	svc *redisless.Service, tel *telemetry.Telemetry, secrets []string, messages http.Handler, transient func(error) bool,
) http.Handler {
	h := &Internal{redisless: svc, tel: tel, transient: transient}
	r := httpserver.NewRouter(tel, httpserver.Trusted(), httpserver.LargeBodies(contract.MaxBrokerlessBytes))
	r.Use(httpserver.Timeout(callTimeout), auth.Internal(secrets...))
	r.Method(http.MethodPost, contract.MessagesPath+"{topic}", messages)
	r.Get(contract.ModesPath, h.modes)
	r.Post(contract.ReservePath, respond(h, h.reserve))
	r.Post(contract.LookupPath, respond(h, h.lookup))
	r.Post(contract.LeasePath, respond(h, h.redisless.LeaseWorker))
	return r
}

// respond handles a call whose request and response are JSON.
func respond[Q, A any](h *Internal, call func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request Q
		err := httpserver.DecodeJSON(w, r, &request)
		var response A
		if err == nil {
			response, err = call(r.Context(), request)
		}
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		httpserver.WriteJSON(w, http.StatusOK, response)
	}
}

func (h *Internal) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *contract.Refusal
	if !errors.As(err, &refusal) &&
		(h.transient(err) || errors.Is(err, core.ErrImporting) || errors.Is(err, core.ErrGateUnavailable)) {
		err = core.Unavailable("The call may be repeated.", err)
	}
	problem.Write(w, r, h.tel.Log, err)
}

// longestLoss is the longest loss of a gate that differs from longer ones.
const longestLoss = 24 * time.Hour

// modes responds with the modes of the activities. The gates that the caller cannot reach are parameters.
func (h *Internal) modes(w http.ResponseWriter, r *http.Request) {
	lost := map[string]time.Duration{}
	for _, text := range r.URL.Query()[contract.LostParam] {
		id, ms, _ := strings.Cut(text, ":")
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil || !contract.ValidID(id) || n < 0 {
			h.tel.Log.WarnContext(r.Context(), "entry about a lost gate cannot be read", "entry", text)
			continue // the other sales need their modes
		}
		lost[id] = time.Duration(min(n, longestLoss.Milliseconds())) * time.Millisecond
	}
	modes, err := h.redisless.Modes(r.Context(), lost)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, modes)
}

func (h *Internal) reserve(ctx context.Context, r contract.RedislessReserve) (contract.RedislessResults, error) {
	if err := r.Validate(); err != nil {
		return contract.RedislessResults{}, err
	}
	purchases := make([]redisless.Purchase, len(r.Items))
	for i, p := range r.Items {
		sn, err := ordersn.Parse(p.OrderSN)
		if err != nil {
			return contract.RedislessResults{}, contract.InvalidField(fmt.Sprintf("items[%d].order_sn", i), "not an order_sn")
		}
		purchases[i] = redisless.Purchase{RedislessPurchase: p, MayBeKnown: sn.Worker < ordersn.RedisWorkers}
	}
	results, err := h.redisless.ReserveRedisless(ctx, r.ActivityID, r.Outage, purchases)
	return contract.RedislessResults{Results: results}, err
}

func (h *Internal) lookup(ctx context.Context, l contract.RedislessLookup) (contract.RedislessStates, error) {
	switch {
	case !contract.ValidID(l.ActivityID):
		return contract.RedislessStates{}, contract.InvalidField("activity_id", "not an id")
	case len(l.OrderSNs) > contract.MaxItems:
		return contract.RedislessStates{}, contract.InvalidField("order_sns", "must have at most 256 elements")
	case l.UserID != "" && !contract.ValidUserID(l.UserID):
		return contract.RedislessStates{}, contract.InvalidField("user_id", "not a user id")
	}
	for _, sn := range l.OrderSNs {
		if !contract.ValidID(sn) {
			return contract.RedislessStates{}, contract.InvalidField("order_sns", "has an element that is not an order_sn")
		}
	}
	return h.redisless.LookupRedisless(ctx, l)
}
