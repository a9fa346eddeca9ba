package payment

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const secret = "a secret of the provider"

var (
	body = []byte(`{"event_id":"e1"}`)
	at   = time.Unix(1_795_000_000, 0)
)

func TestSignature(t *testing.T) {
	good := Sign(secret, body, at)
	require.Regexp(t, `^t=1795000000,v1=[0-9a-f]{64}$`, good)
	v1 := good[strings.Index(good, "v1="):]
	wrong := "v1=" + strings.Repeat("0", 64)

	for name, tt := range map[string]struct {
		header  string
		secrets []string
		now     time.Time
		body    []byte
		err     error
	}{
		"good":                   {header: good},
		"5 minutes old":          {header: good, now: at.Add(5 * time.Minute)},
		"5 minutes ahead":        {header: good, now: at.Add(-5 * time.Minute)},
		"secret is rotated":      {header: good, secrets: []string{"the next one", secret}},
		"one of two is valid":    {header: "t=1795000000," + wrong + "," + v1},
		"unknown scheme ignored": {header: good + ",v2=anything"},
		"spaces":                 {header: strings.ReplaceAll(good, ",", ", ")},

		"missing":           {header: "", err: errMalformed},
		"no time":           {header: v1, err: errMalformed},
		"no signature":      {header: "t=1795000000", err: errMalformed},
		"two times":         {header: "t=1795000000," + good, err: errMalformed},
		"not a number":      {header: "t=now," + v1, err: errMalformed},
		"leading zero":      {header: "t=01795000000," + v1, err: errMalformed},
		"plus":              {header: "t=+1795000000," + v1, err: errMalformed},
		"time out of range": {header: "t=9223372036854775807," + v1, err: errMalformed},
		"not hex":           {header: "t=1795000000,v1=" + strings.Repeat("z", 64), err: errMalformed},
		"short":             {header: "t=1795000000,v1=00", err: errMalformed},
		"very long":         {header: good + strings.Repeat(",v2=x", 200), err: errMalformed},
		"many signatures":   {header: "t=1795000000" + strings.Repeat(","+wrong, 6), err: errMalformed},
		"too old":           {header: good, now: at.Add(5*time.Minute + time.Second), err: errTime},
		"from the future":   {header: good, now: at.Add(-5*time.Minute - time.Second), err: errTime},
		"another secret":    {header: good, secrets: []string{"other"}, err: errWrong},
		"empty secret":      {header: Sign("", body, at), secrets: []string{""}, err: errWrong},
		"no secret":         {header: good, secrets: []string{}, err: errWrong},
		"another body":      {header: good, body: []byte(`{"event_id":"e2"}`), err: errWrong},
		"another time":      {header: "t=1795000001," + v1, err: errWrong},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.secrets == nil {
				tt.secrets = []string{secret}
			}
			if tt.now.IsZero() {
				tt.now = at
			}
			if tt.body == nil {
				tt.body = body
			}
			require.ErrorIs(t, Verify(tt.secrets, tt.header, tt.body, tt.now), tt.err)
		})
	}
}

func FuzzSignatureHeader(f *testing.F) {
	f.Add(Sign(secret, body, at))
	f.Add("t=1,v1=")
	f.Add("t=,v1=00,t")
	f.Add(",,,=,t==")
	f.Fuzz(func(t *testing.T, header string) {
		text, when, signatures, err := parse(header)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(header), maxHeader)
		require.NotEmpty(t, signatures)
		require.LessOrEqual(t, len(signatures), maxSignatures)
		require.Contains(t, header, "t="+text)
		// Without the secret nothing that a caller can write is accepted.
		require.Error(t, Verify([]string{"a secret that the corpus does not hold"}, header, body, when))
	})
}

// The examples of the OpenAPI file for shops are right.
func TestDocumentedSignatures(t *testing.T) {
	file, err := os.ReadFile("../../api/shopapi/openapi.yaml")
	require.NoError(t, err)
	for _, text := range []string{
		`{"event_id":"paid-7","payment_id":"7","outcome":"succeeded","amount":9900,"currency":"EUR"}`,
		"POST /flashsale/payments/7/cancel\n", "amount=9900&currency=EUR&expires=1790000900&order_sn=8&payment_id=7",
	} {
		signature := Sign("0123456789abcdef0123456789abcdef", []byte(text), time.Unix(1_790_000_000, 0))
		_, v1, _ := strings.Cut(signature, "v1=")
		shown := "`" + strings.TrimSuffix(text, "\n") + "`"
		if strings.HasSuffix(text, "\n") {
			shown += " and a line feed"
		}
		require.Contains(t, string(file), "| "+shown+" | `"+v1+"` |")
	}
}
