package order

import (
	"context"
	"fmt"
	"io"

	"gorm.io/gorm"

	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/store"
)

// StoredContacts are the contacts in a database, for the commands of operators.
type StoredContacts struct{ upkeep core.ContactUpkeep }

// OpenContacts returns the contacts of a database, with the keys of the settings.
func OpenContacts(db *gorm.DB, cfg Contacts) (StoredContacts, error) {
	sealer, err := cfg.sealer()
	if err != nil {
		return StoredContacts{}, err
	}
	return StoredContacts{core.ContactUpkeep{
		Store: store.New(db, nil, nil), Sealer: sealer, Keep: cfg.Keep,
	}}, nil
}

// ForgetContacts deletes all contacts of a user and returns their number.
func (s StoredContacts) ForgetContacts(ctx context.Context, userID string) (int, error) {
	return s.upkeep.ForgetContacts(ctx, userID)
}

// Reencrypt encrypts every contact with the first key and writes the progress to out. It fails if a contact is left
// under another key: one that no key opens, or one that a process with the old first key stored meanwhile.
func (s StoredContacts) Reencrypt(ctx context.Context, out io.Writer) error {
	total, err := s.upkeep.Reencrypt(ctx, func(r core.Reencrypted) {
		fmt.Fprintf(out, "%d contacts encrypted again, %d changed meanwhile, %d unreadable\n",
			r.Done, r.Replaced, r.Unreadable)
	})
	if err != nil {
		return err
	}
	left, err := s.upkeep.Left(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d contacts encrypted again; %d left under other keys\n", total.Done, left)
	if left > 0 {
		return fmt.Errorf("%d contacts are under other keys than the first of CONTACT_KEYS, of which no key opens %d",
			left, total.Unreadable)
	}
	return nil
}
