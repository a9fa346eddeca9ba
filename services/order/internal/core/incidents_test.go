package core_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/internal/core"
)

func TestEveryKindOfIncidentIsListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	raised := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`\.Incident\(ctx, "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			raised[m[1]] = true
		}
		require.NotRegexp(t, `\.Incident\(ctx, [^"]`, string(text), "%s: the kind is a literal", file)
	}
	require.Equal(t, slices.Sorted(maps.Keys(raised)), core.IncidentKinds)
}
