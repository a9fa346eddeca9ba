package installation

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ratelimit/httpfield"
)

// Rules writes a file of limit rules: those of development, with another number of calls a second for each user of a
// route.
func Rules(t *testing.T, perUser int) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, "../../../pkg/admission/rules-development.yaml"))
	require.NoError(t, err)
	text := strings.ReplaceAll(string(raw), " limit: 100,", fmt.Sprintf(" limit: %d,", perUser))
	require.NotEqual(t, string(raw), text)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// policiesPerUser maps the URLs of one route of each service to the name of the rule that limits each user there.
func policiesPerUser(s *Sale) map[string]string {
	return map[string]string{
		"/v1/activities/" + s.ID + "/reservations": "result-per-user",
		"/v1/orders":              "order-per-user",
		"/v1/merchant/activities": "merchant-per-user",
	}
}

// PerUser returns the number of calls a second for each user that the present rules allow.
func PerUser(ctx context.Context, t *testing.T, s *Sale) (quota int) {
	t.Helper()
	for url, rule := range policiesPerUser(s) {
		Eventually(t, time.Minute, time.Second, "the policy "+rule, func() bool {
			quota = int(policies(ctx, t, s, url)[rule].Quota)
			return quota > 0
		})
	}
	return quota
}

// WaitForRules waits until each service reports the rules with that number of calls a second for each user.
func WaitForRules(ctx context.Context, t *testing.T, s *Sale, perUser int) {
	t.Helper()
	for url, rule := range policiesPerUser(s) {
		want := httpfield.Policy{Name: rule, Quota: int64(perUser), Window: time.Second}
		var last httpfield.Policy
		// A kubelet refreshes mounted ConfigMaps every minute or two.
		Eventually(t, 5*time.Minute, time.Second, fmt.Sprintf("%s: %d a second", rule, perUser), func() bool {
			if now, ok := policies(ctx, t, s, url)[rule]; ok && now != last {
				last = now
				t.Logf("%s: %d calls per %s and user", url, now.Quota, now.Window)
			}
			return last == want
		})
	}
}

var policyClient = &http.Client{Timeout: 10 * time.Second}

// policies returns the policies in a response of the URL, by name; none when there is no response.
func policies(ctx context.Context, t *testing.T, s *Sale, url string) map[string]httpfield.Policy {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, EdgeURL+url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Merchant.Token())
	resp, err := policyClient.Do(req)
	if err != nil {
		return nil
	}
	_ = resp.Body.Close()
	list, err := httpfield.ParsePolicies(resp.Header.Get("RateLimit-Policy"))
	if err != nil {
		return nil
	}
	named := map[string]httpfield.Policy{}
	for _, p := range list {
		named[p.Name] = p
	}
	return named
}
