package inventory

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/record"
)

// A counter that begins with its first event would hide it from increase(). The file has every series.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tel, _ := telemetry.Recording()
	limits, err := admission.New(admission.Settings{Rules: "testdata/rule.yaml"}, settings.Redis{Addrs: []string{"127.0.0.1:1"}}, tel)
	require.NoError(t, err)
	t.Cleanup(func() { _ = limits.Redis().Close() })
	_, err = New(Config{Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}}},
		Deps{DB: w.db, Redis: w.rdb, Bus: discardBus{w.broker}, Telemetry: tel, Limits: limits})
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/counters.txt")
	require.NoError(t, err)
	counters := regexp.MustCompile(`(?m)^flashsale_\w+_total.*\n`).FindAllString(metricsOf(t, tel), -1)
	require.Equal(t, string(want), strings.Join(counters, ""))
}

func TestTheNextStartIsThatOfTheNextPublishedSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tel, _ := telemetry.Recording()
	seen, err := record.New(tel, "mysql")
	require.NoError(t, err)
	next := func() string {
		at, err := w.parts.Store.NextStart(w.ctx)
		seen.NextStart(at, err)
		return strings.Join(regexp.MustCompile(`(?m)^flashsale_inventory_next_start.*`).FindAllString(metricsOf(t, tel), -1), "")
	}
	require.Empty(t, next(), "no sale")
	running, soon, later := w.sale(1, 5), w.sale(1, 5), w.sale(1, 5)
	require.Empty(t, next(), "all have begun")
	for at, id := range map[time.Duration]string{time.Minute: soon.ID, time.Hour: later.ID, -time.Minute: running.ID} {
		require.NoError(t, w.db.Exec("UPDATE activities SET starts_at = ?, ends_at = ? WHERE id = ?",
			time.Unix(1_900_000_000, 0).UTC().Add(at), time.Unix(1_900_000_000, 0).UTC().Add(24*time.Hour), id).Error)
	}
	require.Equal(t, "flashsale_inventory_next_start_seconds 1.89999994e+09", next())
	require.NoError(t, w.db.Exec("UPDATE activities SET state = 'paused' WHERE id = ?", running.ID).Error)
	require.Equal(t, "flashsale_inventory_next_start_seconds 1.90000006e+09", next())
}

func TestBothAgesOfWebhooksAreShown(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	seen, err := record.New(tel, "mysql")
	require.NoError(t, err)
	seen.OldestDelivery(2*time.Second, time.Hour, nil)
	require.Equal(t, []string{
		`flashsale_inventory_webhooks_oldest_seconds{flashsale_state="failing"} 3600`,
		`flashsale_inventory_webhooks_oldest_seconds{flashsale_state="waiting"} 2`,
	}, regexp.MustCompile(`(?m)^flashsale_inventory_webhooks.*`).FindAllString(metricsOf(t, tel), -1))
}

// What a round leaves is shown until a later round leaves nothing.
func TestDifferencesThatRemainAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tel, _ := telemetry.Recording()
	seen, err := record.New(tel, "mysql")
	require.NoError(t, err)
	w.parts.Recorder = seen
	g := w.comparisons()
	m := w.mixed(false)
	shown := func(name string) string {
		return strings.Join(regexp.MustCompile(`(?m)^flashsale_`+name+` .*`).FindAllString(metricsOf(t, tel), -1), "")
	}
	require.Empty(t, shown("differences")+shown("compared_seconds"), "before the first round")
	w.verified(g, m.a)
	require.Equal(t, "flashsale_differences 0", shown("differences"))
	require.NotEmpty(t, shown("compared_seconds"))
	require.NoError(t, w.db.Exec("UPDATE stocks SET reserved = reserved + 1, available = available - 1 WHERE activity_id = ?", m.a.ID).Error)
	w.round(g, m.a)
	require.Regexp(t, `^flashsale_differences [1-9]`, shown("differences"))
	require.NoError(t, w.db.Exec("UPDATE stocks SET reserved = reserved - 1, available = available + 1 WHERE activity_id = ?", m.a.ID).Error)
	w.round(g, m.a)
	require.Equal(t, "flashsale_differences 0", shown("differences"))
}
