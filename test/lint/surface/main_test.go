package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each name is something to learn for those who run the system. An issue that needs more states its new bound here.
const (
	mostSettings = 102
	mostWords    = 64
	mostTargets  = 24
	mostMetrics  = 62
)

func TestTheSurfaceStaysSmall(t *testing.T) {
	t.Chdir("../../..")
	s, err := read("services", "pkg", "flashctl")
	require.NoError(t, err)
	require.NotEmpty(t, s.names())
	require.LessOrEqual(t, len(s.names()), mostSettings, "settings")
	require.LessOrEqual(t, len(metrics(t, "services", "pkg")), mostMetrics, "metrics")
	require.LessOrEqual(t, matches(t, "docs/glossary.md", `(?m)^\* \*\*`), mostWords, "words of the glossary")
	require.LessOrEqual(t, matches(t, "Makefile", `(?m)^[a-z-]+:.*## `), mostTargets, "targets that make help lists")
}

// metrics returns the names of the instruments: all texts flashsale.… in the code that name no attribute.
func metrics(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec:
					return false
				case *ast.CallExpr:
					of, ok := n.Fun.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					from, ok := of.X.(*ast.Ident)
					return !ok || from.Name != "attribute"
				case *ast.BasicLit:
					if name := strings.Trim(n.Value, "\"`"); strings.HasPrefix(name, "flashsale.") && !strings.HasPrefix(name+"/", root) {
						found[name] = true
					}
				}
				return true
			})
			return nil
		}))
	}
	require.NotEmpty(t, found)
	return found
}

// Every counter begins at 0, so that increase() sees its first event: telemetry.NewCounter makes it, or its value is
// observed at each scrape.
func TestCountersAreMadeByTelemetry(t *testing.T) {
	t.Chdir("../../..")
	for _, dir := range []string{"services", "pkg"} {
		require.NoError(t, filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || file == "pkg/telemetry/counter.go" {
				return err
			}
			text, err := os.ReadFile(file)
			require.NotRegexp(t, `\.(Int|Float)64Counter\(`, string(text), file)
			return err
		}))
	}
}

// matches returns how often the pattern, which must occur, does.
func matches(t *testing.T, file, pattern string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	n := len(regexp.MustCompile(pattern).FindAll(text, -1))
	require.NotZero(t, n, file)
	return n
}

func TestTablesOfSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	t.Chdir(dir)
	write("pkg/settings/groups.go", "package settings\n\ntype App struct {\n\t// Name of it.\n\tEnv string `env:\"APP_ENV\" envDefault:\"x\"`\n}\n")
	for _, name := range []string{"seckill", "order", "inventory"} {
		write("services/"+name+"/cmd/"+name+"/process.go", "package main\n\nimport \"flashsale.internal/pkg/settings\"\n\ntype config struct {\n"+
			"\tsettings.App\n\t// Own,\n\t// of two lines.\n\tA string `env:\""+strings.ToUpper(name)+"_A\"`\n}\n")
	}
	write("services/allinone/config.go", "package allinone\n\ntype Config struct {\n\t// Demo.\n\tD bool `env:\"D\"`\n}\n")
	s, err := read("services", "pkg")
	require.NoError(t, err)
	made, err := tables(s)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(made, "APP_ENV"))
	require.Contains(t, made, "## Every service\n\n| Variable | Default | Meaning |\n|---|---|---|\n| `APP_ENV` | `x` | Name of it |\n")
	require.Contains(t, made, "| `ORDER_A` |  | Own, of two lines |\n")
	require.Len(t, s.names(), 5)

	write("services/allinone/config.go", "package allinone\n\ntype Config struct {\n\tD bool `env:\"D\"`\n}\n")
	s, err = read("services", "pkg")
	require.NoError(t, err)
	_, err = tables(s)
	require.EqualError(t, err, "D has no comment")
}
