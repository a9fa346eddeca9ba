package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/chart/valuedocs"
)

func TestTableOfValuesIsCurrent(t *testing.T) {
	table, err := valuedocs.Table(filepath.Join(root, "deploy/helm/flashsale"))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/kubernetes.md"))
	require.NoError(t, err)
	fresh, err := valuedocs.Replace(string(page), table)
	require.NoError(t, err)
	require.Equal(t, fresh, string(page), "run make generate")
}

func TestValueWithoutACommentIsReported(t *testing.T) {
	values, err := valuedocs.Read("a:\n  # -- A map\n  b: {c: 1}\n# -- A list\nd:\n  - x\n")
	require.NoError(t, err)
	require.Equal(t, []valuedocs.Value{{Name: "a.b", Default: `{"c":1}`, About: "A map"}, {Name: "d", Default: `["x"]`, About: "A list"}}, values)
	_, err = valuedocs.Read("a:\n  b: 1\n")
	require.ErrorContains(t, err, "line 2: a.b has no comment")
}
