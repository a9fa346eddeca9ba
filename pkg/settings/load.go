// Package settings reads a service's settings from the environment, checks them, and prints them without their
// secrets.
//
// A service embeds the groups it needs (App, HTTP, MySQL, ...) in its own struct and calls Load. A wrong setting
// stops the start with one sentence that names the variable.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Error reports what is wrong with one variable.
type Error struct {
	Variable string
	Message  string // continues the sentence that the variable begins
}

func (e *Error) Error() string { return e.Variable + " " + e.Message }

// Wrong returns an Error. The message continues a sentence that begins with the variable: "must be ...", "is not ...".
func Wrong(variable, format string, args ...any) error {
	return &Error{Variable: variable, Message: fmt.Sprintf(format, args...)}
}

// group is a group of settings with a check.
type group interface{ Validate(production bool) error }

// developed is a group with additional defaults for development.
type developed interface{ developmentDefaults() }

// Load fills dst from environ, or from the process's environment if environ is nil. A value in dst is the default of
// its variable; it takes precedence over the default in the field's tag. A variable of an earlier release that has been
// replaced is an error. A field tagged secret:"true" may come from the file that NAME_FILE names. Then Load checks every
// group with Validate(production), where production is that of App, then dst itself if it has Validate() error. Finally
// it requires distinct secrets in production, and that every listener is on loopback if App.Env is not set.
func Load[T any](dst *T, environ map[string]string) error {
	if environ == nil {
		environ = env.ToMap(os.Environ())
	}
	if err := checkReplaced(environ); err != nil {
		return err
	}
	all := leaves(reflect.TypeFor[T]())
	environ, err := withFiles(environ, all)
	if err != nil {
		return err
	}
	before := *dst
	if err := env.ParseWithOptions(dst, env.Options{Environment: environ}); err != nil {
		return sentence[T](err, environ)
	}
	for _, l := range all {
		value := reflect.ValueOf(dst).Elem().FieldByIndex(l.index)
		if preset := reflect.ValueOf(&before).Elem().FieldByIndex(l.index); environ[l.key] == "" && !preset.IsZero() {
			value.Set(preset)
		}
		if p, ok := value.Addr().Interface().(*Credential); ok && environ[l.key+fileSuffix] != "" {
			p.variable, p.file = l.key+fileSuffix, environ[l.key+fileSuffix]
		}
		// NaN passes every check of bounds.
		if value.CanFloat() && (math.IsNaN(value.Float()) || math.IsInf(value.Float(), 0)) {
			return Wrong(l.key, "is %q, which is not a number", environ[l.key])
		}
	}
	production := environment(dst) == Production
	var first error
	groups(reflect.ValueOf(dst).Elem(), func(v any) {
		if d, ok := v.(developed); ok && !production {
			d.developmentDefaults()
		}
		if g, ok := v.(group); ok && first == nil {
			first = g.Validate(production)
		}
	})
	if first != nil {
		return first
	}
	if v, ok := any(dst).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	if production {
		if err := checkDistinct(environ, all); err != nil {
			return err
		}
	}
	return checkExposed(dst)
}

// FillDefaults gives each field of dst that is zero the default in its tag. It leaves the groups inside dst alone, where
// zero may be a value: BROKERLESS_AFTER=0 is off. It panics on a tag that is wrong.
func FillDefaults[T any](dst *T) {
	var defaults T
	if err := env.ParseWithOptions(&defaults, env.Options{Environment: map[string]string{}}); err != nil {
		panic(fmt.Sprintf("settings: %v", err))
	}
	for _, l := range leaves(reflect.TypeFor[T]()) {
		if f := reflect.ValueOf(dst).Elem().FieldByIndex(l.index); len(l.index) == 1 && f.IsZero() {
			f.Set(reflect.ValueOf(&defaults).Elem().FieldByIndex(l.index))
		}
	}
}

// groups calls visit with a pointer to each exported struct field inside v, depth first, without v itself.
func groups(v reflect.Value, visit func(any)) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Struct || !v.Type().Field(i).IsExported() || f.Type() == reflect.TypeFor[time.Time]() {
			continue
		}
		groups(f, visit)
		if f.CanAddr() {
			visit(f.Addr().Interface())
		}
	}
}

// sentence converts an error of the parser into one sentence that names the variable.
func sentence[T any](err error, environ map[string]string) error {
	var notSet env.VarIsNotSetError
	var empty env.EmptyVarError
	switch {
	case errors.As(err, &notSet):
		return Wrong(notSet.Key, "is required and not set")
	case errors.As(err, &empty):
		return Wrong(empty.Key, "is required and empty")
	}
	// The parser names the Go field, not the variable. Parsing each variable alone finds the one that fails.
	for _, leaf := range leaves(reflect.TypeFor[T]()) {
		value, ok := environ[leaf.key]
		if !ok {
			continue
		}
		alone := env.Options{Environment: map[string]string{leaf.key: value}}
		var parse env.ParseError
		if e := env.ParseWithOptions(new(T), alone); e == nil || !errors.As(e, &parse) {
			continue
		}
		if leaf.secret {
			return Wrong(leaf.key, "is not %s", kindName(leaf.typ))
		}
		return Wrong(leaf.key, "is %q, which is not %s", value, kindName(leaf.typ))
	}
	return fmt.Errorf("settings: %w", err)
}

type leaf struct {
	key    string
	secret bool
	typ    reflect.Type
	index  []int
}

// leaves returns the fields of t that have a variable, in order.
func leaves(t reflect.Type) []leaf {
	var found []leaf
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case key != "":
			found = append(found, leaf{
				key: key, secret: f.Tag.Get("secret") == "true", typ: f.Type, index: f.Index,
			})
		case f.Type.Kind() == reflect.Struct:
			for _, in := range leaves(f.Type) {
				in.index = append(slices.Clone(f.Index), in.index...)
				found = append(found, in)
			}
		}
	}
	return found
}

func kindName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 500ms, 30s or 5m"
	case t == reflect.TypeFor[slog.Level]():
		return "one of debug, info, warn and error"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number in range"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a comma-separated list of which each is " + kindName(t.Elem())
	case reflect.Map:
		return "a list such as order.sweep_every=1s"
	default:
		return "a valid " + t.String()
	}
}

// Describe returns the settings by variable, for the log at start. A field tagged secret:"true" shows only whether it
// is set.
func Describe(v any) []slog.Attr {
	value := reflect.Indirect(reflect.ValueOf(v))
	if value.Kind() != reflect.Struct {
		return nil
	}
	var attrs []slog.Attr
	for _, l := range leaves(value.Type()) {
		f := value.FieldByIndex(l.index)
		switch {
		case l.secret && f.IsZero():
			attrs = append(attrs, slog.String(l.key, ""))
		case l.secret:
			attrs = append(attrs, slog.String(l.key, hidden))
		case l.typ.Kind() == reflect.Map && f.Len() == 0:
			// Nothing that an installation sets.
		case l.typ == reflect.TypeFor[[]string]():
			attrs = append(attrs, slog.String(l.key, strings.Join(f.Interface().([]string), ",")))
		default:
			attrs = append(attrs, slog.String(l.key, fmt.Sprint(f.Interface())))
		}
	}
	return attrs
}
