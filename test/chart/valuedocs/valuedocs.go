// Package valuedocs makes a table from the comments in a chart's values.yaml.
package valuedocs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Value is one line of the table.
type Value struct{ Name, Default, About string }

// The marks around the table in the page.
const (
	begin = "<!-- values: made by make generate -->\n"
	end   = "<!-- end of values -->\n"
)

// Table returns the table of the chart and its bundled dependencies.
func Table(chart string) (string, error) {
	var b strings.Builder
	b.WriteString("| Value | Default | What it does |\n|---|---|---|\n")
	for _, file := range []struct{ name, prefix string }{
		{"values.yaml", ""},
		{"charts/devdeps/values.yaml", "devdeps."},
	} {
		raw, err := os.ReadFile(filepath.Join(chart, file.name))
		if err != nil {
			return "", err
		}
		values, err := Read(string(raw))
		if err != nil {
			return "", fmt.Errorf("%s: %w", file.name, err)
		}
		for _, v := range values {
			fmt.Fprintf(&b, "| `%s%s` | `%s` | %s |\n", file.prefix, v.Name, v.Default, v.About)
		}
	}
	return b.String(), nil
}

// Read returns the values whose comment begins with "# --", in the order of the file. A value without one is an error.
// It supports only the syntax of the charts' files: maps, indented by two blanks, comments of one line.
func Read(text string) ([]Value, error) {
	var all map[string]any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		return nil, err
	}
	var values []Value
	var path []string
	about, below := "", -1 // below: deeper lines belong to a value that is already listed
	for n, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		depth := (len(line) - len(trimmed)) / 2
		switch {
		case trimmed == "":
			continue
		case below >= 0 && depth > below:
			continue
		case strings.HasPrefix(trimmed, "# -- "):
			about = strings.TrimPrefix(trimmed, "# -- ")
			continue
		case strings.HasPrefix(trimmed, "#"):
			continue
		}
		below = -1
		key, _, ok := strings.Cut(trimmed, ":")
		if !ok || depth > len(path) {
			return nil, fmt.Errorf("line %d is not understood", n+1)
		}
		path = append(path[:depth:depth], key)
		value, err := at(all, path)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if about == "" {
			if m, ok := value.(map[string]any); ok && len(m) > 0 {
				continue
			}
			return nil, fmt.Errorf("line %d: %s has no comment", n+1, strings.Join(path, "."))
		}
		def, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		values = append(values,
			Value{
				strings.Join(path, "."), strings.ReplaceAll(string(def), "|", `\|`),
				strings.ReplaceAll(about, "|", `\|`),
			})
		about, below = "", depth
	}
	return values, nil
}

func at(v any, path []string) (any, error) {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is in no map", strings.Join(path, "."))
		}
		if v, ok = m[key]; !ok {
			return nil, fmt.Errorf("%s is not there", strings.Join(path, "."))
		}
	}
	return v, nil
}

// Replace puts the table between the marks of the page.
func Replace(page, table string) (string, error) {
	head, rest, ok := strings.Cut(page, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", errors.New("the page has no marks for the table")
	}
	return head + begin + table + end + tail, nil
}
