package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReportsOfProcessesAddUp(t *testing.T) {
	var all, part, late Report
	part.Took, late.Took = 2*time.Second, 3*time.Second
	part.Step("response").Count("201", 1)
	part.Step("response").Time(3 * time.Second)
	late.Step("response").Count("201", 2)
	late.Step("response").Fail("connect: refused", errors.New("an example"))
	late.Step("response").Fail("connect: refused", errors.New("another one"))
	late.Step("response").Time(time.Second)
	late.Step("response").Time(2 * time.Second)
	late.Step("slow").Count("ended", 1)
	for _, r := range []Report{{}, part, late} {
		raw, err := json.Marshal(r) // as a process sends it
		require.NoError(t, err)
		var got Report
		require.NoError(t, json.Unmarshal(raw, &got))
		all.Add(got)
	}
	all.Sum()
	all.ActivityID = "7"
	require.Len(t, all.Steps, 2)
	response := all.Step("response")
	require.Equal(t, map[string]int{"201": 3, "connect: refused": 2}, response.Outcomes)
	require.Equal(t, 2*time.Second, response.Times.P50)
	require.Equal(t, 3*time.Second, response.Times.Max)
	require.Empty(t, response.All)

	response.Succeed(1500 * time.Millisecond)
	var out strings.Builder
	all.Print(&out)
	require.Equal(t, "activity 7, 3s\n"+
		"response       n=3 p50=2s p90=3s p99=3s p99.9=3s max=3s\n"+
		"  201                             3  \n"+
		"  connect: refused                2  an example\n"+
		"  in each second [0 1]\n"+
		"slow          \n"+
		"  ended                           1  \n", out.String())
}

func TestResponse(t *testing.T) {
	r := Response{
		Head: []byte("HTTP/1.1 429 X\r\nRateLimit: \"a\";r=0\r\nretry-after: 3\r\nRateLimit: \"b\";r=1\r\n"),
		Body: []byte(`{"path":"abc","order_sn":"12","n":1}`),
	}
	require.Equal(t, "3", r.Field("Retry-After"))
	require.Equal(t, `"a";r=0, "b";r=1`, r.Field("RateLimit"))
	require.Empty(t, r.Field("Retry"))
	require.Equal(t, "abc", r.Member("path"))
	require.Equal(t, "12", r.Member("order_sn"))
	require.Empty(t, r.Member("n"))
	require.Empty(t, r.Member("other"))
	r.Body = []byte(`{"path":"abc`)
	require.Empty(t, r.Member("path"))
	require.Equal(t, "201", Outcome(201, nil))
	require.Equal(t, "429 rate_limited", Outcome(429, []byte(`{"code": "rate_limited"}`)))
	require.Equal(t, "502", Outcome(502, []byte("<html>")))
}

func TestRequests(t *testing.T) {
	target := Target{Host: "shop:1", ActivityID: "7", SKUID: "9"}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(target.AppendPurchase(nil, "t0ken", "p4th"))))
	require.NoError(t, err)
	require.Equal(t, "POST", r.Method)
	require.Equal(t, "/v1/activities/7/paths/p4th/reservations", r.URL.Path)
	require.Equal(t, "shop:1", r.Host)
	require.Equal(t, "Bearer t0ken", r.Header.Get("Authorization"))
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"lines":[{"sku_id":"9","qty":1}]}`, string(body))

	r, err = http.ReadRequest(bufio.NewReader(bytes.NewReader(AppendRequest(nil, "GET", "/x", "shop:1", "", "", "A: b"))))
	require.NoError(t, err)
	require.Equal(t, http.Header{"A": {"b"}}, r.Header)
}
