package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

const maxFile = 1 << 20

// Parse reads the rules of a file in YAML (or JSON, which is valid YAML). It is strict: an unknown key, an impossible
// value, a second document, a duplicate name and what CheckFields refuses are errors.
func Parse(text []byte) (Set, error) {
	s, err := decode(text)
	if err != nil {
		return Set{}, err
	}
	var raw struct{ Rules []map[string]any }
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return Set{}, fmt.Errorf("rules: %w", err)
	}
	for i, fields := range raw.Rules {
		if err := CheckFields(fields); err != nil {
			return Set{}, fmt.Errorf("rules: rule %q: %w", s.Rules[i].Name, err)
		}
	}
	if err := s.Validate(); err != nil {
		return Set{}, fmt.Errorf("rules: %w", err)
	}
	return s, nil
}

// parseStored reads the rules in Redis, which were checked before they were written. Processes of all releases read
// them, so they have no refuse_all: there, limit 0 is enough.
func parseStored(text string) (Set, error) {
	s, err := decode([]byte(text))
	if err != nil {
		return Set{}, err
	}
	for i := range s.Rules {
		s.Rules[i].RefuseAll = s.Rules[i].Limit == 0
	}
	if err := s.Validate(); err != nil {
		return Set{}, fmt.Errorf("rules: %w", err)
	}
	return s, nil
}

func decode(text []byte) (Set, error) {
	if len(text) > maxFile {
		return Set{}, fmt.Errorf("rules: too many bytes: %d, maximum %d", len(text), maxFile)
	}
	var s Set
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return Set{}, fmt.Errorf("rules: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Set{}, errors.New("rules: more than one document")
	}
	return s, nil
}

// format returns rules as parseStored reads them.
func format(s Set) (string, error) {
	s.Rules = slices.Clone(s.Rules)
	for i := range s.Rules {
		s.Rules[i].RefuseAll = false
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(s), e.Close()); err != nil {
		return "", fmt.Errorf("rules: %w", err)
	}
	return b.String(), nil
}

// FieldError is what is wrong with one field of a rule.
type FieldError struct{ Field, Message string }

// Error implements error.
func (e *FieldError) Error() string { return e.Field + " " + e.Message }

// withDefault are the fields of a Rule whose zero value stands for a default above zero.
var withDefault = []string{"per", "burst", "cost", "max_wait", "queue", "buckets", "warm_up", "cold_factor"}

// CheckFields returns a *FieldError for what is lost when fields are decoded into a Rule: a limit that is missing, and
// a zero that is written although the Rule would take it for its default.
func CheckFields(fields map[string]any) error {
	if _, ok := fields["limit"]; !ok {
		return &FieldError{"limit", "is required"}
	}
	for _, name := range withDefault {
		zero := false
		switch v := fields[name].(type) {
		case int:
			zero = v == 0
		case float64:
			zero = v == 0
		case string:
			d, err := time.ParseDuration(v)
			zero = err == nil && d == 0
		}
		if zero {
			return &FieldError{name, "must not be 0: leave it out for its default"}
		}
	}
	return nil
}
