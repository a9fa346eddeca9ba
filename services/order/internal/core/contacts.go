package core

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
)

// SealedContact is the encrypted contact of an order, as it is stored.
type SealedContact struct {
	OrderSN    string
	UserID     string
	ActivityID string
	KeyID      string // names the key that opens it
	Sealed     []byte
	// KeptFrom is the end of the activity, or the creation of the order if that end is not known. The contact is
	// deleted when Options.ContactKeep has passed since.
	KeptFrom time.Time
}

// Sealer encrypts contacts. Its errors contain no key and no part of a contact.
type Sealer interface {
	// Seal encrypts a text for one order. keyID names the key for Open.
	Seal(orderSN string, plain []byte) (keyID string, sealed []byte)
	// Open fails if the key is not configured any more, and if the text was changed or sealed for another order.
	Open(orderSN, keyID string, sealed []byte) ([]byte, error)
	// Current names the key with which Seal encrypts.
	Current() string
}

var (
	errNoContact         = contract.Refuse(contract.CodeNotFound, "The order has no contact.")
	errContactUnreadable = contract.Refuse(contract.CodeUnavailable,
		"The contact cannot be read at the moment. It can be given again.")
)

// PutContact stores the contact of a pending or paid order of the user. It replaces an earlier one, also one that
// cannot be read.
func (s *Service) PutContact(ctx context.Context, userID, orderSN string, c Contact) error {
	if !s.genes.Belongs(orderSN, userID) {
		return errNoOrder
	}
	plain, err := c.encode()
	if err != nil {
		return err
	}
	orders, err := s.store.OrderStates(ctx, []string{orderSN}) // before the transaction, which locks the order
	if err != nil {
		return err
	}
	o, found := orders[orderSN]
	if !found || o.Tombstone || o.UserID != userID {
		return errNoOrder
	}
	ends, err := s.store.ActivityEnds(ctx, []string{o.ActivityID})
	if err != nil {
		return err
	}
	keptFrom, known := ends[o.ActivityID]
	if !known {
		keptFrom = o.CreatedAt
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	if !now.Before(keptFrom.Add(s.opts.ContactKeep)) {
		return contract.Refuse(contract.CodeStateConflict, "The time for which contacts are kept has ended.").
			With("state", o.State)
	}
	keyID, sealed := s.sealer.Seal(orderSN, plain)
	return s.store.InTx(ctx, "contact transaction", func(tx Tx) error {
		o, err := lockOwnOrder(tx, userID, orderSN)
		if err != nil {
			return err
		}
		if o.State != Pending && o.State != Paid {
			return contract.Refuse(contract.CodeStateConflict, "The order is "+string(o.State)+".").
				With("state", o.State)
		}
		return tx.PutContact(SealedContact{
			OrderSN: orderSN, UserID: userID, ActivityID: o.ActivityID, KeyID: keyID, Sealed: sealed,
			KeptFrom: keptFrom,
		})
	})
}

// Contact returns the contact of an order of the user, also after the order was closed. The contact of another user's
// order is not found. Contact refuses with unavailable if no key opens it.
func (s *Service) Contact(ctx context.Context, userID, orderSN string) (Contact, error) {
	if !s.genes.Belongs(orderSN, userID) {
		return Contact{}, errNoOrder
	}
	found, err := s.store.Contacts(ctx, []string{orderSN})
	if err != nil {
		return Contact{}, err
	}
	sealed, ok := found[orderSN]
	if !ok || sealed.UserID != userID {
		return Contact{}, errNoContact
	}
	c, err := openContact(s.sealer, sealed)
	if err != nil {
		s.reportUnreadable(ctx, 1, orderSN, err)
		return Contact{}, errContactUnreadable
	}
	return c, nil
}

func openContact(sealer Sealer, c SealedContact) (Contact, error) {
	plain, err := sealer.Open(c.OrderSN, c.KeyID, c.Sealed)
	if err != nil {
		return Contact{}, err
	}
	return decodeContact(plain)
}

// reportUnreadable raises one incident for n contacts that one call could not read; orderSN is one of them.
func (s *Service) reportUnreadable(ctx context.Context, n int, orderSN string, err error) {
	s.rec.Incident(ctx, "contact_unreadable", "contacts cannot be decrypted", "contacts", n, "order_sn", orderSN,
		"error", err.Error())
}

// LookedUp is an order in the result of Lookup. If Found is false, only OrderSN and Tombstone have a meaning. Contact is nil if there
// is none, and if it cannot be read.
type LookedUp struct {
	Order
	Found   bool
	Contact *Contact
}

// Lookup returns each distinct order_sn once, in their order, with the order's state, lines and contact but without
// refunds. It is for inventory's lists.
func (s *Service) Lookup(ctx context.Context, orderSNs []string) ([]LookedUp, error) {
	orderSNs = distinct(orderSNs)
	orders, err := s.store.OrderStates(ctx, orderSNs)
	if err != nil {
		return nil, err
	}
	contacts, err := s.store.Contacts(ctx, orderSNs)
	if err != nil {
		return nil, err
	}
	results := make([]LookedUp, len(orderSNs))
	unreadable, oneSN, oneErr := 0, "", error(nil)
	for i, sn := range orderSNs {
		o, found := orders[sn]
		if !found || o.Tombstone {
			results[i] = LookedUp{Order: Order{OrderSN: sn, Tombstone: o.Tombstone}}
			continue
		}
		results[i] = LookedUp{Order: o, Found: true}
		sealed, ok := contacts[sn]
		if !ok {
			continue
		}
		c, err := openContact(s.sealer, sealed)
		if err != nil {
			unreadable, oneSN, oneErr = unreadable+1, sn, err
			continue
		}
		results[i].Contact = &c
	}
	if unreadable > 0 {
		s.reportUnreadable(ctx, unreadable, oneSN, oneErr)
	}
	return results, nil
}
