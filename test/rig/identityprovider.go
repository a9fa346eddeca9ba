package rig

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// IdentityProvider is a running OpenID provider: the one that the tests of the sign-in use.
type IdentityProvider struct {
	Issuer             string
	Settings           map[string]string // of seckill
	Username, Password string
}

// StartIdentityProvider builds and starts a provider whose client has its pages at the URL. It runs until the end of the
// test.
func StartIdentityProvider(t testing.TB, publicURL string) IdentityProvider {
	t.Helper()
	program := filepath.Join(t.TempDir(), "identityprovider")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"./services/seckill/internal/signin/identityprovider/serve")
	build.Dir = Root(t)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program, "-addr", porttest.Free(t), "-public-url", publicURL)
	printed, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	})
	lines := bufio.NewScanner(printed)
	require.True(t, lines.Scan(), "the settings of seckill")
	p := IdentityProvider{Settings: map[string]string{}}
	for _, setting := range strings.Fields(lines.Text()) {
		name, value, _ := strings.Cut(setting, "=")
		p.Settings[name] = value
	}
	p.Issuer = p.Settings["OIDC_ISSUER"]
	require.True(t, lines.Scan(), "the user")
	words := strings.Fields(lines.Text()) // user NAME, password WORD
	require.Len(t, words, 4)
	p.Username, p.Password = strings.TrimSuffix(words[1], ","), words[3]
	return p
}
