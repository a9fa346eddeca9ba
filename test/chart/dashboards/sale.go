package dashboards

import "fmt"

// sale is what a merchant's sale does to buyers, from the button to the order.
func sale() Dashboard {
	return Dashboard{
		Name: "sale", Title: "Flashsale: sale", About: "What buyers get, from the button to the order.",
		Rows: []Row{
			{Title: "Purchases", Panels: []Panel{
				{
					Title: "Purchases", Unit: "reqps",
					About:   "Purchases that the gate accepted, and repetitions that got the purchase they repeat.",
					Queries: []Query{{"{{flashsale_outcome}}", rate("flashsale_outcome", "flashsale_seckill_purchases_total")}},
				},
				{
					Title: "Refused by reason", Unit: "reqps",
					About: "Calls of buyers that got no purchase. sold_out is normal; limits and gate_unavailable are not.",
					Queries: []Query{{
						"{{flashsale_reason}}", "topk(8, " + rate("flashsale_reason", "flashsale_seckill_refused_total") + ")",
					}},
				},
				{
					Title: "Share of server errors", Unit: "percentunit", Alert: "FlashsaleServerErrors",
					About: "5xx of all responses, by service. The objective for buying is one in a thousand.",
					Queries: []Query{{"{{service}}", "(" +
						rate("service", `http_server_request_duration_seconds_count{http_response_status_code=~"5.."}`) + " or 0 * " +
						rate("service", "http_server_request_duration_seconds_count") + ") / " +
						rate("service", "http_server_request_duration_seconds_count")}},
				},
				{
					Title: "Responses of the edge", Unit: "reqps", Alert: "FlashsaleEdgeErrors",
					About: "By status, and by the limit of the edge that refused the request. Also those that no service has seen.",
					Queries: []Query{{
						"{{http_response_status_code}} {{flashsale_limit}}",
						rate("http_response_status_code, flashsale_limit", "flashsale_edge_responses_total"),
					}},
				},
				{
					Title: "Time of a response of seckill", Unit: "s",
					About:   "99 % of the responses are faster, by route. A purchase waits for the write of the gate's disk.",
					Queries: []Query{{"{{http_route}}", quantile(0.99, "http_route", `http_server_request_duration_seconds_bucket{service="seckill"}`)}},
				},
				{
					Title: "Time until the next start", Unit: "s", About: "Of the next sale that is published. No line without one.",
					Queries: []Query{{"start", "max(flashsale_inventory_next_start_seconds) - time()"}},
				},
			}},
			{Title: "From a purchase to its order", Panels: []Panel{
				{
					Title: "Accepted and not in the ledger", Unit: "short", Alert: "FlashsaleLandingStalled",
					About:   "Purchases that wait for inventory. It rises in the first seconds of a sale and returns to 0.",
					Queries: []Query{{"purchases", "max(flashsale_seckill_not_landed)"}},
				},
				{
					Title: "Age of the oldest of them", Unit: "s", Alert: "FlashsaleLandingStalled",
					About:   "A stalled broker, inventory or database shows here first.",
					Queries: []Query{{"oldest", "max(flashsale_seckill_not_landed_age_seconds)"}},
				},
				{
					Title: "From the acceptance to the order", Unit: "s", Alert: "FlashsaleOrdersLate",
					About: "The objective is 5 s for 99 %.",
					Queries: []Query{
						{"50 %", quantile(0.5, "", "flashsale_order_creation_lag_seconds_bucket")},
						{"99 %", quantile(0.99, "", "flashsale_order_creation_lag_seconds_bucket")},
					},
				},
				{
					Title: "Landed, refused, displaced", Unit: "reqps", Alert: "FlashsaleLedgerRefuses",
					About:   "What the ledger did with accepted purchases. Anything but landed is an alarm.",
					Queries: []Query{{"{{flashsale_outcome}}", rate("flashsale_outcome", "flashsale_inventory_reservations_total")}},
				},
				{
					Title: "Lateness of closings", Unit: "s", Alert: "FlashsaleClosingsLate",
					About:   "From the deadline of unpaid orders to their closing (order) and the return of their units (inventory): 99 %.",
					Queries: []Query{{"{{service}}", quantile(0.99, "service", "flashsale_close_lateness_seconds_bucket")}},
				},
				{
					Title: "Event streams", Unit: "short", About: "Open connections of pages that follow a sale.",
					Queries: []Query{{"{{service}}", "sum by (service) (flashsale_streams_open)"}},
				},
			}},
			{Title: "Who waits", Panels: []Panel{
				{
					Title: "Waiting room", Unit: "reqps", About: "Buyers who join, and who are admitted.",
					Queries: []Query{
						{"join", rate("", "flashsale_seckill_room_joined_total")},
						{"are admitted", rate("", "flashsale_seckill_room_admitted_total")},
					},
				},
				{
					Title: "Refused by limits", Unit: "reqps", About: "Calls beyond a limit, by limit.",
					Queries: []Query{{
						"{{flashsale_limit}}", "topk(8, " + rate("flashsale_limit", `flashsale_limits_decisions_total{flashsale_outcome="refused"}`) + ")",
					}},
				},
				{
					Title: "Challenges", Unit: "reqps", About: "Challenges that buyers got, solved and failed.",
					Queries: []Query{{"{{flashsale_outcome}}", rate("flashsale_outcome", "flashsale_seckill_challenges_total")}},
				},
				{
					Title: "Calls in flight", Unit: "short", About: "In seckill, with the limit beyond which it sheds calls.",
					Queries: []Query{
						{"in flight", "sum(flashsale_seckill_shed_in_flight)"},
						{"limit", "sum(flashsale_seckill_shed_limit)"},
					},
				},
			}},
		},
	}
}

// rate returns the events of a counter a second, by a label.
func rate(by, counter string) string {
	if by == "" {
		return fmt.Sprintf("sum(rate(%s[$__rate_interval]))", counter)
	}
	return fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval]))", by, counter)
}

// quantile returns a quantile of a histogram, by a label.
func quantile(q float64, by, buckets string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%g, sum by (%s) (rate(%s[$__rate_interval])))", q, labels, buckets)
}
