package main

// playedMutants are the mutants that a simulated sale detects.
var playedMutants = []mutant{
	{
		name: "outbox ignores publish errors", file: "pkg/outbox/relay.go",
		old: "err = r.pub.Publish(pctx, m)\n", now: "_ = r.pub.Publish(pctx, m)\n",
	},
	{
		name: "a brokerless message counts as published on failure", file: brokerlessDir + "publisher.go",
		old: "err = p.client.post(ctx, consumer, m)", now: "_ = p.client.post(ctx, consumer, m)",
	},
	{
		name: "the brokerless listener accepts a message on failure", file: brokerlessDir + "listener.go",
		old: "if err := c.handle(ctx, d); err != nil {", now: "if err := c.handle(ctx, d); err != nil && len(consumers) == 0 {",
	},
	{
		name: "a mode never returns", file: gatesDir + "controller.go",
		old: "return c.Modes.ReturnToGate(ctx, a)", now: "return nil",
	},
	{
		name: "a purchase in the journal does not exist", file: keptDir + "switch.go",
		old: "if !issuedRedisless(orderSN) {", now: "if false {",
	},
	{
		name: "events acknowledged on failure", file: "services/inventory/internal/consumer/consumer.go",
		old: "return c.core.Follow(",
		now: "_ = c.core.Follow(ctx, list, c.deadLetters(contract.TopicOrderEvents, " +
			"contract.GroupInventoryOrderEvents, bad))\n\treturn nil\n}\n\n" +
			"func (c *Consumer) follow(ctx context.Context, list []contract.OrderEvent, bad []contract.BadItem) " +
			"error {\n\treturn c.core.Follow(",
	},
	{
		name: "closings acknowledged on failure", file: "services/inventory/internal/consumer/consumer.go",
		old: "return c.core.CloseDue(ctx, list, c.deadLetters(",
		now: "_, _ = bad, c.core.CloseDue(ctx, list, nil)\n\treturn nil\n}\n\n" +
			"func (c *Consumer) closeDue(ctx context.Context, list []contract.OrderClose, bad " +
			"[]contract.BadItem) error {\n\treturn c.core.CloseDue(ctx, list, c.deadLetters(",
	},
	{
		name: "finish changes a terminal entry", file: luaDir + "prelude.lua",
		old: "elseif holds(old) and (old.stage ~= 'p' or stage == 'x' and reason == 'refunded') then\n" +
			"    new = copy(old)\n    new.stage = old.stage == 'c' and 'x' or stage",
		now: "elseif true then\n    new = copy(old)\n    new.stage = stage",
	},
	{
		name: "settle raises a terminal entry", file: luaDir + "settle.lua",
		old: "elseif holds(old) then\n    new = copy(old)\n    new.user, new.lines = user, lines\n    if RANK",
		now: "elseif rank(old) > 0 then\n    new = copy(old)\n    new.user, new.lines = user, lines\n" +
			"    if ended(old) or RANK",
	},
	{
		name: "a terminal entry releases its units again", file: luaDir + "prelude.lua",
		old: "elseif holds(old) and (old.stage ~= 'p' or stage == 'x' and reason == 'refunded') then\n    new",
		now: "elseif old.stage ~= 'p' then\n    if ended(old) then old.stage = 'l' end\n    new",
	},
	{
		name: "adjustments not once by id", file: luaDir + "adjust.lua",
		old: "  return 'ok'\nend\nlocal applied_sku", now: "  stored = nil\nend\nlocal applied_sku",
	},
	{
		name: "a released row is released again", file: ledgerDir + "moves.go",
		old: "case s.Order == contract.OrderClosed && r.State == StateReserved:",
		now: "case s.Order == contract.OrderClosed && (r.State == StateReserved || r.State == StateReleased):",
	},
	{
		name: "a late payment without a unit is kept", file: coreDir + "events.go",
		old: "f.refunds = append(f.refunds, row.OrderSN)", now: "",
	},
	{
		name: "allowances are not released", file: ledgerDir + "moves.go",
		old: "m.Allowances[r.Buyer()] -= Units(r.Lines)", now: "",
	},
	{
		name: "unlanded purchases are ignored", file: sweepDir + "journal.go",
		old: "if !open[e.OrderSN] && w.journaled.due(e.OrderSN, redisNow) {", now: "if open[e.OrderSN] && false {",
	},
	{
		name: "lost deductions are ignored", file: sweepDir + "orders.go",
		old: "if err := w.Inventory.PublishDeductions(ctx, republish); err != nil {\n\t\treturn false, err\n\t}",
		now: "_ = republish",
	},
	{
		name: "overdue reservations are ignored", file: sweepDir + "overdue.go",
		old: "if err := w.Inventory.PublishClosing(ctx, closing, 0); err != nil {",
		now: "if err := error(nil); err != nil && len(closing.OrderSNs) > 0 {",
	},
	{
		name: "lost closings are ignored", file: orderDir + "core/sweep.go",
		old: "if err := tx.AddClosing(c.OrderClose); err != nil {", now: "if err := error(nil); err != nil {",
	},
	{
		name: "unfinished adjustments are ignored", file: sweepDir + "adjustments.go",
		old: "_, err := w.Gates.ResumeAdjustment(ctx, a)", now: "var err error",
	},
	{
		name: "no tombstones", file: orderDir + "core/closing.go",
		old: "if len(missing) > 0 {", now: "if false {",
	},
	{
		name: "orders close early", file: orderDir + "core/closing.go",
		old: "if c.orders, err = tx.Close(sns, reason, c.at); err != nil {", now: "if c.orders, err = tx.Close(sns, reason, c.at.Add(2*time.Second)); err != nil {",
	},
	{
		name: "comparisons skip the charges of the provider", file: orderDir + "core/reconcile.go",
		old: "if !how.young(c.At) || c.OtherInstallation {", now: "if !how.young(c.At) && how.until.IsZero() {",
	},
	{
		name: "a second payment is kept", file: orderDir + "core/callback.go",
		old: "done.refund = &r\n\treturn tx.InsertRefund(r)", now: "done.refund = &r\n\treturn nil",
	},
	{
		name: "a wrong amount pays", file: orderDir + "core/callback.go",
		old: "case e.Amount != p.Amount || e.Currency != p.Currency:", now: "case e.Currency != p.Currency:",
	},
	{
		name: "failed refunds are not retried", file: orderDir + "core/sweep.go",
		old: "return s.store.StoreRefundError(ctx, r.PaymentID, refundErr.Error())\n}",
		now: "return s.finishRefund(ctx, r, RefundFailed, refundErr.Error())\n}",
	},
	// Full memory.
	{
		name: "scripts stop at full memory", file: luaDir + "prelude.lua",
		old: "local function run_at_full_memory() redis.call('HDEL', GATE, '') end",
		now: "local function run_at_full_memory() end",
	},
	{
		name: "the reserve of memory is used up", file: gateDir + "memory.go",
		old: "m.Full = m.Max > 0 &&", now: "m.Full = m.Max < 0 &&",
	},
	{
		name: "ack waits for memory", file: luaDir + "ack.lua",
		old: "redis.pcall('XACK'", now: "redis.call('HINCRBY', JOURNALED, 'joined', '0')\nredis.pcall('XACK'",
	},
	// Leases of worker ids.
	{
		name: "a worker id issues at once", file: leaseDir + "acquire.lua",
		old: "from = math.max(now + lease + behind, seen) + 1", now: "from = now + 1",
	},
	{
		name: "a lost worker id is renewed", file: leaseDir + "renew.lua",
		old: "if owner ~= ARGV[1] then", now: "if not owner then",
	},
	// A 202 that waits for a replica.
	{
		name: "a 202 does not wait for the replica", file: gateDir + "reserve.go",
		old: "return verdicts, g.confirmVerdicts(ctx, activityID, requests, verdicts, confirmed)",
		now: "_ = confirmed\n\treturn verdicts, nil",
	},
	{
		name: "a repeated purchase does not wait for the replica", file: gateDir + "reserve.go",
		old: "if !v.mayBeLost() || wrote && confirmed {", now: "if !v.mayBeLost() || wrote && confirmed || v.Outcome == Known {",
	},
	// The gate's figures.
	{
		name: "accepted units stay left", file: luaDir + "reserve.lua",
		old: "  count(line.left, -n)\n", now: "",
	},
	{
		name: "a buyer keeps released units", file: luaDir + "prelude.lua",
		old: "b.units = b.units - units_of(lines)", now: "b.units = b.units + 0",
	},
	{
		name: "journaling again takes the units again", file: luaDir + "rejournal.lua",
		old: "change(sn, old, new)", now: "change(sn, nil, new)",
	},
	{
		name: "ended entries are trimmed at once", file: luaDir + "prelude.lua",
		old: "local DAY = 86400000", now: "local DAY = 2000",
	},
	// Ledger and orders.
	{
		name: "reservations acknowledged on failure", file: "services/inventory/internal/consumer/consumer.go",
		old: "return c.core.Land(ctx, list, c.deadLetters(",
		now: "_, _ = bad, c.core.Land(ctx, list, nil)\n\treturn nil\n}\n\n" +
			"func (c *Consumer) land(ctx context.Context, list []contract.Reservation, bad " +
			"[]contract.BadItem) error {\n\treturn c.core.Land(ctx, list, c.deadLetters(",
	},
	{
		name: "a payment gets no event", file: orderDir + "core/callback.go",
		old: "return tx.AddEvents([]contract.OrderEvent{o.event(contract.OrderPaid, now)})", now: "return nil",
	},
	{
		name: "purchases of the gate are not imported", file: restoreDir + "entries.go",
		old: "case it.Stage.Holds():\n\t\t\tlost = append(lost, it.OrderSN)", now: "case it.Stage.Holds():",
	},
	{
		name: "lost orders are not created again", file: restoreDir + "rows.go",
		old: "due = append(due, r)", now: "",
	},
	{
		name: "an imported gate sells what its entries hold", file: luaDir + "renew_epoch.lua",
		old: "int(tonumber(total) - held - sold)", now: "int(tonumber(total) - sold)",
	},
	{
		name: "a charge that is found pays nothing", file: orderDir + "core/reconcile.go",
		old: "if p, ended, err = s.insertCharged(ctx, prov, c, returned, keep); err != nil || ended != \"\" {",
		now: "if keep {\n\t\t\treturn ReconcileKept, nil\n\t\t}\n\t\tif p, ended, err = s.insertCharged(ctx, prov, c, returned, keep); err != nil || ended != \"\" || true {",
	},
	{
		name: "a path needs no pass of a challenge", file: "services/seckill/internal/challenge/challenge.go",
		old: "if !sale.Challenge.On() {\n\t\treturn nil", now: "if !sale.Challenge.On() || pass == \"\" {\n\t\treturn nil",
	},
	{
		name: "a path needs no admitted place", file: "services/seckill/internal/room/tickets.go",
		old: "switch state, place := stateOf(&room, number.Sequence, now); state {\n\tcase Admitted:",
		now: "switch state, place := stateOf(&room, number.Sequence, now); state {\n\tcase Admitted, Waiting:",
	},
	{
		name: "a delivery ends at an error of its endpoint", file: webhookDir + "send.go",
		old: "case d.Error == \"\":\n\t\td.State = Delivered", now: "case d.Error == \"\" || status >= 500:\n\t\td.State = Delivered",
	},
	{
		name: "each attempt of an event has another id", file: webhookDir + "event.go",
		old: "d.EndpointID, of, d.ChangedAt.UnixMilli())", now: "d.EndpointID, of, d.ChangedAt.UnixMilli()+int64(d.Attempts))",
	},
	{
		name: "the second change of an order is no event", file: storeDir + "deliveries.go",
		old: "known[webhooks.ChangeID{EndpointID: text(endpoint), OrderSN: text(sn), ChangedAt: at.UnixMilli()}] = true",
		now: "for _, p := range c {\n\t\t\t\tif number(p.OrderSN) == sn {\n\t\t\t\t\tknown[webhooks.ChangeID{EndpointID: text(endpoint), OrderSN: text(sn), ChangedAt: p.ChangedAt.UnixMilli()}] = err == nil\n\t\t\t\t}\n\t\t\t}",
	},
	{
		name: "a lease lasts an hour longer", file: storeDir + "webhooks.go",
		old: "until, number(id), now, now.Add(", now: "until, number(id), now.Add(-time.Hour), now.Add(",
	},
	{
		name: "a refund counts as made when the provider is busy", file: orderDir + "core/sweep.go",
		old: "return prov.Refund(ctx, p)",
		now: "err = prov.Refund(ctx, p)\n\tif busy := new(ProviderBusy); errors.As(err, &busy) {\n\t\treturn nil\n\t}\n\treturn err",
	},
}
