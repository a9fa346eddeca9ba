// Package installation drives an installation of the chart on a Kubernetes cluster from outside: kubectl and Helm,
// sales and loads through the edge, and the comparison of the buyers' results with the ledger and the gate. Its
// functions are for tests. scripts/cluster/test sets the environment variables that describe the installation.
package installation

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
)

// URLs of the installation.
var (
	EdgeURL   = os.Getenv("BASE_URL")   // the edge
	JaegerURL = os.Getenv("JAEGER_URL") // Jaeger's API
)

var (
	namespace = os.Getenv("NAMESPACE")
	release   = os.Getenv("RELEASE")
	chart     = os.Getenv("CHART")     // the chart's folder
	firstTag  = os.Getenv("FIRST_TAG") // the images of the first install
	nextTag   = os.Getenv("NEXT_TAG")  // images of the same sources with another version stamped in
	helmPath  = os.Getenv("HELM")      // Helm 3 or Helm 4
)

// Main runs the tests of a package. It fails when the environment describes no installation.
func Main(m *testing.M) {
	if err := Described(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Described returns an error when the environment describes no installation.
func Described() error {
	wanted := []string{
		"BASE_URL", "JAEGER_URL", "NAMESPACE", "RELEASE", "CHART", "FIRST_TAG", "NEXT_TAG", "HELM", "KUBECONFIG",
	}
	for _, name := range wanted {
		if os.Getenv(name) == "" {
			return fmt.Errorf("%s is not set: these tests need an installation; run `make cluster-test`", name)
		}
	}
	return nil
}

// output runs a program and returns its standard output. The error has its standard error.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, problem.String())
	}
	return out, nil
}

// Kubectl runs kubectl in the installation's namespace and returns its output.
func Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := output(ctx, "kubectl", append([]string{"--namespace", namespace}, args...)...)
	require.NoError(t, err)
	return string(out)
}

// Eventually calls done at the interval every until it returns true. It fails the test after within.
func Eventually(t *testing.T, within, every time.Duration, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !done(); time.Sleep(every) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not happen within %s", what, within)
		}
	}
}

// Client returns a client that signs tokens with the installation's own secret: buyers need no request to get a token.
func Client(t *testing.T, opts client.Options) *client.Client {
	t.Helper()
	encoded := Kubectl(t, "get", "secret", release+"-secrets", "-o", "jsonpath={.data.AUTH_HS256_SECRET}")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	opts.Secret, _, _ = strings.Cut(string(secret), ",") // the first one signs
	c := client.New(client.Single(EdgeURL), opts)
	t.Cleanup(c.Close)
	return c
}
