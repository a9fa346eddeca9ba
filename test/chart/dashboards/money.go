package dashboards

import "fmt"

// money is what must add up: orders, payments, refunds, units.
func money() Dashboard {
	return Dashboard{
		Name: "money", Title: "Flashsale: money", About: "Orders, payments and refunds, and whether the books agree.",
		Rows: []Row{
			{Title: "Orders", Panels: []Panel{
				{
					Title: "Orders by state", Unit: "reqps", About: "Orders that reach a state.",
					Queries: []Query{{"{{flashsale_state}} {{flashsale_reason}}", rate("flashsale_state, flashsale_reason", "flashsale_order_orders_total")}},
				},
				{
					Title: "Refunds", Unit: "reqps", About: "Refunds that reach a state.",
					Queries: []Query{{"{{flashsale_state}}", rate("flashsale_state", "flashsale_order_refunds_total")}},
				},
				{
					Title: "Refunds that their provider refused", Unit: "short", Alert: "FlashsaleRefundsRefused",
					About:   "They wait for an operator.",
					Queries: []Query{{"refunds", "max(flashsale_order_refunds_refused)"}},
				},
				{
					Title: "Calls of payment providers", Unit: "reqps", About: "By what came of them. busy is a provider that takes no more calls.",
					Queries: []Query{{"{{flashsale_provider}} {{flashsale_call}} {{flashsale_outcome}}", "topk(8, " +
						rate("flashsale_provider, flashsale_call, flashsale_outcome", "flashsale_order_provider_calls_total") + ")"}},
				},
				{
					Title: "Differences with payment providers", Unit: "short", Alert: "FlashsalePaymentDifferences",
					About:   "What the hourly comparison left. 0 is normal.",
					Queries: []Query{{"{{flashsale_provider}}", `max by (flashsale_provider) (flashsale_differences{service="order"})`}},
				},
				{
					Title: "Messages of order that wait", Unit: "short", About: "Rows of the outbox. It returns to 0 within seconds.",
					Queries: []Query{{"rows", "max(flashsale_order_outbox_waiting)"}},
				},
				{
					Title: "Age of the oldest of them", Unit: "s", Alert: "FlashsaleOutboxStuck",
					About:   "Payments and cancellations wait with it.",
					Queries: []Query{{"oldest", "max(flashsale_order_outbox_age_seconds)"}},
				},
			}},
			{Title: "Books", Panels: []Panel{
				{
					Title: "Differences of gate and ledger", Unit: "short", Alert: "FlashsaleDifferences",
					About:   "What the last comparison left. 0 is normal.",
					Queries: []Query{{"differences", `max(flashsale_differences{service="inventory"})`}},
				},
				{
					Title: "Time since the last comparison", Unit: "s", Alert: "FlashsaleNotCompared",
					About:   "Of every gate with the ledger.",
					Queries: []Query{{"comparison", `time() - max(flashsale_compared_seconds{service="inventory"})`}},
				},
				{
					Title: "Repairs", Unit: "short", Alert: "FlashsaleRepairs",
					About:   "Within the last hour, by kind. A failover of Redis may need some.",
					Queries: []Query{{"{{flashsale_repair}}", count("flashsale_repair", "flashsale_inventory_repairs_total")}},
				},
				{
					Title: "Incidents", Unit: "short", Alert: "FlashsaleIncident",
					About:   "States that must not occur, within the last hour.",
					Queries: []Query{{"{{service}} {{flashsale_kind}}", count("service, flashsale_kind", "flashsale_incidents_total")}},
				},
				{
					Title: "Dead letters", Unit: "short", Alert: "FlashsaleDeadLetters",
					About:   "Open ones, which wait for an operator.",
					Queries: []Query{{"open", "max(flashsale_inventory_dead_letters_open)"}},
				},
				{
					Title: "Rows and entries that cannot be read", Unit: "short", Alert: "FlashsaleUnreadable",
					About: "Within the last hour. 0 is normal.",
					Queries: []Query{
						{"journal", count("", "flashsale_seckill_relay_unreadable_total")},
						{"ledger", count("", "flashsale_inventory_ledger_unreadable_total")},
					},
				},
			}},
		},
	}
}

// count returns the events of a counter in the last hour, by a label.
func count(by, counter string) string {
	if by == "" {
		return fmt.Sprintf("sum(increase(%s[1h]))", counter)
	}
	return fmt.Sprintf("sum by (%s) (increase(%s[1h]))", by, counter)
}
