package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// maxFeedLimit bounds the limit of a page of a feed.
const maxFeedLimit = 1000

// ListOrders implements api.ServerInterface.
func (m *Merchant) ListOrders(w http.ResponseWriter, r *http.Request, _ api.ListOrdersParams) {
	if in, ok := m.listed(w, r); ok {
		m.feed(w, r, merchants.FeedRequest{In: in})
	}
}

// feed responds with a page of the feed of one activity, or of all of a scope.
func (m *Merchant) feed(w http.ResponseWriter, r *http.Request, request merchants.FeedRequest) {
	p, err := httpserver.PageUpTo(r, maxFeedLimit)
	request.Limit = p.Limit
	if err == nil {
		request.Since, err = changedSince(r)
	}
	if err == nil && p.Cursor != "" {
		request.From, err = parseFeedCursor(p.Cursor)
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	page, err := m.merchants.Feed(r.Context(), request)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list := api.OrderFeed{Items: views(page.Rows, FeedView)}
	if page.Next != nil {
		list.NextCursor = optional(feedCursor(*page.Next))
	} else {
		list.NextSince = &page.NextSince
	}
	httpserver.WriteJSON(w, http.StatusOK, list)
}

// changedSince reads the parameter changed_since, with which no filter may be combined.
func changedSince(r *http.Request) (time.Time, error) {
	query := r.URL.Query()
	for _, name := range []string{"state", "user_id", "order_sn"} {
		if query.Has(name) {
			return time.Time{}, contract.InvalidField(name, "cannot be combined with changed_since")
		}
	}
	if acceptsCSV(r) {
		return time.Time{}, contract.InvalidField("format", "must be json with changed_since")
	}
	since, err := time.Parse(time.RFC3339, query.Get("changed_since"))
	if err != nil || !feedTime(since) || len(query["changed_since"]) > 1 {
		return time.Time{}, contract.InvalidField("changed_since", "must be a time such as 2026-11-21T10:00:00Z, from 1970 to 2200")
	}
	return since, nil
}

// feedTime reports whether the tables take a time.
func feedTime(t time.Time) bool { return t.UTC().Year() >= 1970 && t.UTC().Year() <= core.LastYear }

// feedCursors begins the cursors of a feed, so that no cursor of another list is one.
const feedCursors = "feed"

func feedCursor(p merchants.FeedPlace) string {
	place := "- -"
	if p.After.OrderSN != "" {
		place = fmt.Sprintf("%d %s", p.After.ChangedAt.UnixMilli(), p.After.OrderSN)
	}
	activity := p.Activity
	if activity == "" {
		activity = "-"
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %s %s", feedCursors, p.Began.UnixMilli(), activity, place))
}

func parseFeedCursor(cursor string) (p merchants.FeedPlace, err error) {
	invalid := contract.InvalidField("cursor", "is not valid")
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return p, invalid
	}
	parts := strings.Split(string(raw), " ")
	if len(parts) != 5 || parts[0] != feedCursors {
		return p, invalid
	}
	var ok bool
	if p.Began, ok = feedMillis(parts[1]); !ok {
		return p, invalid
	}
	if parts[2] != "-" {
		if p.Activity = parts[2]; !contract.ValidID(p.Activity) {
			return p, invalid
		}
	}
	if parts[3] != "-" {
		p.After.OrderSN = parts[4]
		if p.After.ChangedAt, ok = feedMillis(parts[3]); !ok || !contract.ValidID(p.After.OrderSN) {
			return p, invalid
		}
	}
	return p, nil
}

func feedMillis(s string) (time.Time, bool) {
	ms, err := strconv.ParseInt(s, 10, 64)
	t := time.UnixMilli(ms).UTC()
	return t, err == nil && feedTime(t)
}

// FeedView returns a row as the feed shows it.
func FeedView(r merchants.FeedRow) api.FeedOrder {
	v := api.FeedOrder{
		OrderSn: r.OrderSN, ActivityId: r.ActivityID, UserId: r.UserID, State: api.FeedOrderState(r.State),
		Reason: optional(r.Reason), ReservedAt: r.ReservedAt, OrderCreatedAt: r.OrderCreatedAt, ExpiresAt: r.ExpiresAt,
		ChangedAt: timestamp(&r.ChangedAt),
		Lines: views(r.Lines, func(l contract.Line) api.FeedLine {
			line := api.FeedLine{SkuId: l.SKUID, SkuRef: optional(refOf(r.Activity, l.SKUID)), Qty: l.Qty}
			if r.Activity != nil && r.Activity.Item(l.SKUID) != nil {
				line.UnitPrice = &r.Activity.Item(l.SKUID).Price
			}
			return line
		}),
	}
	if a := r.Activity; a != nil {
		digits := contract.CurrencyDigits(a.Currency)
		v.MerchantId, v.ActivityRef, v.Currency, v.CurrencyDigits = &a.MerchantID, optional(a.Ref), &a.Currency, &digits
	}
	if amount, ok := r.Amount(); ok {
		v.Amount = &amount
	}
	return v
}
