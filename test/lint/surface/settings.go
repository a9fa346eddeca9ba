package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// setting is a variable of the environment that a struct's field reads.
type setting struct {
	name, def, about string
	secret           bool
}

// source holds the struct types of the modules, by the folder of their package and their name: pkg/settings.App.
type source map[string]structType

type structType struct {
	*ast.StructType
	dir     string
	imports map[string]string // folder by the name of the import
}

// The import path of the modules' root.
const root = "flashsale.internal/"

// read parses the Go files of the folders, tests and generated code excepted.
func read(dirs ...string) (source, error) {
	types := source{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") ||
				strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".gen.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err == nil {
				types.add(filepath.ToSlash(filepath.Dir(file)), f)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return types, nil
}

func (s source) add(dir string, f *ast.File) {
	imports := map[string]string{}
	for _, i := range f.Imports {
		from, err := strconv.Unquote(i.Path.Value)
		if in, ours := strings.CutPrefix(from, root); err == nil && ours {
			imports[path.Base(in)] = in
		}
	}
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			t := spec.(*ast.TypeSpec)
			if st, ok := t.Type.(*ast.StructType); ok {
				s[dir+"."+t.Name.Name] = structType{st, dir, imports}
			}
		}
	}
}

// of returns the settings of the type and of the structs inside it, in order.
func (s source) of(name string) []setting {
	var found []setting
	t, ok := s[name]
	if !ok {
		return nil
	}
	for _, f := range t.Fields.List {
		if one, ok := settingOf(f); ok {
			found = append(found, one)
			continue
		}
		switch x := f.Type.(type) {
		case *ast.Ident:
			found = append(found, s.of(t.dir+"."+x.Name)...)
		case *ast.SelectorExpr:
			if from, ok := x.X.(*ast.Ident); ok {
				found = append(found, s.of(t.imports[from.Name]+"."+x.Sel.Name)...)
			}
		}
	}
	return found
}

func settingOf(f *ast.Field) (setting, bool) {
	if f.Tag == nil {
		return setting{}, false
	}
	text, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return setting{}, false
	}
	tag := reflect.StructTag(text)
	one := setting{name: tag.Get("env"), def: tag.Get("envDefault"), secret: tag.Get("secret") == "true"}
	about := strings.TrimSpace(strings.ReplaceAll(f.Doc.Text(), "\n", " "))
	one.about = strings.TrimSuffix(about, ".")
	return one, one.name != ""
}

// names returns each variable once.
func (s source) names() map[string]bool {
	all := map[string]bool{}
	for _, t := range s {
		for _, f := range t.Fields.List {
			if one, ok := settingOf(f); ok {
				all[one.name] = true
			}
		}
	}
	return all
}

// process is what reads settings: a heading of the page, and the type that holds them.
type process struct{ title, config string }

var services = []process{
	{"seckill", "services/seckill/cmd/seckill.config"},
	{"order", "services/order/cmd/order.config"},
	{"inventory", "services/inventory/cmd/inventory.config"},
}

// tables returns the tables of the page: what every service reads stands in the first one.
func tables(s source) (string, error) {
	reads := map[string]int{}
	for _, p := range services {
		for _, one := range s.of(p.config) {
			reads[one.name]++
		}
	}
	var b strings.Builder
	listed := map[string]bool{}
	table := func(p process, belongs func(setting) bool) error {
		fmt.Fprintf(&b, "\n## %s\n\n| Variable | Default | Meaning |\n|---|---|---|\n", p.title)
		all := s.of(p.config)
		for _, one := range all {
			if !belongs(one) {
				continue
			}
			if one.about == "" {
				return fmt.Errorf("%s has no comment", one.name)
			}
			listed[one.name] = true
			def := one.def
			if def != "" {
				def = "`" + def + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", one.name, def, one.about)
		}
		if len(all) == 0 {
			return fmt.Errorf("%s holds no settings", p.config)
		}
		return nil
	}
	all := len(services)
	if err := table(process{"Every service", services[0].config}, func(o setting) bool { return reads[o.name] == all }); err != nil {
		return "", err
	}
	for _, p := range services {
		if err := table(p, func(o setting) bool { return reads[o.name] < all }); err != nil {
			return "", err
		}
	}
	for _, p := range []process{
		{"allinone", "services/allinone.Config"},
	} {
		if err := table(p, func(o setting) bool { return !listed[o.name] }); err != nil {
			return "", err
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}
