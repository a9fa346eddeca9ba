package demo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
)

// giveContacts stores the contact of each paid order that has none yet. Its buyer gives it and reads it back.
func (r *run) giveContacts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var missing []*winner
	for _, w := range r.paid {
		if w.contact.Name == "" {
			missing = append(missing, w)
		}
	}
	err := purchase.Each(ctx, 32, len(missing), func(ctx context.Context, i int) error {
		w := missing[i]
		_, err := w.PutContact(ctx, w.orderSN, client.Contact{
			Name: "Buyer " + w.UserID, Phone: fmt.Sprintf("+86138%08d", i),
			AddressLines: []string{"1 Demo Street", "Demo City"},
		})
		if err != nil {
			return err
		}
		w.contact, err = w.Contact(ctx, w.orderSN)
		return err
	})
	if err != nil {
		return fmt.Errorf("contacts: %w", err)
	}
	given := 0
	for i, w := range missing {
		if w.contact.Name == "Buyer "+w.UserID && w.contact.Phone == fmt.Sprintf("+86138%08d", i) {
			given++
		}
	}
	r.table.count("contacts given by their buyers", int64(len(missing)), int64(given))
	return nil
}

// checkContacts compares the contacts in the merchant's list with those that the buyers gave.
func (r *run) checkContacts(rows []client.LedgerRow) {
	want := map[string]client.Contact{}
	for _, w := range r.paid {
		want[w.orderSN] = w.contact
	}
	equal, others := int64(0), int64(0)
	for _, row := range rows {
		given, paid := want[row.OrderSN]
		switch {
		case paid && row.Contact != nil && reflect.DeepEqual(given, *row.Contact):
			equal++
		case row.Contact != nil:
			others++
		}
	}
	r.table.count("merchant's list: contacts as given", int64(len(want)), equal)
	r.table.count("merchant's list: other contacts", 0, others)
}
