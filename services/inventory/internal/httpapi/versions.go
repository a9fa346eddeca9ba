package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/services/inventory/internal/core"
)

// setETag sends the version of an object.
func setETag(w http.ResponseWriter, version int64) {
	w.Header().Set("ETag", `"`+strconv.FormatInt(version, 10)+`"`)
}

// ifMatch returns the version that the header If-Match requires, nil if it requires none. A proxy that compresses
// responses makes their ETags weak (W/"1"); the versions are the same.
func (m *Merchant) ifMatch(w http.ResponseWriter, r *http.Request) (version *int64, ok bool) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 || len(values) == 1 && values[0] == "*" {
		return nil, true
	}
	if len(values) == 1 {
		tag := strings.TrimPrefix(values[0], "W/")
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(tag, `"`), `"`), 10, 63)
		if v := int64(n); err == nil && tag == `"`+strconv.FormatInt(v, 10)+`"` {
			return &v, true
		}
	}
	m.refuse(w, r, contract.InvalidField("If-Match", `must be one version in quotes, such as "3", or *`))
	return nil, false
}

// creationKey returns the Idempotency-Key of a call that creates an object, nil for a call without one.
func (m *Merchant) creationKey(
	w http.ResponseWriter, r *http.Request, value *string, body any,
) (key *core.IdempotencyKey, ok bool) {
	if value == nil {
		return nil, true
	}
	if *value == "" || len(*value) > idempotency.MaxValueLen {
		m.refuse(w, r, contract.InvalidField("Idempotency-Key", "must have 1 to 64 characters"))
		return nil, false
	}
	canonical, err := json.Marshal(body) // independent of the white space in the request
	if err != nil {
		m.refuse(w, r, err)
		return nil, false
	}
	return &core.IdempotencyKey{
		Caller: caller(r).UserID, Method: r.Method, Path: r.URL.Path, Value: *value,
		BodyHash: idempotency.HashBody(canonical),
	}, true
}
