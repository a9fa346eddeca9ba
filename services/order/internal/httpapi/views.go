package httpapi

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/api"
	"flashsale.internal/services/order/internal/core"
)

// orderView returns an order as it is shown. about is the zero value if nothing is known of what was bought.
func orderView(o core.Order, about contract.ActivityInfo) api.Order {
	v := api.Order{
		OrderSn: o.OrderSN, ActivityId: o.ActivityID, UserId: o.UserID, State: api.OrderState(o.State),
		Lines: make([]api.Line, len(o.Lines)), Amount: o.Amount, Currency: o.Currency,
		CurrencyDigits: contract.CurrencyDigits(o.Currency),
		CreatedAt:      o.CreatedAt, ExpiresAt: o.ExpiresAt,
		PaidAt: optionalTime(o.PaidAt), ClosedAt: optionalTime(o.ClosedAt),
	}
	for i, l := range o.Lines {
		v.Lines[i] = api.Line{SkuId: l.SKUID, Qty: l.Qty, UnitPrice: l.Price}
		if name := skuName(about, l.SKUID); name != "" {
			v.Lines[i].Name = &name
		}
	}
	if about.Title != "" {
		v.ActivityTitle = &about.Title
	}
	if o.State == core.Pending {
		v.PayingUntil = optionalTime(o.PayingUntil)
	}
	if o.State == core.Closed {
		reason := api.OrderCloseReason(o.CloseReason)
		v.CloseReason = &reason
	}
	v.ContactGiven = o.ContactGiven
	v.Payments = make([]api.Payment, len(o.Payments))
	for i, p := range o.Payments {
		v.Payments[i] = paymentView(p)
	}
	if len(o.Refunds) > 0 {
		refunds := make([]api.Refund, len(o.Refunds))
		for i, r := range o.Refunds {
			refunds[i] = api.Refund{
				RefundId: r.PaymentID, PaymentId: r.PaymentID, Amount: r.Amount, Currency: r.Currency,
				CurrencyDigits: contract.CurrencyDigits(r.Currency),
				State:          api.RefundState(r.State), Reason: r.Reason, CreatedAt: r.CreatedAt,
			}
			if r.State == core.RefundDone {
				refunds[i].RefundedAt = optionalTime(r.FinishedAt)
			}
		}
		v.Refunds = &refunds
	}
	return v
}

// skuName returns the name of a SKU, or "" if it is not known.
func skuName(about contract.ActivityInfo, sku string) string {
	for _, k := range about.SKUs {
		if k.SKUID == sku {
			return k.Name
		}
	}
	return ""
}

func paymentView(p core.Payment) api.Payment {
	return api.Payment{
		PaymentId: p.PaymentID, OrderSn: p.OrderSN, State: api.PaymentState(p.State), Provider: p.Provider,
		Amount: p.Amount, Currency: p.Currency,
		CurrencyDigits: contract.CurrencyDigits(p.Currency), CreatedAt: p.CreatedAt,
	}
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// formatCursor encodes the last order of a page: its creation time in milliseconds and its order_sn.
func formatCursor(p core.Position) string {
	ms := strconv.FormatInt(p.CreatedAt.UnixMilli(), 10)
	return base64.RawURLEncoding.EncodeToString([]byte(ms + "." + p.OrderSN))
}

func parseCursor(s string) (core.Position, error) {
	bad := contract.InvalidField("cursor", "is not valid")
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return core.Position{}, bad
	}
	ms, sn, ok := strings.Cut(string(raw), ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || n < 1 || n > 1<<46 || !contract.ValidID(sn) {
		return core.Position{}, bad
	}
	return core.Position{CreatedAt: time.UnixMilli(n).UTC(), OrderSN: sn}, nil
}

// parameterRefusal returns a refusal that names the parameter that the generated code could not parse.
func parameterRefusal(err error) *contract.Refusal {
	var format *api.InvalidParamFormatError
	var missing *api.RequiredHeaderError
	var required *api.RequiredParamError
	var many *api.TooManyValuesForParamError
	switch {
	case errors.As(err, &missing):
		return contract.InvalidField(missing.ParamName, "is required")
	case errors.As(err, &required):
		return contract.InvalidField(required.ParamName, "is required")
	case errors.As(err, &format):
		return contract.InvalidField(format.ParamName, "is not valid")
	case errors.As(err, &many):
		return contract.InvalidField(many.ParamName, "may be given once")
	}
	return contract.Refuse(contract.CodeInvalidRequest, "A parameter is not valid.")
}
