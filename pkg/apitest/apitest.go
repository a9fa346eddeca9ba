// Package apitest derives requests from OpenAPI files, so that a test covers each operation without a list of its own.
package apitest

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Request is a request with a JSON body. Path still has its parameters, such as {order_sn}.
type Request struct {
	Method, Path, Body string
	Field              string // the field that is null, named as in the errors of a problem document
}

type document struct {
	Paths      map[string]map[string]yaml.Node
	Components struct{ Schemas map[string]*schema }
}

type operation struct {
	ID          string `yaml:"operationId"`
	RequestBody *struct {
		Content map[string]struct{ Schema *schema }
	} `yaml:"requestBody"`
}

type schema struct {
	Ref        string `yaml:"$ref"`
	Type       string
	Format     string
	Nullable   bool
	Enum       []any
	Example    any
	Minimum    *int64
	AllOf      []*schema `yaml:"allOf"` // one schema at most
	Items      *schema
	Properties map[string]*schema
}

// Operation is an operation of the file. Path still has its parameters.
type Operation struct{ ID, Method, Path string }

// Operations returns all operations of the file, by path.
func Operations(t testing.TB, file string) []Operation {
	t.Helper()
	doc := load(t, file)
	var all []Operation
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			node, ok := doc.Paths[path][method]
			if !ok {
				continue
			}
			var op operation
			require.NoError(t, node.Decode(&op), "%s %s", method, path)
			require.NotEmpty(t, op.ID, "%s %s has no operationId", method, path)
			all = append(all, Operation{op.ID, strings.ToUpper(method), path})
		}
	}
	require.NotEmpty(t, all, "%s has no operation", file)
	return all
}

func load(t testing.TB, file string) (doc document) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &doc))
	return doc
}

// NullFields returns one request for each property and list element of each JSON body in the file: that value is null,
// and all others have the right type. Values that the file declares nullable are left out.
func NullFields(t testing.TB, file string) []Request {
	t.Helper()
	doc := load(t, file)
	var all []Request
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range []string{"post", "put", "patch", "delete"} {
			node, ok := doc.Paths[path][method]
			if !ok {
				continue
			}
			var op operation
			require.NoError(t, node.Decode(&op), "%s %s", method, path)
			if op.RequestBody == nil {
				continue
			}
			of, ok := op.RequestBody.Content["application/json"]
			require.True(t, ok, "%s %s takes no JSON", method, path)
			doc.nulls(t, of.Schema, "", func(field string, body any) {
				raw, err := json.Marshal(body)
				require.NoError(t, err)
				all = append(all, Request{strings.ToUpper(method), path, string(raw), field})
			})
		}
	}
	require.NotEmpty(t, all, "%s has no JSON body", file)
	return all
}

// nulls calls found for each value below s, with the value of s in which that one is null.
func (d *document) nulls(t testing.TB, s *schema, at string, found func(field string, value any)) {
	s = d.resolve(t, s)
	if s.Items != nil {
		each := func(field string, value any) { found(field, []any{value}) }
		if !d.resolve(t, s.Items).Nullable {
			each(at+"[0]", nil)
		}
		d.nulls(t, s.Items, at+"[0]", each)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		each := func(field string, value any) {
			whole := d.sample(t, s).(map[string]any)
			whole[name] = value
			found(field, whole)
		}
		field := strings.TrimPrefix(at+"."+name, ".")
		if !d.resolve(t, s.Properties[name]).Nullable {
			each(field, nil)
		}
		d.nulls(t, s.Properties[name], field, each)
	}
}

// sample returns a value of the schema's type.
func (d *document) sample(t testing.TB, s *schema) any {
	s = d.resolve(t, s)
	switch {
	case s.Properties != nil || s.Type == "object":
		object := map[string]any{}
		for name, of := range s.Properties {
			object[name] = d.sample(t, of)
		}
		return object
	case s.Items != nil:
		return []any{d.sample(t, s.Items)}
	case s.Example != nil:
		return s.Example
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "boolean":
		return true
	case s.Type == "integer" || s.Type == "number":
		if s.Minimum != nil && *s.Minimum > 0 {
			return *s.Minimum
		}
		return 0
	case s.Format == "date-time":
		return "2026-11-21T10:00:00Z"
	}
	require.Equal(t, "string", s.Type, "a schema that has no sample yet: %+v", *s)
	return "1"
}

func (d *document) resolve(t testing.TB, s *schema) *schema {
	for s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		next, ok := d.Components.Schemas[name]
		require.True(t, ok, "%s is not in the file", s.Ref)
		s = next
	}
	if len(s.AllOf) > 0 {
		require.Len(t, s.AllOf, 1, "a combination of schemas")
		all := *d.resolve(t, s.AllOf[0])
		all.Nullable = s.Nullable || all.Nullable
		return &all
	}
	return s
}
