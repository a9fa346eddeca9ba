package httpapi

import (
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

func toActivity(v core.ActivityView) api.Activity {
	a := api.Activity{
		ActivityId:   v.ActivityID,
		Title:        v.Title,
		State:        api.ActivityState(v.State),
		StartsAt:     v.StartsAt.UTC(),
		EndsAt:       v.EndsAt.UTC(),
		ServerTime:   v.ServerTime.UTC(),
		PerUserLimit: v.PerUserLimit,
		Items:        make([]api.ActivityItem, 0, len(v.Items)),
	}
	for _, i := range v.Items {
		a.Items = append(a.Items, api.ActivityItem{
			SkuId: i.SKUID, Name: i.Name, Price: i.Price, Currency: i.Currency, Total: i.Total, Left: v.Left[i.SKUID],
		})
	}
	return a
}

func toReservation(r core.Reservation) api.Reservation {
	out := api.Reservation{OrderSn: r.OrderSN, ActivityId: r.ActivityID, Status: api.Status(r.Status)}
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
