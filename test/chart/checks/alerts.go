package checks

import (
	"bytes"
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// An alert is a rule of the chart's file.
type alert struct {
	Name        string `json:"alert"`
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func ruleFile() string { return filepath.Join(chart(), "files/alerts.yaml") }

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(ruleFile())
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Rules)
	return file.Groups[0].Rules
}

// Each alert has a section in the runbook, and each section is about an alert.
func alertsAreInTheRunbook(t *testing.T) {
	runbook, err := os.ReadFile(filepath.Join(tools.root, "docs/runbook.md"))
	require.NoError(t, err)
	var names, sections []string
	for _, a := range alerts(t) {
		names = append(names, a.Name)
		require.Equal(t, "docs/runbook.md#"+strings.ToLower(a.Name), a.Annotations["runbook_url"], a.Name)
		require.NotEmpty(t, a.Annotations["summary"], a.Name)
		require.Len(t, a.Annotations, 2, a.Name)
		require.Contains(t, []string{"page", "ticket"}, a.Labels["severity"], a.Name)
		require.Len(t, a.Labels, 1, a.Name)
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Flashsale\w+)$`).FindAllStringSubmatch(string(runbook), -1) {
		sections = append(sections, m[1])
	}
	require.ElementsMatch(t, names, sections)
}

// increase() does not see the event with which a series begins, and no series shows that a process is down.
func alertsSeeTheFirstEventAndAnAbsence(t *testing.T) {
	for _, a := range alerts(t) {
		for _, m := range regexp.MustCompile(`increase\((flashsale_\w+_total)\b`).FindAllStringSubmatch(a.Expr, -1) {
			require.Regexp(t, m[1]+`(\{[^}]*\})?\s+unless `+m[1]+` offset 5m`, a.Expr, a.Name)
		}
		if regexp.MustCompile(`== (bool )?0`).MatchString(a.Expr) {
			require.Contains(t, a.Expr, "absent(", a.Name)
		}
	}
}

// A rule about a metric that no service has would never fire.
func alertsAreAboutMetricsOfTheServices(t *testing.T) {
	exists := metricsOfTheServices(t)
	for _, a := range alerts(t) {
		for _, used := range usedMetrics.FindAllString(a.Expr, -1) {
			require.True(t, exists(used), "%s: %s", a.Name, used)
		}
	}
}

var usedMetrics = regexp.MustCompile(`flashsale_\w+`)

// metricsOfTheServices returns whether a series of Prometheus is one of a metric that the code makes.
func metricsOfTheServices(t *testing.T) func(series string) bool {
	t.Helper()
	known := map[string]bool{}
	name := regexp.MustCompile(`"(flashsale\.[a-z_.]+)"`)
	for _, dir := range []string{"services", "pkg"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(tools.root, dir), func(file string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, m := range name.FindAllSubmatch(text, -1) {
				known[strings.ReplaceAll(string(m[1]), ".", "_")] = true
			}
			return err
		}))
	}
	suffix := regexp.MustCompile(`(_seconds|_percent)?(_total|_bucket|_count)?$`)
	return func(series string) bool { return known[series] || known[suffix.ReplaceAllString(series, "")] }
}

// healthy are the series of a sale in which nothing is wrong: the value at every 10 s of 20 minutes. After ten minutes a
// second process starts.
var healthy = map[string]string{
	`up{job="flashsale",service="seckill",instance="s"}`:   "1x120",
	`up{job="flashsale",service="order",instance="o"}`:     "1x120",
	`up{job="flashsale",service="inventory",instance="i"}`: "1x120",

	`flashsale_breaker{service="seckill",flashsale_dependency="redis"}`:         "0x120",
	`flashsale_breaker{service="order",flashsale_dependency="mysql"}`:           "0x120",
	`flashsale_breaker{service="seckill",flashsale_dependency="rocketmq"}`:      "0x120",
	`flashsale_breaker{service="order",flashsale_dependency="limits"}`:          "0x120",
	`flashsale_breaker{service="inventory",flashsale_dependency="order"}`:       "0x120",
	`flashsale_clock_offset_seconds{service="order",flashsale_dependency="db"}`: "-0.01x120",

	`flashsale_pool_connections{service="order",flashsale_dependency="mysql",flashsale_state="in_use"}`: "3x120",
	`flashsale_pool_connections{service="order",flashsale_dependency="mysql",flashsale_state="max"}`:    "20x120",

	`http_server_request_duration_seconds_count{service="order",http_response_status_code="200"}`: "0+500x120",
	`http_server_request_duration_seconds_count{service="order",http_response_status_code="503"}`: "0+1x120",

	`flashsale_edge_responses_total{service="edge",flashsale_limit="none",http_response_status_code="200"}`: "0+500x120",
	`flashsale_edge_responses_total{service="edge",flashsale_limit="none",http_response_status_code="502"}`: "0+1x120",

	`flashsale_seckill_not_landed`:                                                         "5x120",
	`flashsale_seckill_not_landed_age_seconds`:                                             "0x120",
	`flashsale_inventory_reservations_total{flashsale_outcome="landed",instance="i"}`:      "0+50x120",
	`flashsale_order_creation_lag_seconds_bucket{le="5"}`:                                  "0+50x120",
	`flashsale_order_creation_lag_seconds_count`:                                           "0+50x120",
	`flashsale_order_outbox_age_seconds`:                                                   "0x120",
	`flashsale_close_lateness_seconds_bucket{service="order",le="3"}`:                      "0+5x120",
	`flashsale_close_lateness_seconds_count{service="order"}`:                              "0+5x120",
	`flashsale_order_closings_resent_total{service="order"}`:                               "0x120",
	`flashsale_order_refunds_refused`:                                                      "0x120",
	`flashsale_differences{service="order",flashsale_provider="shop"}`:                     "0x120",
	`flashsale_compared_seconds{service="order",flashsale_provider="shop"}`:                "-3600x120",
	`flashsale_order_provider_calls_total{flashsale_provider="shop"}`:                      "0x120",
	`flashsale_incidents_total{service="order",flashsale_kind="dead_letter",instance="o"}`: "0x120",
	`flashsale_incidents_total{service="order",flashsale_kind="dead_letter",instance="p"}`: "_x60 0x60",
	`flashsale_inventory_dead_letters_open`:                                                "0x120",
	`flashsale_inventory_repairs_total{flashsale_repair="settled",instance="i"}`:           "0x120",
	`flashsale_inventory_repairs_total{flashsale_repair="settled",instance="j"}`:           "_x60 0x60",
	`flashsale_differences{service="inventory"}`:                                           "0x120",
	`flashsale_compared_seconds{service="inventory"}`:                                      "0+10x120",
	`flashsale_inventory_webhooks_oldest_seconds{flashsale_state="waiting"}`:               "3x120",
	`flashsale_seckill_relay_unreadable_total{service="seckill"}`:                          "0x120",
	`flashsale_inventory_ledger_unreadable_total{service="inventory"}`:                     "0x120",
	`flashsale_inventory_modes{flashsale_mode="direct"}`:                                   "0x120",
	`flashsale_seckill_gate_memory_free_percent`:                                           "60x120",
	`flashsale_seckill_gate_unconfirmed_total`:                                             "0x120",

	`flashsale_inventory_reservations_total{flashsale_outcome="refused",flashsale_reason="sold_out"}`:                  "0x120",
	`flashsale_limits_reloads_total{service="order",flashsale_outcome="refused",flashsale_source="file",instance="o"}`: "0x120",
}

// The courses of what goes wrong after ten minutes.
const (
	event = "0x60 1x60"      // a counter
	first = "_x61 1x60"      // a counter that begins with its first event
	for2m = "0x60 2x12 0x60" // a state that lasts for two minutes
)

// An alertCase is something wrong, and the alert that fires for it.
type alertCase struct {
	alert  string
	series map[string]string // replace or add to the healthy ones
	labels map[string]string
	before string // when it does not fire yet; 10m when empty
	at     string // when it fires; 11m when empty, which is within 60 s
	ends   string // when it is over; never when empty
}

func alertCases() []alertCase {
	breaker := func(service, dependency string) map[string]string {
		return map[string]string{`flashsale_breaker{service="` + service + `",flashsale_dependency="` + dependency + `"}`: for2m}
	}
	one := func(series, values string) map[string]string { return map[string]string{series: values} }
	of := func(service string) map[string]string { return map[string]string{"service": service} }
	paymentDifferences := `flashsale_differences{service="order",flashsale_provider="shop"}`
	paymentsCompared := `flashsale_compared_seconds{service="order",flashsale_provider="shop"}`
	byShop := map[string]string{"flashsale_provider": "shop"}
	landed := `flashsale_inventory_reservations_total{flashsale_outcome="landed",instance="i"}`
	refused := `flashsale_inventory_reservations_total{flashsale_outcome="refused",flashsale_reason="sold_out"}`
	displaced := `flashsale_inventory_reservations_total{flashsale_outcome="displaced",flashsale_reason="sold_out"}`
	return []alertCase{
		{alert: "FlashsaleServiceDown", series: one(`up{job="flashsale",service="seckill",instance="s"}`, "1x60 0x12 1x60"), labels: of("seckill"), ends: "13m"},
		{alert: "FlashsaleServiceDown", series: one(`up{job="flashsale",service="inventory",instance="i"}`, "1x60 stale"), labels: of("inventory")},
		{alert: "FlashsaleProcessDown", series: one(`up{job="flashsale",service="order",instance="p"}`, "1x60 0x24 1x60"), labels: of("order"), at: "12m30s", ends: "15m"},
		{alert: "FlashsaleRedisDown", series: breaker("seckill", "redis"), labels: of("seckill"), ends: "13m"},
		{alert: "FlashsaleMySQLDown", series: breaker("order", "mysql"), labels: of("order"), ends: "13m"},
		{alert: "FlashsaleBrokerDown", series: breaker("seckill", "rocketmq"), labels: of("seckill"), ends: "13m"},
		{alert: "FlashsaleLimitsAlone", series: breaker("order", "limits"), labels: of("order"), at: "11m30s", ends: "13m"},
		{alert: "FlashsaleOrderUnreachable", series: breaker("inventory", "order"), labels: map[string]string{"flashsale_dependency": "order"}, ends: "13m"},
		{
			alert: "FlashsaleClockOff", series: one(`flashsale_clock_offset_seconds{service="order",flashsale_dependency="db"}`, "0x60 -1x12 0x60"),
			labels: map[string]string{"service": "order", "flashsale_dependency": "db"}, ends: "13m",
		},
		{
			alert: "FlashsalePoolExhausted", labels: map[string]string{"service": "order", "flashsale_dependency": "mysql"}, at: "11m30s", ends: "13m",
			series: one(`flashsale_pool_connections{service="order",flashsale_dependency="mysql",flashsale_state="in_use"}`, "3x60 20x12 3x60"),
		},
		{
			alert: "FlashsaleServerErrors", labels: of("order"), ends: "13m30s",
			series: one(`http_server_request_duration_seconds_count{service="order",http_response_status_code="503"}`, "0x60 0+50x12 600x60"),
		},
		{
			alert: "FlashsaleEdgeErrors", ends: "13m30s",
			series: one(`flashsale_edge_responses_total{service="edge",flashsale_limit="none",http_response_status_code="502"}`, "0x60 0+50x12 600x60"),
		},
		{ // inventory is down: the series of what lands has ended
			alert: "FlashsaleLandingStalled", ends: "16m",
			series: map[string]string{`flashsale_seckill_not_landed_age_seconds`: "0x60 0+10x12 0x60", landed: "0+50x60 stale"},
		},
		{ // it lands, and falls further behind
			alert: "FlashsaleLandingStalled", at: "13m", series: one(`flashsale_seckill_not_landed_age_seconds`, "0x60 0+10x60"),
		},
		{ // what does not land is journaled again, and its age begins anew
			alert: "FlashsaleLandingStalled", at: "12m20s",
			series: one(`flashsale_seckill_not_landed_age_seconds`, "0x60 0+10x6 0+10x6 0+10x6 0x60"),
		},
		{alert: "FlashsaleOrdersLate", series: one(`flashsale_order_creation_lag_seconds_bucket{le="5"}`, "0+50x60 3000x12 3000+50x60"), at: "12m", ends: "19m"},
		{alert: "FlashsaleOutboxStuck", series: one(`flashsale_order_outbox_age_seconds`, "0x60 0+10x12 0x60"), ends: "13m"},
		{alert: "FlashsaleClosingsLate", series: one(`flashsale_close_lateness_seconds_bucket{service="order",le="3"}`, "0+5x60 300x12 300+5x60"), labels: of("order"), ends: "19m"},
		{alert: "FlashsaleClosingsLate", series: one(`flashsale_order_closings_resent_total{service="order"}`, event), labels: of("order"), ends: "16m"},
		{alert: "FlashsaleClosingsLate", series: one(`flashsale_order_closings_resent_total{service="order"}`, first), labels: of("order"), ends: "16m"},
		{alert: "FlashsaleRefundsRefused", series: one(`flashsale_order_refunds_refused`, for2m), ends: "13m"},
		{alert: "FlashsalePaymentDifferences", series: one(paymentDifferences, for2m), labels: byShop, ends: "13m"},
		{alert: "FlashsalePaymentsNotCompared", series: one(paymentsCompared, "-3600x60 -10300x36 600x60"), labels: byShop, at: "15m30s", ends: "17m"},
		{alert: "FlashsalePaymentsNotCompared", series: one(paymentsCompared, "_x120"), labels: of("order"), before: "4m", at: "5m30s"},
		{
			alert: "FlashsaleIncident", series: one(`flashsale_incidents_total{service="inventory",instance="i"}`, event),
			labels: of("inventory"), ends: "16m",
		},
		{
			alert: "FlashsaleIncident", series: one(`flashsale_incidents_total{service="order",flashsale_kind="refund_failed",instance="o"}`, first),
			labels: map[string]string{"service": "order", "flashsale_kind": "refund_failed"}, ends: "16m",
		},
		{alert: "FlashsaleDeadLetters", series: one(`flashsale_inventory_dead_letters_open`, for2m), ends: "13m"},
		{alert: "FlashsaleRepairs", series: one(`flashsale_inventory_repairs_total{flashsale_repair="adopted",instance="i"}`, event), labels: map[string]string{"flashsale_repair": "adopted"}, ends: "16m"},
		{alert: "FlashsaleRepairs", series: one(`flashsale_inventory_repairs_total{flashsale_repair="adopted",instance="i"}`, first), labels: map[string]string{"flashsale_repair": "adopted"}, ends: "16m"},
		{alert: "FlashsaleDifferences", series: one(`flashsale_differences{service="inventory"}`, "0x60 2x60 0x30"), before: "16m", at: "18m", ends: "21m"},
		{alert: "FlashsaleNotCompared", series: one(`flashsale_compared_seconds{service="inventory"}`, "0+10x6 60x120"), at: "16m30s"},
		{alert: "FlashsaleNotCompared", series: one(`flashsale_compared_seconds{service="inventory"}`, "_x120"), labels: of("inventory"), before: "4m", at: "5m30s"},
		{alert: "FlashsaleWebhooksLate", series: one(`flashsale_inventory_webhooks_oldest_seconds{flashsale_state="failing"}`, "0x60 0+10x12 0x60"), labels: map[string]string{"flashsale_state": "failing"}, ends: "13m"},
		{alert: "FlashsaleLedgerRefuses", series: one(refused, event), labels: map[string]string{"flashsale_outcome": "refused", "flashsale_reason": "sold_out"}, ends: "16m"},
		{alert: "FlashsaleLedgerRefuses", series: one(displaced, first), labels: map[string]string{"flashsale_outcome": "displaced", "flashsale_reason": "sold_out"}, ends: "16m"},
		{alert: "FlashsaleUnreadable", series: one(`flashsale_seckill_relay_unreadable_total{service="seckill"}`, event), labels: of("seckill"), ends: "16m"},
		{alert: "FlashsaleUnreadable", series: one(`flashsale_inventory_ledger_unreadable_total{service="inventory"}`, first), labels: of("inventory"), ends: "16m"},
		{alert: "FlashsaleRedisless", series: one(`flashsale_inventory_modes{flashsale_mode="direct"}`, for2m), ends: "13m"},
		{alert: "FlashsaleRedisFull", series: one(`flashsale_seckill_gate_memory_free_percent`, "60x60 14x12 60x60"), ends: "13m"},
		{alert: "FlashsaleUnconfirmed", series: one(`flashsale_seckill_gate_unconfirmed_total`, event), ends: "16m"},
		{alert: "FlashsaleUnconfirmed", series: one(`flashsale_seckill_gate_unconfirmed_total`, first), ends: "16m"},
		{
			alert: "FlashsaleLimitRulesRefused", ends: "16m", labels: map[string]string{"service": "order", "flashsale_source": "file"},
			series: one(`flashsale_limits_reloads_total{service="order",flashsale_outcome="refused",flashsale_source="file",instance="o"}`, event),
		},
		{
			alert: "FlashsaleLimitRulesRefused", ends: "16m", labels: map[string]string{"service": "order", "flashsale_source": "redis"},
			series: one(`flashsale_limits_reloads_total{service="order",flashsale_outcome="refused",flashsale_source="redis",instance="o"}`, first),
		},
	}
}

// alertsFireAndAreSilent gives the cases to promtool: each alert fires for its cases, and before and after them no alert
// does.
func alertsFireAndAreSilent(t *testing.T) {
	rules := map[string]alert{}
	for _, a := range alerts(t) {
		rules[a.Name] = a
	}
	silent := func(at string) (tests []any) {
		for _, name := range slices.Sorted(maps.Keys(rules)) {
			tests = append(tests, map[string]any{"eval_time": at, "alertname": name})
		}
		return tests
	}
	group := func(series map[string]string, tests []any) map[string]any {
		all := maps.Clone(healthy)
		maps.Copy(all, series)
		var input []any
		for _, name := range slices.Sorted(maps.Keys(all)) {
			input = append(input, map[string]any{"series": name, "values": all[name]})
		}
		return map[string]any{"interval": "10s", "input_series": input, "alert_rule_test": tests}
	}
	groups := []any{group(nil, slices.Concat(silent("1m"), silent("5m"), silent("10m"), silent("11m"), silent("16m"), silent("20m")))}
	// A purchase with an open dead letter waits for an operator; its age is not that of landing.
	groups = append(groups, group(map[string]string{
		`flashsale_inventory_dead_letters_open`: "0x60 5x60", `flashsale_seckill_not_landed_age_seconds`: "0x60 0+10x60",
	}, []any{map[string]any{"eval_time": "14m", "alertname": "FlashsaleLandingStalled"}}))
	fires := map[string]bool{}
	for _, c := range alertCases() {
		a, ok := rules[c.alert]
		require.True(t, ok, c.alert)
		fires[c.alert] = true
		labels := maps.Clone(a.Labels)
		maps.Copy(labels, c.labels)
		tests := append(silent(cmp.Or(c.before, "10m")), map[string]any{
			"eval_time": cmp.Or(c.at, "11m"), "alertname": c.alert,
			"exp_alerts": []any{map[string]any{"exp_labels": labels, "exp_annotations": a.Annotations}},
		})
		if c.ends != "" {
			tests = append(tests, silent(c.ends)...)
		}
		groups = append(groups, group(c.series, tests))
	}
	require.Len(t, fires, len(rules), "an alert without a case")
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{ruleFile()}, "evaluation_interval": "10s", "tests": groups,
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "alerts_test.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", ruleFile()}, {"test", "rules", file}} {
		out, err := exec.Command("promtool", args...).CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args[:2], out)
	}
}

// theRuleFileIsRendered compares what Kubernetes gets with the file that promtool tests.
func theRuleFileIsRendered(t *testing.T) {
	all := production("monitoring.enabled=true", "monitoring.runbookURL=https://wiki.example.com/runbook").objects(t)
	file, err := os.ReadFile(ruleFile())
	require.NoError(t, err)
	file = bytes.ReplaceAll(file, []byte(": docs/runbook.md#"), []byte(": https://wiki.example.com/runbook#"))
	var spec map[string]any
	require.NoError(t, yaml.Unmarshal(file, &spec))
	require.Equal(t, spec, fields(pick(t, all, "PrometheusRule/flashsale"), "spec"))

	monitor := pick(t, all, "PodMonitor/flashsale")
	selected := list(monitor, "spec", "selector", "matchExpressions")[0]
	endpoint := list(monitor, "spec", "podMetricsEndpoints")[0]
	var read []any
	for _, w := range workloads(all) {
		for _, c := range w.containers() {
			for _, port := range list(c, "ports") {
				if text(port, "name") == text(endpoint, "port") {
					read = append(read, w.component())
				}
			}
		}
	}
	require.ElementsMatch(t, list(selected, "values"), read, "the pods with the admin port")
	require.NotContains(t, production().text(t), "monitoring.coreos.com", "without it no CRD is needed")
}
