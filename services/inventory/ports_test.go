package inventory

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostMethods bounds the methods of an interface, those of the interfaces in it included.
const mostMethods = 10

// A port is small enough to be read at once, and to be faked by hand.
func TestPortsAreSmall(t *testing.T) {
	ports := map[string]*ast.InterfaceType{} // by package and name
	fset := token.NewFileSet()
	require.NoError(t, filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".gen.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if named, ok := n.(*ast.TypeSpec); ok {
				if i, ok := named.Type.(*ast.InterfaceType); ok {
					ports[file.Name.Name+"."+named.Name.Name] = i
				}
			}
			if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 {
				if i, ok := field.Type.(*ast.InterfaceType); ok {
					ports[file.Name.Name+"."+field.Names[0].Name+" at "+fset.Position(field.Pos()).String()] = i
				}
			}
			return true
		})
		return nil
	}))
	require.Greater(t, len(ports), 30)
	for name, port := range ports {
		pkg, _, _ := strings.Cut(name, ".")
		require.LessOrEqual(t, methods(ports, pkg, port), mostMethods, name)
	}
}

// methods counts the methods of an interface of a package.
func methods(ports map[string]*ast.InterfaceType, pkg string, port *ast.InterfaceType) (n int) {
	for _, m := range port.Methods.List {
		switch in := m.Type.(type) {
		case *ast.FuncType:
			n += len(m.Names)
		case *ast.Ident:
			if i := ports[pkg+"."+in.Name]; i != nil {
				n += methods(ports, pkg, i)
			}
		case *ast.SelectorExpr:
			if i := ports[in.X.(*ast.Ident).Name+"."+in.Sel.Name]; i != nil {
				n += methods(ports, in.X.(*ast.Ident).Name, i)
			}
		}
	}
	return n
}
