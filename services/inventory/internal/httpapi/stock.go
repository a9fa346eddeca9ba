package httpapi

import (
	"encoding/json"
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// AdjustStock implements api.ServerInterface.
func (m *Merchant) AdjustStock(w http.ResponseWriter, r *http.Request, id string, params api.AdjustStockParams) {
	if !m.validID(w, r, id) {
		return
	}
	key := params.IdempotencyKey
	if key == "" || len(key) > idempotency.MaxValueLen {
		m.refuse(w, r, contract.InvalidField("Idempotency-Key", "must have 1 to 64 characters"))
		return
	}
	var body api.NewAdjustment
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	canonical, err := json.Marshal(body) // independent of the white space in the request
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	a, err := m.merchants.AdjustStock(r.Context(), caller(r), merchants.AdjustmentRequest{
		ActivityID: id, SKUID: body.SkuId, Delta: body.Delta, Reason: body.Reason,
		Key: core.IdempotencyKey{
			Caller: caller(r).UserID, Method: r.Method, Path: r.URL.Path, Value: key,
			BodyHash: idempotency.HashBody(canonical),
		},
	})
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, adjustmentView(*a))
}

func adjustmentView(a core.Adjustment) api.Adjustment {
	state := api.AdjustmentState(a.State)
	if a.State == core.AdjustmentIntent {
		state = api.AdjustmentStatePending
	}
	return api.Adjustment{
		AdjustmentId: a.ID, ActivityId: a.ActivityID, SkuId: a.SKUID, Delta: a.Delta, Reason: a.Reason,
		State: state, CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt,
	}
}

// GetStock implements api.ServerInterface.
func (m *Merchant) GetStock(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	v, err := m.merchants.StockView(r.Context(), caller(r).Scope(), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, stockView(v))
}

func stockView(v *merchants.StockView) api.StockView {
	return api.StockView{AsOf: v.AsOf, Skus: views(v.SKUs, func(k merchants.SKUView) api.StockSKU {
		view := api.StockSKU{
			SkuId: k.SKUID, Total: k.Total,
			Mysql:      api.StockMySQL{Available: k.Available, Reserved: k.Reserved, Sold: k.Sold},
			Difference: k.Difference,
		}
		if k.Gate != nil {
			view.Gate = api.StockGate{Left: k.Gate.Left, Held: k.Gate.Held}
			view.Journal, view.InFlight = k.Gate.Journal, k.Gate.InFlight
		}
		return view
	})}
}

// Reconcile implements api.ServerInterface.
func (m *Merchant) Reconcile(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) || !m.requireNoFields(w, r) {
		return
	}
	done, err := m.reconciler.Reconcile(r.Context(), caller(r), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	response := api.Reconciliation{LookedAt: done.ComparedAt, Repairs: []api.Repair{}, Differences: []api.Repair{}}
	for _, rep := range done.Repairs {
		response.Repairs = append(response.Repairs, repairView(rep)...)
	}
	for _, d := range done.Differences {
		response.Differences = append(response.Differences,
			api.Repair{OrderSn: optional(d.OrderSN), SkuId: d.SKUID, Delta: d.Delta, Why: d.Why})
	}
	httpserver.WriteJSON(w, http.StatusOK, response)
}

// repairView returns one entry for each SKU of a repair, or one entry without a SKU.
func repairView(r reconcile.Repair) []api.Repair {
	deltas := r.Deltas
	if len(deltas) == 0 {
		deltas = []reconcile.SKUDelta{{}}
	}
	return views(deltas, func(d reconcile.SKUDelta) api.Repair {
		return api.Repair{OrderSn: optional(r.OrderSN), SkuId: d.SKUID, Delta: d.Delta, Why: r.Why()}
	})
}
