package inventory

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
)

// withQuotas replaces the service by one with these quotas.
func (s *shop) withQuotas(activities, skus int64) {
	s.t.Helper()
	cfg := s.svc.cfg
	cfg.MaxActivities, cfg.MaxSKUs = activities, skus
	var err error
	s.svc, err = New(cfg, s.svc.deps)
	require.NoError(s.t, err)
}

type quotaProblem struct {
	Code        string
	Limit, Used int64
}

func (a response) quota(t *testing.T) (p quotaProblem) {
	t.Helper()
	a.into(t, &p)
	return p
}

// atOnce makes n calls at once and returns their responses.
func atOnce(n int, call func(i int) response) []response {
	all := make([]response, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i] = call(i) })
	}
	wg.Wait()
	return all
}

func countStatus(all []response, status int) (n int) {
	for _, got := range all {
		if got.status == status {
			n++
		}
	}
	return n
}

func TestAMerchantHasAtMostSoManyLiveActivities(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.withQuotas(3, 100)
	sku := s.product("EUR")[0]
	step := func(token, id, step string) response {
		return s.as(token, "POST", "/v1/merchant/activities/"+id+"/"+step, "")
	}
	ids := make([]string, 8)
	for i := range ids {
		ids[i] = s.draft(sku, 5) // drafts do not count
	}
	all := atOnce(len(ids), func(i int) response { return step(s.token, ids[i], "publish") })
	require.Equal(t, 3, countStatus(all, http.StatusOK))
	var live, drafts []string
	for i, got := range all {
		if got.status == http.StatusOK {
			live = append(live, ids[i])
			continue
		}
		require.Equal(t, http.StatusConflict, got.status, "%s", got.body)
		require.Equal(t, quotaProblem{"quota_exceeded", 3, 3}, got.quota(t))
		drafts = append(drafts, ids[i])
	}
	require.Equal(t, 200, step(s.token, live[0], "publish").status, "a published activity may be published again")

	// A paused activity counts, and an operator is bound by the same quota.
	require.Equal(t, 200, step(s.token, live[0], "pause").status)
	operator := s.mintFor("", "op", auth.Operator)
	require.Equal(t, "quota_exceeded", step(operator, drafts[0], "publish").code())
	require.Equal(t, 200, step(s.token, live[0], "resume").status)

	// Another merchant has a quota of their own.
	before := s.token
	s.token = s.mintFor("other", "merchant-1", auth.Merchant)
	theirs := s.draft(s.product("EUR")[0], 5)
	require.Equal(t, 200, step(s.token, theirs, "publish").status)
	s.token = before

	// Ended activities do not count, whether by a call or by time.
	require.Equal(t, 200, step(s.token, live[0], "end").status)
	require.Equal(t, 200, step(operator, drafts[0], "publish").status)
	require.NoError(t, s.db.Exec("UPDATE activities SET ends_at = ? WHERE id = ?", time.Now().Add(-time.Second).UTC(), live[1]).Error)
	require.Equal(t, 200, step(s.token, drafts[1], "publish").status)
	require.Equal(t, "quota_exceeded", step(s.token, drafts[2], "publish").code())
}

func TestAMerchantHasAtMostSoManySKUs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.withQuotas(3, 7)
	const two = `{"name":"Chair","skus":[{"name":"a","list_price":1,"currency":"EUR"},{"name":"b","list_price":1,"currency":"EUR"}]}`
	all := atOnce(8, func(int) response { return s.do("POST", "/v1/merchant/products", two) })
	require.Equal(t, 3, countStatus(all, http.StatusCreated))
	at := ""
	for _, got := range all {
		if got.status == http.StatusCreated {
			at = got.header.Get("Location")
			continue
		}
		require.Equal(t, http.StatusConflict, got.status, "%s", got.body)
		require.Equal(t, quotaProblem{"quota_exceeded", 7, 6}, got.quota(t))
	}
	add := func(token string, n int) response {
		body := `{"name":"Stool","skus":[`
		for i := range n {
			body += fmt.Sprintf(`%s{"name":"c","list_price":1,"currency":"EUR"}`, map[bool]string{true: ","}[i > 0])
		}
		return s.as(token, "PATCH", at, body+"]}")
	}
	require.Equal(t, quotaProblem{"quota_exceeded", 7, 6}, add(s.token, 2).quota(t))
	var name string
	require.NoError(t, s.db.Table("products").Where("id = ?", at[len("/v1/merchant/products/"):]).Pluck("name", &name).Error)
	require.Equal(t, "Chair", name, "a refused change writes nothing")
	all = atOnce(6, func(int) response { return add(s.token, 1) })
	require.Equal(t, 1, countStatus(all, http.StatusOK))
	require.Equal(t, quotaProblem{"quota_exceeded", 7, 7}, add(s.mintFor("", "op", auth.Operator), 1).quota(t))
	require.Equal(t, 200, add(s.token, 0).status, "a change that adds none")

	s.token = s.mintFor("other", "merchant-1", auth.Merchant)
	require.Equal(t, 201, s.do("POST", "/v1/merchant/products", two).status, "another merchant has a quota of their own")
	var stored int64
	require.NoError(t, s.db.Table("skus").Count(&stored).Error)
	require.EqualValues(t, 7+2, stored)
}
