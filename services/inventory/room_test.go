package inventory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A merchant gives a draft a waiting room. Of a published activity only the rate may change, also while it is open.
func TestWaitingRoomOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	rate := func(id string) int64 {
		a, err := s.gate.Audit(t.Context(), id)
		require.NoError(t, err)
		return a.RoomRate
	}
	id := s.draft(sku, 5)
	at := "/v1/merchant/activities/" + id
	require.NotContains(t, string(s.do("GET", at, "").body), "waiting_room")
	for _, wrong := range []string{`{"admit_per_second":-1}`, `{"admit_per_second":1000001}`} {
		require.Equal(t, "waiting_room.admit_per_second", s.do("PATCH", at, `{"waiting_room":`+wrong+`}`).field())
	}
	require.Equal(t, 400, s.do("PATCH", at, `{"waiting_room":{"rate":1}}`).status)
	require.Contains(t, string(s.do("PATCH", at, `{"waiting_room":{"admit_per_second":50}}`).body), `"admit_per_second":50`)
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	require.EqualValues(t, 50, rate(id))
	require.Equal(t, 200, s.do("PATCH", at, `{"waiting_room":{"admit_per_second":70}}`).status)
	require.EqualValues(t, 70, rate(id))
	require.Equal(t, "state_conflict", s.do("PATCH", at, `{"waiting_room":{"admit_per_second":0}}`).code())

	plain := "/v1/merchant/activities/" + s.draft(sku, 5)
	require.Equal(t, 200, s.do("POST", plain+"/publish", "").status)
	require.Zero(t, rate(plain[strings.LastIndex(plain, "/")+1:]))
	require.Equal(t, "state_conflict", s.do("PATCH", plain, `{"waiting_room":{"admit_per_second":5}}`).code())
}
