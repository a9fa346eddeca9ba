package httpserver

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"flashsale.internal/pkg/contract"
)

// maxDepth bounds the nesting of a body. No request of the API has more than four levels.
const maxDepth = 32

// checkStrict refuses a body that is not exactly one object of type t, and names the field. It detects what
// encoding/json accepts: repeated fields (parsers differ in whether the first or the last counts), fields that differ
// in case, and null, which encoding/json treats as an absent field. Only a Nullable may be null.
func checkStrict(body []byte, t reflect.Type) error {
	s := strictReader{json.NewDecoder(bytes.NewReader(body))}
	s.d.UseNumber()
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] != '{' {
		return contract.InvalidField("body", "must be a JSON object")
	}
	if err := s.value(t, nil); err != nil {
		return err
	}
	if _, err := s.d.Token(); !errors.Is(err, io.EOF) {
		return contract.InvalidField("body", "must hold one JSON value only")
	}
	return nil
}

// place is the position of a value in the body.
type place struct {
	in    *place
	name  string // of a field; "" for an element of a list
	index int    // of an element of a list
	depth int
}

func (p *place) String() string {
	switch {
	case p == nil:
		return "body"
	case p.name == "":
		return p.in.String() + "[" + strconv.Itoa(p.index) + "]"
	case p.in == nil:
		return p.name
	}
	return p.in.String() + "." + p.name
}

func (p *place) under(name string, index int) *place {
	depth := 1
	if p != nil {
		depth = p.depth + 1
	}
	return &place{in: p, name: name, index: index, depth: depth}
}

func (p *place) wrong(message string) error { return contract.InvalidField(clip(p.String()), message) }

type strictReader struct{ d *json.Decoder }

// value reads one value. A nil t accepts everything except null.
func (s strictReader) value(t reflect.Type, at *place) error {
	if at != nil && at.depth > maxDepth {
		return contract.InvalidField("body", "is nested too deeply")
	}
	token, err := s.d.Token()
	if err != nil {
		return syntax(err)
	}
	if t != nil && reflect.PointerTo(t).Implements(mayBeNull) {
		if token == nil {
			return nil
		}
		t = reflect.New(t).Interface().(nullable).valueType()
	}
	if token == nil {
		return at.wrong("must not be null")
	}
	t = plainType(t)
	if t != nil && !fits(token, t) {
		return at.wrong("must be " + typeName(t))
	}
	switch token {
	case json.Delim('{'):
		return s.object(t, at)
	case json.Delim('['):
		return s.list(t, at)
	}
	return nil
}

func (s strictReader) object(t reflect.Type, at *place) error {
	var fields map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	seen := map[string]bool{}
	for s.d.More() {
		token, err := s.d.Token()
		if err != nil {
			return syntax(err)
		}
		name, _ := token.(string)
		here := at.under(name, 0)
		var of reflect.Type
		if fields != nil {
			var known bool
			if of, known = fields[name]; !known {
				return here.wrong("is unknown")
			}
		} else if t != nil && t.Kind() == reflect.Map {
			of = t.Elem()
		}
		if seen[name] {
			return here.wrong("appears twice")
		}
		seen[name] = true
		if err := s.value(of, here); err != nil {
			return err
		}
	}
	return s.close()
}

func (s strictReader) list(t reflect.Type, at *place) error {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}
	for i := 0; s.d.More(); i++ {
		if err := s.value(of, at.under("", i)); err != nil {
			return err
		}
	}
	return s.close()
}

func (s strictReader) close() error {
	if _, err := s.d.Token(); err != nil {
		return syntax(err)
	}
	return nil
}

func syntax(err error) error {
	var bad *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return contract.InvalidField("body", "is not complete")
	case errors.As(err, &bad):
		return contract.InvalidField("body", fmt.Sprintf("is not JSON (at byte %d)", bad.Offset))
	}
	return contract.InvalidField("body", "is not JSON")
}

var (
	readsJSON = reflect.TypeFor[json.Unmarshaler]()
	readsText = reflect.TypeFor[encoding.TextUnmarshaler]()
	mayBeNull = reflect.TypeFor[nullable]()
)

// plainType returns t without pointers, nil for any and for a type with its own unmarshaler.
func plainType(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() == reflect.Interface ||
		reflect.PointerTo(t).Implements(readsJSON) || reflect.PointerTo(t).Implements(readsText) {
		return nil
	}
	return t
}

// fits reports whether a value that begins with token, which is not null, can be decoded into t.
func fits(token json.Token, t reflect.Type) bool {
	kind := t.Kind()
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return kind == reflect.Struct || kind == reflect.Map
		}
		return kind == reflect.Slice || kind == reflect.Array
	case string:
		return kind == reflect.String || kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	case bool:
		return kind == reflect.Bool
	case json.Number:
		var err error
		switch kind {
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			_, err = strconv.ParseInt(v.String(), 10, t.Bits())
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			_, err = strconv.ParseUint(v.String(), 10, t.Bits())
		case reflect.Float32, reflect.Float64:
			_, err = strconv.ParseFloat(v.String(), t.Bits())
		default:
			return t == reflect.TypeFor[json.Number]()
		}
		return err == nil
	}
	return true
}

var fieldCache sync.Map // reflect.Type -> map[string]reflect.Type; one entry per request type

// fieldsOf maps the JSON names of t's fields to their types, nil for a field with the option "string".
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if f, ok := fieldCache.Load(t); ok {
		return f.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported(), f.Anonymous && name == "", name == "-" && opts == "":
			continue
		case name == "":
			name = f.Name
		}
		fields[name] = f.Type
		if strings.Contains(opts, "string") {
			fields[name] = nil
		}
	}
	fieldCache.Store(t, fields)
	return fields
}
