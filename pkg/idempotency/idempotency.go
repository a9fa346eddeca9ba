// Package idempotency stores the responses to requests with an Idempotency-Key, in the transaction of the request. A
// rollback removes the response too. Of two concurrent requests with one key, the second waits for the commit of the
// first and returns the same response.
//
// The table is part of each service's own migrations; schema.sql holds it for MySQL and for SQLite.
package idempotency

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
)

// Schema is the documented table, for tests and for copying into migrations.
//
//go:embed schema.sql
var Schema string

// KeptFor is the time for which a response is stored.
const KeptFor = 24 * time.Hour

// Bounds of a Key, which are those of its columns.
const (
	MaxValueLen  = 64
	maxMethodLen = 8
	maxPathLen   = 255
	sweepRows    = 500
)

// Key names one request.
type Key struct {
	Caller   string // user id
	Method   string
	Path     string // full URL path
	Value    string // the Idempotency-Key header
	BodyHash [sha256.Size]byte
}

// HashBody returns the BodyHash of a request body.
func HashBody(body []byte) [sha256.Size]byte { return sha256.Sum256(body) }

// Stored is the response to an earlier request.
type Stored struct {
	Status int
	Body   []byte
}

type record struct {
	ID        int64 `gorm:"primaryKey"`
	Caller    string
	Method    string
	Path      string
	IdemKey   string
	BodyHash  string
	Status    int
	Body      []byte
	CreatedAt time.Time
}

func (record) TableName() string { return "idempotency_keys" }

// Begin takes the key for this transaction and returns nil: do the work, then call Save. If the request has a stored
// response, Begin returns it instead. It refuses a missing or malformed key with invalid_request, and a key that was
// used with another body with idempotency_conflict.
//
// Call it first in the transaction, under sqldb.InTx: two requests that wait for the rollback of a third may deadlock.
func Begin(tx *gorm.DB, k Key) (*Stored, error) { return take(tx, k, Stored{}) }

// BeginWith is Begin and Save in one statement, for a response that is known before the work is done. If the work fails,
// the transaction must be rolled back.
func BeginWith(tx *gorm.DB, k Key, response Stored) (*Stored, error) {
	if response.Status <= 0 {
		return nil, fmt.Errorf("idempotency: status %d", response.Status)
	}
	return take(tx, k, response)
}

// take takes the key and stores the response with it, which has status 0 while it is not known.
func take(tx *gorm.DB, k Key, response Stored) (*Stored, error) {
	if err := k.validate(); err != nil {
		return nil, err
	}
	if !sqldb.InsideTx(tx) {
		return nil, errors.New("idempotency: Begin outside of a transaction")
	}
	now := tx.NowFunc()
	hash := hex.EncodeToString(k.BodyHash[:])
	// Both forms keep an existing row unchanged, wait for the transaction that holds it, and then lock it.
	known := " ON DUPLICATE KEY UPDATE caller = caller"
	if sqldb.IsSQLite(tx) {
		known = " ON CONFLICT DO NOTHING"
	}
	inserted, err := sqldb.Exec(tx, "INSERT INTO idempotency_keys "+
		"(caller, method, path, idem_key, body_hash, status, body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"+known,
		k.Caller, k.Method, k.Path, k.Value, hash, response.Status, response.Body, now)
	if err != nil {
		return nil, fmt.Errorf("idempotency: take the key: %w", err)
	}
	if inserted > 0 {
		return nil, nil
	}
	var row record
	if err := k.where(sqldb.ForUpdate(tx)).Take(&row).Error; err != nil {
		if errors.Is(err, gorm.ErrRecordNotFound) { // deleted by Sweep in between
			return nil, sqldb.Race(err)
		}
		return nil, fmt.Errorf("idempotency: read the key: %w", err)
	}
	expired := !row.CreatedAt.After(now.Add(-KeptFor)) // but not yet deleted
	switch {
	case !expired && row.BodyHash != hash:
		return nil, contract.Refuse(contract.CodeIdempotencyConflict,
			"this Idempotency-Key was used with another request body")
	case !expired && row.Status != 0:
		return &Stored{Status: row.Status, Body: row.Body}, nil
	case !expired && response.Status == 0:
		// This transaction took it before, or one was committed without Save: there is no response yet.
		return nil, nil
	}
	err = tx.Model(&record{}).Where("id = ?", row.ID).Updates(map[string]any{
		"body_hash": hash, "status": response.Status, "body": response.Body, "created_at": now,
	}).Error
	if err != nil {
		return nil, fmt.Errorf("idempotency: take over the key: %w", err)
	}
	return nil, nil
}

// Save stores the response, in the same transaction as Begin.
func Save(tx *gorm.DB, k Key, status int, body []byte) error {
	if !sqldb.InsideTx(tx) {
		return errors.New("idempotency: Save outside of a transaction")
	}
	if status <= 0 {
		return fmt.Errorf("idempotency: status %d", status)
	}
	update := k.where(tx.Model(&record{})).Updates(map[string]any{"status": status, "body": body})
	if update.Error != nil {
		return fmt.Errorf("idempotency: store the response: %w", update.Error)
	}
	if update.RowsAffected != 1 {
		return errors.New("idempotency: Save without Begin")
	}
	return nil
}

// Sweep deletes rows older than KeptFor, some hundred at a time, and returns the number of deleted rows.
func Sweep(ctx context.Context, db *gorm.DB) (int64, error) {
	db = db.WithContext(ctx)
	before := db.NowFunc().Add(-KeptFor)
	var deleted int64
	for {
		var old []int64
		err := db.Model(&record{}).Where("created_at <= ?", before).
			Order("created_at").Limit(sweepRows).Pluck("id", &old).Error
		if err != nil || len(old) == 0 {
			return deleted, err
		}
		// A request may have taken a row over meanwhile.
		res := db.Where("id IN ? AND created_at <= ?", old, before).Delete(&record{})
		if res.Error != nil {
			return deleted, res.Error
		}
		deleted += res.RowsAffected
		if len(old) < sweepRows {
			return deleted, nil
		}
	}
}

func (k Key) where(tx *gorm.DB) *gorm.DB {
	return tx.Where("caller = ? AND method = ? AND path = ? AND idem_key = ?", k.Caller, k.Method, k.Path, k.Value)
}

func (k Key) validate() error {
	if k.Value == "" || len(k.Value) > MaxValueLen {
		return contract.InvalidField("Idempotency-Key", "must have 1 to 64 characters")
	}
	for i := range len(k.Value) {
		if k.Value[i] < 0x20 || k.Value[i] > 0x7e {
			return contract.InvalidField("Idempotency-Key", "must be printable ASCII")
		}
	}
	switch {
	case !contract.ValidUserID(k.Caller):
		return errors.New("idempotency: no caller")
	case k.Method == "" || len(k.Method) > maxMethodLen:
		return errors.New("idempotency: no method")
	case k.Path == "":
		return errors.New("idempotency: no path")
	case len(k.Path) > maxPathLen:
		return contract.Refuse(contract.CodeNotFound, "no such resource")
	}
	return nil
}
