package dashboards

// dependencies is what the services need, as the services see it: no exporter of a dependency is needed.
func dependencies() Dashboard {
	return Dashboard{
		Name: "dependencies", Title: "Flashsale: dependencies",
		About: "Processes, Redis, databases, RocketMQ and clocks, as the services see them.",
		Rows: []Row{
			{Title: "Processes", Panels: []Panel{
				{
					Title: "Processes", Unit: "short", Alert: "FlashsaleServiceDown", About: "That respond to Prometheus.",
					Queries: []Query{{"{{service}}", `sum by (service) (up{job="flashsale"})`}},
				},
				{
					Title: "Processors", Unit: "short", About: "Used, in cores, by service.",
					Queries: []Query{{"{{service}}", rate("service", `process_cpu_seconds_total{job="flashsale"}`)}},
				},
				{
					Title: "Memory", Unit: "bytes", About: "Resident memory of the largest process of each service.",
					Queries: []Query{{"{{service}}", `max by (service) (process_resident_memory_bytes{job="flashsale"})`}},
				},
				{
					Title: "Calls between services and to providers", Unit: "s", About: "99 % are faster.",
					Queries: []Query{{"{{service}} to {{server_address}}", quantile(0.99, "service, server_address", "http_client_request_duration_seconds_bucket")}},
				},
				{
					Title: "Clocks", Unit: "s", Alert: "FlashsaleClockOff",
					About:   "Difference to the clock of a dependency. An alarm is beyond 0.25 s.",
					Queries: []Query{{"{{service}} {{flashsale_dependency}}", "max by (service, flashsale_dependency) (abs(flashsale_clock_offset_seconds))"}},
				},
				{
					Title: "Repetitions left", Unit: "short",
					About:   "Of calls to a database that failed for a moment. At 0 they fail at once.",
					Queries: []Query{{"{{service}}", "min by (service) (flashsale_repeats_left)"}},
				},
			}},
			{Title: "Connections", Panels: []Panel{
				{
					Title: "Breakers", Unit: "short", Alert: "FlashsaleRedisDown", About: "0 closed, 1 half open, 2 open: the dependency does not respond.",
					Queries: []Query{{"{{service}} to {{flashsale_dependency}}", "max by (service, flashsale_dependency) (flashsale_breaker)"}},
				},
				{
					Title: "Connections in use", Unit: "percentunit", Alert: "FlashsalePoolExhausted", About: "Of the largest number of a pool, in the fullest process.",
					Queries: []Query{{"{{service}} {{flashsale_dependency}}", `max by (service, flashsale_dependency) (max without (flashsale_state) (flashsale_pool_connections{flashsale_state="in_use"}) / ` +
						`max without (flashsale_state) (flashsale_pool_connections{flashsale_state="max"}))`}},
				},
				{
					Title: "Messages by transport", Unit: "reqps", Alert: "FlashsaleBrokerDown", About: "brokerless and none only while RocketMQ does not respond.",
					Queries: []Query{{"{{service}} {{flashsale_transport}}", rate("service, flashsale_transport", "flashsale_bus_published_total")}},
				},
			}},
			{Title: "Gate", Panels: []Panel{
				{
					Title: "Wait for the gate", Unit: "s", About: "Of a purchase until Redis has responded: 99 % are faster.",
					Queries: []Query{{"99 %", quantile(0.99, "", "flashsale_seckill_gate_wait_seconds_bucket")}},
				},
				{
					Title: "Purchases of a call to Redis", Unit: "short", About: "Half of the calls carry more. They grow with the load.",
					Queries: []Query{{"50 %", quantile(0.5, "", "flashsale_seckill_gate_group_bucket")}},
				},
				{
					Title: "Journal", Unit: "short", About: "Entries that are not published yet. It returns to 0 within seconds.",
					Queries: []Query{{"entries", "max(flashsale_seckill_journal_length)"}},
				},
				{
					Title: "Lag of the relay", Unit: "s", About: "From the acceptance to the message: 99 % are faster.",
					Queries: []Query{{"99 %", quantile(0.99, "", "flashsale_seckill_relay_lag_seconds_bucket")}},
				},
				{
					Title: "Free memory of Redis", Unit: "percent", Alert: "FlashsaleRedisFull", About: "Of the fullest master. Purchases end at 10 %.",
					Queries: []Query{{"free", "min(flashsale_seckill_gate_memory_free_percent)"}},
				},
				{
					Title: "Purchases that replicas did not confirm", Unit: "reqps", Alert: "FlashsaleUnconfirmed",
					About:   "Only with GATE_WAIT_REPLICAS.",
					Queries: []Query{{"purchases", rate("", "flashsale_seckill_gate_unconfirmed_total")}},
				},
				{
					Title: "Sales by mode", Unit: "short", Alert: "FlashsaleRedisless", About: "Of sales that may go on without Redis: gate is normal.",
					Queries: []Query{{"{{flashsale_mode}}", "max by (flashsale_mode) (flashsale_inventory_modes)"}},
				},
			}},
		},
	}
}
