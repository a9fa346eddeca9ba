package main

// mutant replaces the text old, which occurs once in file, by now. If hidden is set, another component repairs or
// prevents the effect: then the random run need not detect the mutant, but the unit test must.
type mutant struct {
	name, file, old, now string
	hidden               string
	test                 unit // with hidden
}

// unit is a test: its package and the pattern for -run.
type unit struct{ pkg, run string }

const (
	coreDir  = "services/inventory/internal/core/"
	sweepDir = "services/inventory/internal/sweep/"
	orderDir = "services/order/internal/"
	luaDir   = "pkg/stockgate/lua/"
)

var mutants = []mutant{
	{
		name: "outbox ignores publish errors", file: "pkg/outbox/relay.go",
		old: "err = r.pub.Publish(pctx, m)\n\tcancel()\n\tif err != nil {",
		now: "_ = r.pub.Publish(pctx, m)\n\tcancel()\n\tif err = nil; err != nil {",
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
			"      local new = copy(old)\n      new.stage = old.stage == 'c' and 'x' or stage",
		now: "else\n      local new = copy(old)\n      new.stage = stage",
	},
	{
		name: "settle raises a terminal entry", file: luaDir + "settle.lua",
		old: "elseif holds(old) then\n    new = copy(old)\n    new.user, new.lines = user, lines\n    if RANK",
		now: "elseif rank(old) > 0 then\n    new = copy(old)\n    new.user, new.lines = user, lines\n" +
			"    if ended(old) or RANK",
	},
	{
		name: "a terminal entry releases its units again", file: luaDir + "prelude.lua",
		old: "elseif holds(old) and (old.stage ~= 'p' or stage == 'x' and reason == 'refunded') then\n      local new",
		now: "elseif old.stage ~= 'p' then\n      if ended(old) then old.stage = 'l' end\n      local new",
	},
	{
		name: "adjustments not once by id", file: luaDir + "adjust.lua",
		old: "if stored == 'm' then return 'ok' end", now: "if stored == 'm' then stored = nil end",
	},
	{
		name: "an undone adjustment stays", file: coreDir + "gatesync.go",
		old: "return g.gate.UndoAdjust(ctx, ref, a)", now: "return nil",
		hidden: "the reconciler corrects the counters",
		test:   unit{"services/inventory", "^TestKilledWhileAdjusting$/^refused_by_the_database$"},
	},
	{
		name: "a released row is released again", file: coreDir + "events.go",
		old: "case contract.OrderClosed:\n\t\tswitch row.State {\n\t\tcase StateReserved:",
		now: "case contract.OrderClosed:\n\t\tswitch row.State {\n\t\tcase StateReserved, StateReleased:",
	},
	{
		name: "a late payment without a unit is kept", file: coreDir + "events.go",
		old: "case StateReleased, StateRejected:\n\t\t\tf.refunds = append(f.refunds, row.OrderSN)",
		now: "case StateReleased, StateRejected:",
	},
	{
		name: "a refunded order keeps its units", file: coreDir + "closing.go",
		old: "st.kind = contract.OrderRefunded", now: "st.kind = contract.OrderPaid",
		hidden: "in a sale an order is refunded only after the ledger has released its units",
		test:   unit{"services/inventory", "^TestARefundedOrderReleasesItsUnitsOnce$/^sqlite$"},
	},
	{
		name: "allowances are not released", file: coreDir + "reservation.go",
		old: "m.Allowances[Buyer{r.ActivityID, r.UserID}] -= r.units()", now: "",
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
		old: "if err := w.Inventory.PublishClosing(ctx, closing); err != nil {",
		now: "if err := error(nil); err != nil && len(closing.OrderSNs) > 0 {",
	},
	{
		name: "lost closings are ignored", file: orderDir + "core/sweep.go",
		old: "if err := s.pub.Close(ctx, c.OrderClose, c.traceparents, 0); err != nil {",
		now: "if err := error(nil); err != nil && c.ActivityID != \"\" {",
	},
	{
		name: "unfinished adjustments are ignored", file: sweepDir + "adjustments.go",
		old: "_, err := w.Inventory.ResumeAdjustment(ctx, a)", now: "var err error",
	},
	{
		name: "a failed adjustment stays first", file: sweepDir + "adjustments.go",
		old: "failed = append(failed, a)", now: "",
		hidden: "a sale has few adjustments",
		test:   unit{"services/inventory", "^TestAStuckAdjustmentIsTriedAgainAfterGrowingPauses$/^sqlite$"},
	},
	{
		name: "a rejected conflict keeps its units", file: coreDir + "deadletter.go",
		old: "return s.endConflicting(ctx, row, it, d.FailedAt)", now: "return nil",
		hidden: "a simulated sale has one activity",
		test:   unit{"services/inventory", "^TestRejectingAConflictingOrderSNEndsTheEntryThatHoldsItsUnits$"},
	},
	{
		name: "no tombstones", file: orderDir + "core/closing.go",
		old: "if len(missing) > 0 {", now: "if false {",
	},
	{
		name: "orders close early", file: orderDir + "core/closing.go",
		old: "case now.Before(o.ExpiresAt):", now: "case now.Before(o.ExpiresAt.Add(-2 * time.Second)):",
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
		name: "known orders get no closing", file: orderDir + "core/land.go",
		old: "for _, o := range append(fresh, known...) {", now: "for _, o := range fresh {",
		hidden: "order resends the closings of overdue orders",
		test:   unit{"services/order/internal/core", "^TestARedeliveredDeductionPublishesTheSameEvents$/^sqlite$"},
	},
	{
		name: "a new master is not synced", file: coreDir + "gatecontroller.go",
		old: "if r.lacks(a.ID) {", now: "if r.lacks(a.ID) && false {",
		hidden: "the reconciler updates the gate some seconds later",
		test:   unit{"services/inventory", "^TestANewMasterIsSynced$/^sqlite$"},
	},
	{
		name: "a restart shortens the window of a new master", file: coreDir + "gatecontroller.go",
		old: "return c.At.Add(-window)", now: "return now.Add(-window)",
		hidden: "the reconciler updates the gate some seconds later",
		test:   unit{"services/inventory", "^TestAMasterReplacedAfterALongOutageAndARestartIsSynced$/^sqlite$"},
	},
	{
		name: "failed refunds are not retried", file: orderDir + "core/sweep.go",
		old: "return s.store.StoreRefundError(ctx, r.PaymentID, refundErr.Error())\n}",
		now: "return s.finishRefund(ctx, r, RefundFailed, refundErr.Error())\n}",
	},
}
