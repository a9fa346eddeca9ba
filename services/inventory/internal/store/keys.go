package store

import (
	"fmt"
	"net/http"
	"strings"

	"gorm.io/gorm"

	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/services/inventory/internal/core"
)

// What the Idempotency-Keys of creating calls store: one of these words and the id. The keys of adjustments store only
// the id; FinishAdjustment deletes by it.
const (
	createdProduct  = "product "
	createdActivity = "activity "
)

func idempotencyKey(k core.IdempotencyKey) idempotency.Key {
	return idempotency.Key{Caller: k.Caller, Method: k.Method, Path: k.Path, Value: k.Value, BodyHash: k.BodyHash}
}

// begin takes the key of a creating call, as the first statement of its transaction. It returns the id of the object
// that an earlier call with the key created, "" if there is none. A nil key is that of a call without one.
func begin(tx *gorm.DB, key *core.IdempotencyKey, what string) (id string, err error) {
	if key == nil {
		return "", nil
	}
	known, err := idempotency.Begin(tx, idempotencyKey(*key))
	if err != nil || known == nil {
		return "", err
	}
	id, ok := strings.CutPrefix(string(known.Body), what)
	if !ok {
		return "", fmt.Errorf("the key of a creating call stores %q", known.Body)
	}
	return id, nil
}

// save stores the id of the created object with the key.
func save(tx *gorm.DB, key *core.IdempotencyKey, what, id string) error {
	if key == nil {
		return nil
	}
	return idempotency.Save(tx, idempotencyKey(*key), http.StatusCreated, []byte(what+id))
}
