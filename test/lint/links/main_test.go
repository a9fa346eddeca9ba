package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	put("docs/b.md", "# The `gate`, and more\n## Same\n## Same\n```\n# no heading\n```\n<a id=\"here\"></a>\n")
	put("code.go", "package x\n\nvar y int\n")
	a := put("docs/a.md", "# A\n")
	cases := map[string]string{
		"b.md": "", "b.md#the-gate-and-more": "", "b.md#same": "", "b.md#same-1": "", "b.md#here": "", "#a": "",
		"../code.go": "", "../code.go#L3": "", "../code.go#L1-L3": "", "../docs": "",
		"c.md": "no such file", "b.md#same-2": "no such heading", "b.md#no-heading": "no such heading", "#b": "no such heading",
		"../code.go#L4": "the file has 3 lines", "../docs#x": "a directory has no headings", "/docs/b.md": "absolute path",
	}
	for target, want := range cases {
		err := resolve(a, target)
		if want == "" {
			require.NoError(t, err, target)
			continue
		}
		require.EqualError(t, err, want, target)
	}
}

func TestFindsLinksOutsideOfCode(t *testing.T) {
	text := "[one](a.md) `[no](b.md)` [![badge](i.svg)](c.md#x \"title\")\n```\n[no](d.md)\n```\n" +
		"[over\ntwo](e.md) [far](https://example.com/x) [mail](mailto:a@example.com)\n\n[ref]: f.md\n"
	require.Equal(t, []link{{1, "a.md"}, {1, "i.svg"}, {1, "c.md#x"}, {6, "e.md"}, {8, "f.md"}}, links([]byte(text)))
}

func TestFindsPathsAndFunctions(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.MkdirAll("pkg/bus", 0o750))
	require.NoError(t, os.WriteFile("pkg/bus/a.go",
		[]byte("package bus\n\nfunc (b *Bus[T]) Send() {}\nfunc Open[T any]() {}\n"), 0o600))
	text := []byte("`pkg/bus` `pkg/none` `internal/x` `services/*/api`\n\n" +
		"| step | file | function |\n| `sends` | [a.go](pkg/bus/a.go) | `Bus.Send`, `Open`, `Close` |\n| other | `a.go` | `Close` |\n")
	require.Equal(t, []link{{1, "pkg/bus"}, {1, "pkg/none"}}, paths(text))
	require.NoError(t, exists("pkg/bus"))
	require.Error(t, exists("pkg/none"))
	require.NoError(t, os.WriteFile("pkg/bus/a_test.go", []byte("package bus\n\nfunc TestSend(t *testing.T) {}\n"),
		0o600))
	tests, err := testNames(".")
	require.NoError(t, err)
	require.Equal(t, testSet{"TestSend"}, tests)
	require.NoError(t, tests.find("TestSe"))
	require.Error(t, tests.find("TestSendAll"))
	require.Equal(t, []link{{1, "TestSend"}, {1, "TestNone"}}, namedTests([]byte("`TestSend`, `TestNone`, TestOther")))
	missing := []string{}
	for _, f := range functions(text) {
		if declared("a.md", f) != nil {
			missing = append(missing, f.name)
		}
	}
	require.Equal(t, []string{"Close"}, missing)
}
