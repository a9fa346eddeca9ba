package installation

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Pod has the fields of a Kubernetes pod that the tests read.
type Pod struct {
	Metadata struct {
		Name              string
		UID               string
		DeletionTimestamp string
	}
	Status struct {
		Conditions []struct{ Type, Status string }
		// ContainerStatuses excludes init containers.
		ContainerStatuses []struct {
			RestartCount int
			LastState    struct{ Terminated struct{ Reason string } }
		}
	}
}

// Ready reports whether the pod is ready and not being deleted.
func (p Pod) Ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return p.Metadata.DeletionTimestamp == ""
		}
	}
	return false
}

// Restarts returns how often the pod's containers were restarted.
func (p Pod) Restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// Pods lists the pods of a component; "" lists all pods of the release.
func Pods(t *testing.T, component string) []Pod {
	t.Helper()
	selector := "app.kubernetes.io/instance=" + release
	if component != "" {
		selector += ",app.kubernetes.io/component=" + component
	}
	var list struct{ Items []Pod }
	require.NoError(t, json.Unmarshal([]byte(Kubectl(t, "get", "pods", "-o", "json", "-l", selector)), &list))
	return list.Items
}

// WaitReady waits until the component has n ready pods and none of the former ones, which are given by UID.
func WaitReady(t *testing.T, component string, n int, former map[string]bool) {
	t.Helper()
	Eventually(t, 4*time.Minute, time.Second, "pods of "+component, func() bool {
		ready := 0
		for _, p := range Pods(t, component) {
			if former[p.Metadata.UID] {
				return false
			}
			if p.Ready() {
				ready++
			}
		}
		return ready == n
	})
}

// Scale changes the number of a component's pods and waits until that many are ready.
func Scale(t *testing.T, component string, n int) {
	t.Helper()
	Kubectl(t, "scale", "deployment/"+release+"-"+component, "--replicas="+strconv.Itoa(n))
	WaitReady(t, component, n, nil)
}

// NoOOMKills fails the test when a container was killed for its memory: no test does that on purpose.
func NoOOMKills(t *testing.T) {
	t.Helper()
	for _, p := range Pods(t, "") {
		for _, c := range p.Status.ContainerStatuses {
			require.NotEqual(t, "OOMKilled", c.LastState.Terminated.Reason, p.Metadata.Name)
		}
	}
}
