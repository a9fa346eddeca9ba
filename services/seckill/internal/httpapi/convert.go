package httpapi

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// toActivity leaves ServerTime zero: writeSales sets it.
func toActivity(v core.ActivityView) api.Activity {
	a := api.Activity{
		ActivityId:   v.ActivityID,
		Title:        v.Title,
		State:        api.ActivityState(v.State),
		StartsAt:     v.StartsAt.UTC(),
		EndsAt:       v.EndsAt.UTC(),
		PerUserLimit: v.PerUserLimit,
		PayWithinS:   int64(v.PayWithin / time.Second),
		Description:  v.Description,
		ImageUrl:     v.ImageURL,
		Items:        make([]api.ActivityItem, 0, len(v.Items)),
	}
	if v.RoomRate > 0 {
		opens := v.RoomOpensAt.UTC()
		a.WaitingRoom, a.RoomOpensAt = true, &opens
	}
	a.Captcha = v.Challenge
	if v.Challenge && !v.ChallengeOpensAt.IsZero() {
		opens := v.ChallengeOpensAt.UTC()
		a.CaptchaOpensAt = &opens
	}
	if v.MayReturnUntil.After(v.ServerTime) {
		until := v.MayReturnUntil.UTC()
		a.MayReturnUntil = &until
	}
	if s := v.Seller; s != nil {
		a.Seller = &api.Seller{Name: s.Name, TermsUrl: s.TermsURL, Delivery: s.Delivery}
	}
	if n := v.Notice; n != nil {
		a.Notice = &api.Notice{Text: n.Text, At: n.At.UTC()}
	}
	for _, i := range v.Items {
		a.Items = append(a.Items, api.ActivityItem{
			SkuId: i.SKUID, Name: i.Name, ImageUrl: i.ImageURL, Price: i.Price, ListPrice: i.ListPrice,
			Currency:       i.Currency,
			CurrencyDigits: contract.CurrencyDigits(i.Currency), Total: i.Total, Left: v.Left[i.SKUID],
		})
	}
	return a
}

func (h *handlers) toReservation(ctx context.Context, r core.Reservation) api.Reservation {
	out := api.Reservation{
		OrderSn: r.OrderSN, ActivityId: r.ActivityID, Status: api.Status(r.Status),
		Lines:     make([]api.Line, len(r.Lines)),
		EventsUrl: resultURL(r.ActivityID, r.OrderSN) + "/events?ticket=" + h.Core.Ticket(ctx, r),
	}
	for i, l := range r.Lines {
		out.Lines[i] = api.Line{SkuId: l.SKUID, Qty: l.Qty}
	}
	if !r.ReservedAt.IsZero() {
		at := r.ReservedAt.UTC()
		out.CreatedAt = &at
	}
	if r.Reason != "" {
		out.Reason = &r.Reason
	}
	if !r.ExpiresAt.IsZero() {
		at := r.ExpiresAt.UTC()
		out.ExpiresAt = &at
	}
	if r.Status.HasOrder() {
		order := "/v1/orders/" + r.OrderSN
		out.OrderUrl = &order
	}
	return out
}

func resultURL(activityID, orderSN string) string {
	return "/v1/activities/" + activityID + "/reservations/" + orderSN
}

func fromLines(lines []purchaseLine) []contract.Line {
	out := make([]contract.Line, len(lines))
	for i, l := range lines {
		out[i] = contract.Line{SKUID: l.SKUID, Qty: l.Qty}
	}
	return out
}
