package inventory

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

type noticeView struct {
	Version int64
	Notice  *struct {
		Text string
		At   time.Time
	}
}

func patchOfNotice(text string) string { return fmt.Sprintf(`{"notice":%q}`, text) }

func noticePatch(text string) merchants.ActivityPatch { return merchants.ActivityPatch{Notice: &text} }

// A merchant may write, change and remove a notice in any state but ended. Its time is that of its text.
func TestANoticeInEachState(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.draft(s.product("EUR")[0], 5)
	at := "/v1/merchant/activities/" + id
	patch := func(body string) (v noticeView) {
		t.Helper()
		got := s.do("PATCH", at, body)
		require.Equal(t, 200, got.status, "%s", got.body)
		got.into(t, &v)
		return v
	}
	shown := func() string {
		sale, err := s.gate.Sale(t.Context(), id)
		require.NoError(t, err)
		if sale.Notice == nil {
			return ""
		}
		return sale.Notice.Text
	}
	require.NotContains(t, string(s.do("GET", at, "").body), "notice")
	require.Equal(t, "in a draft", patch(patchOfNotice("in a draft")).Notice.Text)
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	require.Equal(t, "in a draft", shown())

	open := patch(patchOfNotice("while open"))
	require.WithinDuration(t, time.Now(), open.Notice.At, time.Minute)
	require.Equal(t, "while open", shown())
	same := patch(`{"notice":"while open","title":"Other"}`)
	require.Equal(t, open.Notice.At, same.Notice.At, "the text is the same")
	require.Equal(t, open.Version+1, same.Version)
	stale := s.do("PATCH", at, patchOfNotice("late"), "If-Match", fmt.Sprintf("%q", fmt.Sprint(open.Version)))
	require.Equal(t, 412, stale.status)

	require.Equal(t, 200, s.do("POST", at+"/pause", "").status)
	require.Equal(t, "while paused", patch(patchOfNotice("while paused")).Notice.Text)
	require.Equal(t, "while paused", shown())
	_, state, err := s.gate.UnitsLeft(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, stockgate.GatePaused, state, "a notice changes no rule")
	require.Nil(t, patch(patchOfNotice("")).Notice)
	require.Empty(t, shown())
	require.Equal(t, 200, s.do("POST", at+"/resume", "").status)
	patch(patchOfNotice("the last one"))

	require.Equal(t, 200, s.do("POST", at+"/end", "").status)
	for _, text := range []string{"too late", ""} {
		require.Equal(t, "activity_ended", s.do("PATCH", at, patchOfNotice(text)).code())
	}
	require.Equal(t, 200, s.do("PATCH", at, `{"description":"d"}`).status)
	require.Equal(t, "the last one", shown())

	var details []string
	require.NoError(t, s.db.Table("changes").Where("object_id = ? AND action = 'activity.patch'", id).Order("id").Pluck("detail", &details).Error)
	require.JSONEq(t, patchOfNotice("in a draft"), details[0])
	require.JSONEq(t, patchOfNotice(""), details[4])
}

func TestInvalidNotices(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	at := "/v1/merchant/activities/" + s.draft(sku, 5)
	for _, text := range []string{" ", strings.Repeat("x", 201), "a\nb", "a\tb", "a\u202eb", "a\u200bb"} {
		got := s.do("PATCH", at, patchOfNotice(text))
		require.Equal(t, []any{http.StatusBadRequest, "notice"}, []any{got.status, got.field()}, "%q: %s", text, got.body)
	}
	require.Equal(t, "notice", s.do("PATCH", at, `{"notice":null}`).field())
	require.Equal(t, "notice", s.do("POST", "/v1/merchant/activities", strings.Replace(activityBody(sku, 5), "{", `{"notice":"a",`, 1)).field())
	require.Equal(t, 200, s.do("PATCH", at, patchOfNotice(strings.Repeat("长", 200))).status)
}

// Without Redis a patch of nothing but the notice succeeds. The gate controller shows it later.
func TestANoticeDoesNotNeedTheGate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.draft(s.product("EUR")[0], 5)
	at := "/v1/merchant/activities/" + id
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	s.mini.SetError("LOADING Redis is loading the dataset in memory")
	got := s.do("PATCH", at, patchOfNotice("We are back soon."), "If-Match", `"2"`)
	require.Equal(t, 200, got.status, "%s", got.body)
	require.Equal(t, `"3"`, got.header.Get("ETag"))
	require.Equal(t, "gate_unavailable", s.do("PATCH", at, `{"notice":"With a title.","title":"Other"}`).code())
	s.mini.SetError("")
	require.NoError(t, s.svc.controller().EnsureGates(t.Context()))
	sale, err := s.gate.Sale(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []any{"With a title.", int64(4)}, []any{sale.Notice.Text, sale.Version})
}

// A redisless sale shows profile and notice by its mode; the gate gets them when the sale returns to it.
func TestARedislessSaleShowsItsNotice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	_, err := w.merchants.PutProfile(w.ctx, seller("m"), contract.DefaultMerchant, core.Seller{Name: "Acme", Delivery: "Ships"}, nil)
	require.NoError(t, err)
	a, err := w.merchants.PatchActivity(w.ctx, seller("m"), s.id, noticePatch("It goes on."))
	require.NoError(t, err)
	modes, err := w.redisless.Modes(w.ctx, nil)
	require.NoError(t, err)
	shown := modes.Activities[0].Sale
	require.Equal(t, &contract.RedislessSeller{Name: "Acme", Delivery: "Ships"}, shown.Seller)
	require.Equal(t, &contract.RedislessNotice{Text: "It goes on.", At: a.Notice.At}, shown.Notice)
	require.Equal(t, []string{"fresh reserved"}, s.reserve(s.purchase("a", 1)), "and sells on")
	document, err := w.gate.Sale(w.ctx, s.id)
	require.NoError(t, err)
	require.Nil(t, document.Notice)

	s.become(contract.ModeReturning, 1, a.UpdatedAt)
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	document, err = w.gate.Sale(w.ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, "It goes on.", document.Notice.Text)
	require.Equal(t, "Acme", document.Seller.Name)
}

// After a restore buyers read notice and profile of the backup. A notice waits only until the decisions that the gate has
// are taken over, as any change does: its version would hide them.
func TestARestoreShowsTheNoticeOfTheBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.roomySale()
	profile := func(name string) {
		_, err := w.merchants.PutProfile(w.ctx, seller("m"), contract.DefaultMerchant, core.Seller{Name: name}, nil)
		require.NoError(t, err)
		require.NoError(t, w.gates.EnsureGates(w.ctx))
	}
	write := func(text string) error {
		_, err := w.merchants.PatchActivity(w.ctx, seller("m"), a.ID, noticePatch(text))
		return err
	}
	shown := func() string {
		document, err := w.gate.Sale(w.ctx, a.ID)
		require.NoError(t, err)
		return document.Seller.Name + ": " + document.Notice.Text
	}
	profile("Acme")
	require.NoError(t, write("of the backup"))
	b := w.backup()
	require.NoError(t, write("lost"))
	profile("Lost")
	_, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	require.Equal(t, "Lost: lost", shown())

	w.restore(b)
	w.newEpoch()
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(write("too early")))
	w.imports()
	require.Equal(t, "Acme: of the backup", shown())
	require.Equal(t, core.ActivityPaused, w.activity(a).State, "and the sale stays paused")
	require.NoError(t, write("after the restore"))
	require.Equal(t, "Acme: after the restore", shown())
	require.Equal(t, stockgate.Paused, w.sells(a))
}
