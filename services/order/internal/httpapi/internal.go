package httpapi

import (
	"fmt"
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/api/internalapi"
	"flashsale.internal/services/order/internal/core"
)

// Internal serves the API for inventory.
type Internal struct {
	core *core.Service
	tel  *telemetry.Telemetry
}

var _ internalapi.ServerInterface = (*Internal)(nil)

// NewInternal returns the handler of the internal API. It accepts each of the secrets. messages handles the messages
// that arrive by a call.
func NewInternal(
	svc *core.Service, tel *telemetry.Telemetry, secrets []string, messages http.Handler,
) http.Handler {
	a := &Internal{core: svc, tel: tel}
	w := internalapi.ServerInterfaceWrapper{Handler: a, ErrorHandlerFunc: a.refuseParameter}
	r := httpserver.NewRouter(tel, httpserver.Trusted(), httpserver.LargeBodies(contract.MaxBrokerlessBytes))
	r.Use(httpserver.Timeout(callTimeout), auth.Internal(secrets...))
	r.Method(http.MethodPost, contract.MessagesPath+"{topic}", messages)
	r.Post("/internal/v1/orders:close", w.CloseOrders)
	r.Post("/internal/v1/orders:refund", w.RefundOrders)
	r.Post("/internal/v1/orders:lookup", w.LookupOrders)
	r.Get("/internal/v1/orders/{order_sn}", w.ShowOrder)
	r.Post("/internal/v1/orders:since", w.OrdersSince)
	r.Get("/internal/v1/refunds", w.ListRefunds)
	r.Get("/internal/v1/payment-differences", w.ListPaymentDifferences)
	r.Post("/internal/v1/refunds/{refund_id}:retry", w.RetryRefund)
	r.Post("/internal/v1/refunds/{refund_id}:settle", w.SettleRefund)
	return r
}

// CloseOrders implements internalapi.ServerInterface.
func (a *Internal) CloseOrders(w http.ResponseWriter, r *http.Request) {
	var body internalapi.CloseRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		a.refuse(w, r, err)
		return
	}
	reasons := map[internalapi.CloseRequestReason]string{
		"expired": core.ReasonExpired, "rejected": core.ReasonRejected,
	}
	reason, ok := reasons[body.Reason]
	if !ok {
		a.refuse(w, r, contract.InvalidField("reason", "must be expired or rejected"))
		return
	}
	if err := checkSNs(body.OrderSns); err != nil {
		a.refuse(w, r, err)
		return
	}
	results, err := a.core.CloseOrders(r.Context(), body.OrderSns, reason)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	response := internalapi.CloseResults{Results: make([]internalapi.CloseResult, len(results))}
	for i, c := range results {
		response.Results[i] = internalapi.CloseResult{
			OrderSn: c.OrderSN, Outcome: internalapi.CloseResultOutcome(c.Outcome), At: optionalTime(c.At),
		}
		if c.Reason != "" {
			response.Results[i].Reason = &c.Reason
		}
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

// RefundOrders implements internalapi.ServerInterface.
func (a *Internal) RefundOrders(w http.ResponseWriter, r *http.Request) {
	var body internalapi.RefundRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		a.refuse(w, r, err)
		return
	}
	if !validReason(body.Reason) {
		a.refuse(w, r, contract.InvalidField("reason", "must be 1 to 16 of a-z and _"))
		return
	}
	if err := checkSNs(body.OrderSns); err != nil {
		a.refuse(w, r, err)
		return
	}
	results, err := a.core.RefundOrders(r.Context(), body.OrderSns, body.Reason)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	response := internalapi.RefundResults{Results: make([]internalapi.RefundResult, len(results))}
	for i, c := range results {
		response.Results[i] = internalapi.RefundResult{
			OrderSn: c.OrderSN, Outcome: internalapi.RefundResultOutcome(c.Outcome),
		}
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

// LookupOrders implements internalapi.ServerInterface.
func (a *Internal) LookupOrders(w http.ResponseWriter, r *http.Request) {
	var body internalapi.LookupRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		a.refuse(w, r, err)
		return
	}
	if err := checkSNs(body.OrderSns); err != nil {
		a.refuse(w, r, err)
		return
	}
	found, err := a.core.Lookup(r.Context(), body.OrderSns)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	orders := make([]core.Order, len(found))
	for i, o := range found {
		orders[i] = o.Order
	}
	about := descriptions(r.Context(), a.core, a.tel, orders)
	response := internalapi.LookupResults{Results: make([]internalapi.LookupResult, len(found))}
	for i, o := range found {
		response.Results[i] = lookupView(o, about[i])
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

func lookupView(o core.LookedUp, about contract.ActivityInfo) internalapi.LookupResult {
	if !o.Found {
		v := internalapi.LookupResult{OrderSn: o.OrderSN, State: internalapi.LookupResultStateUnknown}
		if o.Tombstone {
			v.Tombstone = &o.Tombstone
		}
		return v
	}
	v := internalapi.LookupResult{
		OrderSn: o.OrderSN, State: internalapi.LookupResultState(o.State), Amount: &o.Amount, Currency: &o.Currency,
		CreatedAt: &o.CreatedAt, ExpiresAt: &o.ExpiresAt, PaidAt: optionalTime(o.PaidAt),
		ClosedAt: optionalTime(o.ClosedAt),
	}
	if o.CloseReason != "" {
		v.CloseReason = &o.CloseReason
	}
	names := map[string]string{}
	for _, l := range o.Lines {
		if name := skuName(about, l.SKUID); name != "" {
			names[l.SKUID] = name
		}
	}
	if len(names) > 0 {
		v.SkuNames = &names
	}
	if c := o.Contact; c != nil {
		v.Contact = &internalapi.Contact{Name: c.Name, Phone: c.Phone}
		if len(c.AddressLines) > 0 {
			v.Contact.AddressLines = &c.AddressLines
		}
	}
	return v
}

func (a *Internal) refuse(w http.ResponseWriter, r *http.Request, err error) {
	leave(w, err)
	problem.Write(w, r, a.tel.Log, err)
}

// refuseParameter responds to a request with a parameter that the generated code could not parse.
func (a *Internal) refuseParameter(w http.ResponseWriter, r *http.Request, _ error) {
	a.refuse(w, r, contract.Refuse(contract.CodeInvalidRequest, "A parameter is not valid."))
}

func checkSNs(sns []string) error {
	if len(sns) < 1 || len(sns) > contract.MaxItems {
		return contract.InvalidField("order_sns", fmt.Sprintf("must be 1 to %d", contract.MaxItems))
	}
	for i, sn := range sns {
		if !contract.ValidID(sn) {
			return contract.InvalidField(fmt.Sprintf("order_sns[%d]", i), "is not an id")
		}
	}
	return nil
}

// validReason reports whether s consists of 1 to 16 lower-case letters and underscores.
func validReason(s string) bool {
	if s == "" || len(s) > 16 {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return true
}
