package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// retries lists the loops that repeat failed work, by folder and function, or by the name of the round. Each has a
// test that gives it an error that never ends, or shows what bounds it: an item that is refused for ever holds up no
// other, or ends the loop with a reason. What stays is logged once a minute (lifecycle.Failures).
var retries = map[string]string{
	// Ended by a bound, or by an error that no repetition changes.
	"services/allinone.call":                      "services/allinone TestTheDemoEndsAtARefusal",
	"pkg/command.retry":                           "pkg/command TestMigrateWaitsForAnUnreachableDatabase",
	"services/order/internal/consumer.Deductions": "services/order/internal/core TestAPoisonedItemDoesNotHoldUpTheOthers",
	"pkg/bus/rocketmq.EnsureTopics":               "pkg/bus/rocketmq TestEnsureTopicsEndsAtADenial",
	"pkg/sqldb.InTx":                              "pkg/sqldb TestConstraintAndDataErrorsArePermanent",
	"pkg/sqldb.Migrate":                           "pkg/sqldb TestMigrateRefusesAnOlderSchema",
	"pkg/sqldb.repeatLockWaits":                   "pkg/sqldb TestAMigrationDoesNotBlockATableInUse",
	// Repeated as long as the process runs. What is refused by itself is left out.
	"pkg/auth.keepFresh":                           "pkg/auth TestBadKeySetsChangeNothing",
	"services/inventory/internal/board.run":        "services/inventory/internal/board TestAPanicInASampler",
	"services/inventory.watchGates":                "services/inventory/internal/redisless TestALostRedisLosesAllGates",
	"pkg/ordersn.Run":                              "pkg/ordersn TestUnreachableRedisStopsIssuingWithinTheLease",
	"pkg/outbox.Run":                               "pkg/outbox TestManyRefusedRowsDoNotDelayOthers",
	"pkg/outbox.publish":                           "pkg/outbox TestARefusedRowDoesNotDelayOthers",
	"services/seckill/internal/redisless.handOver": "services/seckill/internal/redisless TestARefusedPurchaseHoldsUpNoOther",
	"services/seckill/internal/redisless.read":     "services/seckill/internal/redisless TestNumbersIssuedWithoutRedisNeedRecentModes",
	"services/seckill/internal/relay.run":          "services/seckill/internal/relay TestUnreadableEntryBlocksNoOther",
	"pkg/bus/rocketmq.checkPublishing":             "pkg/bus/rocketmq TestADeniedPublisherIsNotReady",
	"pkg/bus/rocketmq.ready":                       "pkg/bus/rocketmq TestAConsumerSaysWhatItWaitsFor",
	"pkg/bus/rocketmq.run":                         "pkg/bus/rocketmq TestOutages",
	"pkg/ratelimit/rules.poll":                     "pkg/ratelimit/rules TestRulesInRedis",
	"adjustment sweep":                             "services/inventory TestABadAdjustmentStopsNothingElse",
	"gate controller":                              "services/inventory TestABrokenGateDoesNotBlockOthers",
	"import":                                       "services/inventory TestAnImportSetsAsideWhatCannotBeRead",
	"inventory reconciler":                         "services/inventory TestABrokenGateDoesNotStopTheReconciler",
	"inventory webhook scan":                       "services/inventory TestABrokenWebhookDelaysNoOther",
	"inventory webhooks":                           "services/inventory TestAFailedDeliveryHasTenAttempts",
	"journal sweep":                                "services/inventory TestAnUnreadableRowDoesNotStopTheJournalSweep",
	"order closings sweep":                         "services/order/internal/core TestTheSweepReplacesClosingsThatWereNotSent",
	"order contacts sweep":                         "services/order/internal/core TestManyContactsAreDeleted",
	"order payment comparison":                     "services/order/internal/core TestAComparisonThatEndedBeginsAgain",
	"order payments of closed orders":              "services/order/internal/core TestACancellationIsRepeatedAndEnds",
	"order refunds":                                "services/order/internal/core TestARefusedRefundWaitsForAnOperator",
	"order sweep":                                  "services/inventory TestManyStuckSalesDoNotStarveTheDeductionsOfOthers",
	"overdue sweep":                                "services/inventory TestAnUnreadableRowDoesNotBlockOthers",
	"tidying":                                      "services/inventory TestABrokenGateDoesNotStopTheTidying",
	// One statement, without items that could be refused.
	"inventory dead letter count":     "pkg/lifecycle TestFailuresAreLoggedOnceAMinute",
	"order idempotency keys sweep":    "pkg/lifecycle TestFailuresAreLoggedOnceAMinute",
	"order outbox count":              "pkg/lifecycle TestFailuresAreLoggedOnceAMinute",
	"order payment differences count": "pkg/lifecycle TestFailuresAreLoggedOnceAMinute",
	"order refused refunds count":     "pkg/lifecycle TestFailuresAreLoggedOnceAMinute",
}

func TestEveryRetryLoopKnowsWhatEndsIt(t *testing.T) {
	t.Chdir("../../..")
	found := retryLoops(t, "services", "pkg")
	for loop := range found {
		assert.NotEmpty(t, retries[loop], "%s at %s: give it a permanent refusal, and list the test", loop, found[loop])
	}
	for loop, of := range retries {
		assert.NotEmpty(t, found[loop], "%s has gone", loop)
		dir, name, _ := strings.Cut(of, " ")
		assert.True(t, hasTest(t, dir, name), "%s: no test %s in %s", loop, name, dir)
	}
}

// retryLoops returns the functions that use the back-off library or lifecycle.Failures, and the rounds of
// lifecycle.Every, each with its place.
func retryLoops(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") ||
				strings.HasPrefix(file, "pkg/lifecycle/") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				in, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(in, func(n ast.Node) bool {
					if loop := retryLoop(n, filepath.Dir(file)+"."+in.Name.Name); loop != "" {
						found[loop] = set.Position(n.Pos()).String()
					}
					return true
				})
			}
			return nil
		}))
	}
	return found
}

// retryLoop returns the name of the loop that a node of a function paces, or nothing.
func retryLoop(n ast.Node, function string) string {
	if of, ok := n.(*ast.SelectorExpr); ok {
		from, _ := of.X.(*ast.Ident)
		made := []string{"Retry", "ExponentialBackOff", "NewExponentialBackOff"}
		if from != nil && from.Name == "backoff" && slices.Contains(made, of.Sel.Name) {
			return function
		}
		return ""
	}
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	called := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		called = f.Name
	case *ast.SelectorExpr:
		called = f.Sel.Name
	}
	switch called {
	case "Observe":
		if len(call.Args) == 4 {
			return function
		}
	case "Every", "EveryOrWoken", "EveryWithin", "alone", "aloneOrWoken":
		if name, ok := call.Args[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
			text, _ := strconv.Unquote(name.Value)
			return text
		}
	}
	return ""
}

// hasTest reports whether a test of that name stands in a directory.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(path.Join(dir, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Contains(string(text), "func "+name+"(t *testing.T) {")
	})
}
