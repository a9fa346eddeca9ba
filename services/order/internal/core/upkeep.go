package core

import (
	"context"
	"slices"
	"time"
)

const (
	contactBatch      = 500 // contacts in one statement of a sweep or of a command
	contactSweepSteps = 20  // steps of one sweep at most
)

// ContactUpkeep deletes and re-encrypts stored contacts, beside running services.
type ContactUpkeep struct {
	Store  ContactStore
	Sealer Sealer        // for Reencrypt
	Keep   time.Duration // for Sweep
}

// ContactStore keeps the encrypted contacts and the descriptions of activities.
type ContactStore interface {
	Now(ctx context.Context) (time.Time, error) // as Store.Now
	// DueContacts returns contacts whose KeptFrom is not after the given time, oldest first, without their text.
	DueContacts(ctx context.Context, before time.Time, limit int) ([]SealedContact, error)
	// ActivityEnds returns the known ends of activities.
	ActivityEnds(ctx context.Context, ids []string) (map[string]time.Time, error)
	// KeepContacts sets a later KeptFrom.
	KeepContacts(ctx context.Context, orderSNs []string, from time.Time) error
	// DeleteDueContacts deletes those of the contacts whose KeptFrom still is not after the given time.
	DeleteDueContacts(ctx context.Context, orderSNs []string, before time.Time) (int, error)
	// ForgetContacts deletes contacts of a user, at most limit. more is false if the user had none.
	ForgetContacts(ctx context.Context, userID string, limit int) (deleted int, more bool, err error)
	// ContactKeys returns the names of the keys under which contacts are stored.
	ContactKeys(ctx context.Context) ([]string, error)
	// ContactsUnder returns contacts under a key, ascending by order_sn after the given one.
	ContactsUnder(ctx context.Context, keyID, after string, limit int) ([]SealedContact, error)
	// CountUnder returns the number of contacts under a key.
	CountUnder(ctx context.Context, keyID string) (int64, error)
	// ReplaceContact stores the contact under another key if it still is exactly old. It returns false otherwise.
	ReplaceContact(ctx context.Context, old SealedContact, keyID string, sealed []byte) (bool, error)
}

// Sweep deletes the contacts that are due and returns their number. A contact whose activity turned out to end later
// is kept until then.
func (u ContactUpkeep) Sweep(ctx context.Context) (int, error) {
	deleted := 0
	for range contactSweepSteps {
		now, err := u.Store.Now(ctx)
		if err != nil {
			return deleted, err
		}
		before := now.Add(-u.Keep)
		due, err := u.Store.DueContacts(ctx, before, contactBatch)
		if err != nil || len(due) == 0 {
			return deleted, err
		}
		var ids []string
		for _, c := range due {
			ids = append(ids, c.ActivityID)
		}
		ends, err := u.Store.ActivityEnds(ctx, distinct(ids))
		if err != nil {
			return deleted, err
		}
		var expired []string
		later := map[time.Time][]string{}
		for _, c := range due {
			if end, known := ends[c.ActivityID]; known && end.After(c.KeptFrom) {
				later[end] = append(later[end], c.OrderSN)
			} else {
				expired = append(expired, c.OrderSN)
			}
		}
		for end, sns := range later {
			if err := u.Store.KeepContacts(ctx, sns, end); err != nil {
				return deleted, err
			}
		}
		if len(expired) > 0 {
			n, err := u.Store.DeleteDueContacts(ctx, expired, before)
			if err != nil {
				return deleted, err
			}
			deleted += n
		}
		if len(due) < contactBatch {
			return deleted, nil
		}
	}
	return deleted, nil
}

// ForgetContacts deletes all contacts of a user and returns their number.
func (u ContactUpkeep) ForgetContacts(ctx context.Context, userID string) (int, error) {
	deleted := 0
	for {
		n, more, err := u.Store.ForgetContacts(ctx, userID, contactBatch)
		deleted += n
		if err != nil || !more {
			return deleted, err
		}
	}
}

// Left returns the number of contacts that are not under the current key. The other keys are needed until it is 0.
func (u ContactUpkeep) Left(ctx context.Context) (int64, error) {
	keys, err := u.otherKeys(ctx)
	var left int64
	for _, keyID := range keys {
		n, err := u.Store.CountUnder(ctx, keyID)
		if err != nil {
			return 0, err
		}
		left += n
	}
	return left, err
}

// otherKeys returns the names of the keys, except the current one, under which contacts are stored.
func (u ContactUpkeep) otherKeys(ctx context.Context) ([]string, error) {
	keys, err := u.Store.ContactKeys(ctx)
	return slices.DeleteFunc(keys, func(keyID string) bool { return keyID == u.Sealer.Current() }), err
}

// Reencrypted is the progress of Reencrypt, in contacts.
type Reencrypted struct {
	Done       int // under the current key now
	Replaced   int // changed or deleted by another process meanwhile
	Unreadable int // no key opens them
}

// Reencrypt encrypts every contact that is under another key with the current key. It may be stopped and started
// again: it then continues with the contacts that are left. A contact that changes meanwhile stays as it was changed.
// report is called after each batch.
func (u ContactUpkeep) Reencrypt(ctx context.Context, report func(Reencrypted)) (Reencrypted, error) {
	var total Reencrypted
	keys, err := u.otherKeys(ctx)
	if err != nil {
		return total, err
	}
	for _, keyID := range keys {
		for after := "0"; ; {
			batch, err := u.Store.ContactsUnder(ctx, keyID, after, contactBatch)
			if err != nil {
				return total, err
			}
			if len(batch) == 0 {
				break
			}
			if err := u.reencrypt(ctx, batch, &total); err != nil {
				return total, err
			}
			after = batch[len(batch)-1].OrderSN
			report(total)
		}
	}
	return total, nil
}

// reencrypt encrypts the contacts of one batch with the current key and adds them to total.
func (u ContactUpkeep) reencrypt(ctx context.Context, batch []SealedContact, total *Reencrypted) error {
	for _, old := range batch {
		plain, err := u.Sealer.Open(old.OrderSN, old.KeyID, old.Sealed)
		if err != nil {
			total.Unreadable++
			continue
		}
		keyID, sealed := u.Sealer.Seal(old.OrderSN, plain)
		replaced, err := u.Store.ReplaceContact(ctx, old, keyID, sealed)
		switch {
		case err != nil:
			return err
		case replaced:
			total.Done++
		default:
			total.Replaced++
		}
	}
	return nil
}
