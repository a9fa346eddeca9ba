// Package checks checks the objects that Helm renders from the chart, for the oldest and the newest Kubernetes that
// the chart supports, with each of its values files. test/chart runs them with Helm 3, test/proof/chart with Helm 4.
// Nothing is installed; test/cluster does that.
package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Helm is a major version of Helm.
type Helm int

// The versions of Helm that the chart supports.
const (
	Helm3 Helm = 3
	Helm4 Helm = 4
)

var (
	tested Helm // by this package of tests

	// tools holds absolute paths.
	tools struct {
		root        string // the repository
		kubeconform string
		helm        map[Helm]string
	}
)

func chart() string   { return filepath.Join(tools.root, "deploy/helm/flashsale") }
func schemas() string { return filepath.Join(tools.root, "test/chart/schemas") }

// Main runs the tests of a package with the first Helm; the others are for comparison. root is the path of the
// repository.
func Main(m *testing.M, root string, helm Helm, others ...Helm) {
	if err := Find(root, append([]Helm{helm}, others...)...); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// Find runs make to build the tools that are missing, and reads their paths from its output. The first Helm renders what
// is tested.
func Find(root string, helms ...Helm) (err error) {
	tested = helms[0]
	if tools.root, err = filepath.Abs(root); err != nil {
		return err
	}
	cmd := exec.Command("make", "-s", "-C", root, "chart-tools", "HELMS="+strings.Trim(fmt.Sprint(helms), "[]"))
	// A make that runs this test must not share its jobs with this one.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("make chart-tools: %w: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	paths := strings.Fields(lines[len(lines)-1])
	if len(paths) != 1+len(helms) {
		return fmt.Errorf("make chart-tools prints %q", out)
	}
	tools.kubeconform = paths[0]
	tools.helm = map[Helm]string{}
	for i, helm := range helms {
		tools.helm[helm] = paths[1+i]
	}
	return nil
}

// All runs every check with the tested Helm.
func All(t *testing.T) {
	t.Run("EveryRenderingIsValid", everyRenderingIsValid)
	t.Run("WrongObjectsAreInvalid", wrongObjectsAreInvalid)
	t.Run("Lint", lint)
	t.Run("DependenciesAreInTheRepository", dependenciesAreInTheRepository)
	t.Run("PodsAreRestricted", podsAreRestricted)
	t.Run("SelectorsAndPortsMatch", selectorsAndPortsMatch)
	t.Run("ProbesUseTheAdminPortAndDrainingHasTime", probesUseTheAdminPortAndDrainingHasTime)
	t.Run("EachServiceGetsOnlyItsSecrets", eachServiceGetsOnlyItsSecrets)
	t.Run("GeneratedSecretsAreLongAndKept", generatedSecretsAreLongAndKept)
	t.Run("JobsHaveNewNamesWhenTheirPodsChange", jobsHaveNewNamesWhenTheirPodsChange)
	t.Run("ChangedSettingsReplaceThePodsThatReadThem", changedSettingsReplaceThePodsThatReadThem)
	t.Run("NetworkPolicies", networkPolicies)
	t.Run("OnlySeckillMayReachTheIdentityProvider", onlySeckillMayReachTheIdentityProvider)
	t.Run("ThePagesGetTheirSettings", thePagesGetTheirSettings)
	t.Run("ValuesOfAnEarlierReleaseAreEnough", valuesOfAnEarlierReleaseAreEnough)
	t.Run("LargeNumbersStayWhole", largeNumbersStayWhole)
	t.Run("TheEdgeHasNoInternalRoutes", theEdgeHasNoInternalRoutes)
	t.Run("NginxAcceptsTheEdge", nginxAcceptsTheEdge)
	t.Run("TheEdgeHasDescriptors", theEdgeHasDescriptors)
	t.Run("TheEdgeSpeaksTLSWithACertificate", theEdgeSpeaksTLSWithACertificate)
	t.Run("TheEdgeCachesOnlyWhatIsTheSameForAll", theEdgeCachesOnlyWhatIsTheSameForAll)
	t.Run("PagesHaveLimitsOfTheirOwn", pagesHaveLimitsOfTheirOwn)
	t.Run("AnHTTP2ConnectionFitsIntoTheLimits", anHTTP2ConnectionFitsIntoTheLimits)
	t.Run("TheEdgeScales", theEdgeScales)
	t.Run("CallersKeepTheirAddresses", callersKeepTheirAddresses)
	t.Run("TheEdgeLimitsAddresses", theEdgeLimitsAddresses)
	t.Run("CallbacksHaveNoLimit", callbacksHaveNoLimit)
	t.Run("ABrowserHasItsStreams", aBrowserHasItsStreams)
	t.Run("TheHookWaitsForCallers", theHookWaitsForCallers)
	t.Run("NamesFit", namesFit)
	t.Run("EveryObjectHasLabels", everyObjectHasLabels)
	t.Run("TheBundledBroker", theBundledBroker)
	t.Run("ServicesAcceptTheirSettings", servicesAcceptTheirSettings)
	t.Run("RulesAreMounted", rulesAreMounted)
	t.Run("AlertsAreInTheRunbook", alertsAreInTheRunbook)
	t.Run("AlertsSeeTheFirstEventAndAnAbsence", alertsSeeTheFirstEventAndAnAbsence)
	t.Run("AlertsAreAboutMetricsOfTheServices", alertsAreAboutMetricsOfTheServices)
	t.Run("AlertsFireAndAreSilent", alertsFireAndAreSilent)
	t.Run("TheRuleFileIsRendered", theRuleFileIsRendered)
	t.Run("DashboardsAreFresh", dashboardsAreFresh)
	t.Run("PanelsCanBeRead", panelsCanBeRead)
	t.Run("DashboardsAreRendered", dashboardsAreRendered)
	t.Run("WrongValuesAreRefused", wrongValuesAreRefused)
	t.Run("ImagesAreExact", imagesAreExact)
	t.Run("SidecarsStartFirst", sidecarsStartFirst)
	t.Run("AddedVariablesAndVolumes", addedVariablesAndVolumes)
	t.Run("FilesReplaceSecrets", filesReplaceSecrets)
	t.Run("JobsArePlaced", jobsArePlaced)
	t.Run("WrongAdditionsAreRefused", wrongAdditionsAreRefused)
	t.Run("AuthoritiesAreAddedToThePublicOnes", authoritiesAreAddedToThePublicOnes)
	t.Run("AnOlderKubernetesIsRefused", anOlderKubernetesIsRefused)
}
