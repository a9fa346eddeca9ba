package main

import "slices"

// mutant replaces the text old, which occurs once in file, by now. If hidden is set, another component repairs or
// prevents the effect: then the unit test must detect the mutant, and no sale is played.
type mutant struct {
	name, file, old, now string
	hidden               string
	test                 unit // with hidden
}

// unit is a test: its package and the pattern for -run.
type unit struct{ pkg, run string }

const (
	coreDir       = "services/inventory/internal/core/"
	ledgerDir     = "services/inventory/internal/ledger/"
	gatesDir      = "services/inventory/internal/gates/"
	soldDir       = "services/inventory/internal/redisless/"
	sweepDir      = "services/inventory/internal/sweep/"
	restoreDir    = "services/inventory/internal/restore/"
	webhookDir    = "services/inventory/internal/webhooks/"
	orderDir      = "services/order/internal/"
	luaDir        = "pkg/stockgate/lua/"
	leaseDir      = "pkg/ordersn/lua/"
	gateDir       = "pkg/stockgate/"
	brokerlessDir = "pkg/bus/brokerless/"
	keptDir       = "services/seckill/internal/redisless/"
)

var mutants = slices.Concat(playedMutants, testedMutants)
