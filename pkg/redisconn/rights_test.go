package redisconn

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The calls of CheckRights are those of the users in docs/kubernetes.md.
func TestRightsAreThoseOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	for user, r := range map[string]Rights{"gate": GateRights(), "limits": LimitRights()} {
		t.Run(user, func(t *testing.T) {
			m := regexp.MustCompile(`(?m)^user ` + user + ` on #<[^>]*> resetchannels (.+)$`).FindSubmatch(text)
			require.NotNil(t, m)
			// Every login needs select with a database other than 0, and no warning is worth a failure.
			have := []string{"-@all", "+select", "+eval", "+config|get"}
			if user == "gate" {
				have = have[:3]
			}
			for _, call := range slices.Concat(r.calls, r.outside) {
				name, _, _ := strings.Cut(call, " ")
				have = append(have, "+"+name)
			}
			for _, prefix := range r.prefixes {
				have = append(have, "~"+prefix+"*")
			}
			if r.channel != "" {
				prefix, _, _ := strings.Cut(r.channel, "check-config")
				have = append(have, "&"+prefix+"*", "+subscribe", "+unsubscribe")
			}
			if r.transactions {
				have = append(have, "+multi", "+exec")
			}
			require.ElementsMatch(t, strings.Fields(string(m[1])), have)
		})
	}
}
