package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
)

// The installation, as scripts/cluster/test tells it.
var (
	edgeURL   = os.Getenv("BASE_URL")   // of the edge
	jaegerURL = os.Getenv("JAEGER_URL") // of Jaeger's API
	namespace = os.Getenv("NAMESPACE")
	release   = os.Getenv("RELEASE")
	chart     = os.Getenv("CHART")    // the folder
	values    = os.Getenv("VALUES")   // the values file of the installation
	nextTag   = os.Getenv("NEXT_TAG") // images of the upgrade
	helmPath  = os.Getenv("HELM")
)

func TestMain(m *testing.M) {
	for _, name := range []string{"BASE_URL", "JAEGER_URL", "NAMESPACE", "RELEASE", "CHART", "VALUES", "NEXT_TAG", "HELM", "KUBECONFIG"} {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: these tests want an installation; run `make cluster-test`\n", name)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// output runs a program and returns what it prints.
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

// kubectl runs it in the installation's namespace.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := output(ctx, "kubectl", append([]string{"--namespace", namespace}, args...)...)
	require.NoError(t, err)
	return string(out)
}

// helm changes the release, and returns when it is as it was told to be.
func helm(ctx context.Context, args ...string) error {
	_, err := output(ctx, helmPath, append(args, "--namespace", namespace)...)
	return err
}

// A pod, as far as the tests look at it.
type pod struct {
	Metadata struct {
		Name              string
		UID               string
		DeletionTimestamp string
		Labels            map[string]string
	}
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status string }
		// Of its containers, without those that run first.
		ContainerStatuses []struct {
			RestartCount int
			LastState    struct{ Terminated struct{ Reason string } }
		}
	}
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return p.Metadata.DeletionTimestamp == ""
		}
	}
	return false
}

func (p pod) restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// pods lists those of a component ("" for all of the release).
func pods(t *testing.T, component string) []pod {
	t.Helper()
	selector := "app.kubernetes.io/instance=" + release
	if component != "" {
		selector += ",app.kubernetes.io/component=" + component
	}
	var answer struct{ Items []pod }
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "get", "pods", "-o", "json", "-l", selector)), &answer))
	return answer.Items
}

// becomesReady waits until the component has that many ready pods, none of them one of the former.
func becomesReady(t *testing.T, component string, n int, former map[string]bool) {
	t.Helper()
	eventually(t, 4*time.Minute, time.Second, "pods of "+component, func() bool {
		ready := 0
		for _, p := range pods(t, component) {
			if former[p.Metadata.UID] {
				return false
			}
			if p.ready() {
				ready++
			}
		}
		return ready == n
	})
}

func eventually(t *testing.T, within, every time.Duration, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !done(); time.Sleep(every) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, within)
		}
	}
}

// signer makes a client that signs tokens with the installation's own secret, so that a crowd needs no answer to get in.
func signer(t *testing.T, opts client.Options) *client.Client {
	t.Helper()
	coded := kubectl(t, "get", "secret", release+"-secrets", "-o", "jsonpath={.data.AUTH_HS256_SECRET}")
	secret, err := base64.StdEncoding.DecodeString(coded)
	require.NoError(t, err)
	opts.Secret = string(secret)
	c := client.New(client.Single(edgeURL), opts)
	t.Cleanup(c.Close)
	return c
}

// calm fails when a container was killed for its memory, which no test does on purpose.
func calm(t *testing.T) {
	t.Helper()
	for _, p := range pods(t, "") {
		for _, c := range p.Status.ContainerStatuses {
			require.NotEqual(t, "OOMKilled", c.LastState.Terminated.Reason, p.Metadata.Name)
		}
	}
}
