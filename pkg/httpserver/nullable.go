package httpserver

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Nullable is a field of a request that may be null. Set is false if the field is absent. Value is nil if it is null.
type Nullable[T any] struct {
	Set   bool
	Value *T
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(raw []byte) error {
	n.Set, n.Value = true, nil
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	n.Value = new(T)
	return json.Unmarshal(raw, n.Value)
}

// valueType returns the type of the value, which is checked as that of any other field.
func (*Nullable[T]) valueType() reflect.Type { return reflect.TypeFor[T]() }

// nullable is implemented by all pointers to a Nullable.
type nullable interface{ valueType() reflect.Type }
