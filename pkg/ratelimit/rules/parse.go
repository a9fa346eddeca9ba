package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

const maxFile = 1 << 20

// Parse reads rules in YAML (or JSON, which is valid YAML). It is strict: an unknown key, an impossible value, a
// second document and a duplicate name are errors.
func Parse(text []byte) (Set, error) {
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
	if err := s.Validate(); err != nil {
		return Set{}, fmt.Errorf("rules: %w", err)
	}
	return s, nil
}

// Format returns rules as YAML.
func Format(s Set) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return b.Bytes(), e.Close()
}
