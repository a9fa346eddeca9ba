package core_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/seal"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

const keep = 90 * 24 * time.Hour

var (
	oldKey = base64.StdEncoding.EncodeToString([]byte("old-key-of-32-bytes-for-the-test"))
	newKey = base64.StdEncoding.EncodeToString([]byte("new-key-of-32-bytes-for-the-test"))
)

func contact(t testing.TB, name string) core.Contact {
	t.Helper()
	c, err := newContact(name, "13812345678", []string{"1 Renmin Road"})
	require.NoError(t, err)
	return c
}

func (w *world) put(t testing.TB, d contract.Deduction, name string) {
	t.Helper()
	require.NoError(t, w.PutContact(t.Context(), d.UserID, d.OrderSN, contact(t, name)))
}

// nameOf returns the name of the stored contact, "" if there is none.
func (w *world) nameOf(t testing.TB, s *core.Service, d contract.Deduction) string {
	t.Helper()
	c, err := s.Contact(t.Context(), d.UserID, d.OrderSN)
	if contract.CodeOf(err) == contract.CodeNotFound && err != nil {
		return ""
	}
	require.NoError(t, err)
	return c.Name
}

// with returns a core with these keys on the same store, and the upkeep of its contacts.
func (w *world) with(t testing.TB, encoded ...string) (*core.Service, core.ContactUpkeep) {
	t.Helper()
	w.sealer = keys(t, encoded...)
	return w.service(t, w.provider), w.upkeep(t)
}

func (w *world) upkeep(t testing.TB) core.ContactUpkeep {
	return core.ContactUpkeep{
		Store: store.New(w.db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now)), Sealer: w.sealer, Keep: keep,
	}
}

func about(w *world, title string, endsIn time.Duration) contract.ActivityInfo {
	return contract.ActivityInfo{
		ActivityID: "7", Title: title, EndsAt: w.clock.Now().Add(endsIn), AsOf: w.clock.Now(),
		SKUs: []contract.SKUName{{SKUID: "11", Name: title + " 11"}, {SKUID: "12", Name: title + " 12"}},
	}
}

func TestAContactIsGivenUntilTheOrderEnds(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	pending, paid, closed, refunded := w.created(t, "u1"), w.created(t, "u1"), w.created(t, "u1"), w.created(t, "u1")
	require.Empty(t, w.nameOf(t, w.Service, pending))
	for _, d := range []contract.Deduction{pending, paid, closed, refunded} {
		w.put(t, d, "before")
	}
	for _, d := range []contract.Deduction{paid, refunded} {
		w.succeed(t, w.started(t, d, d.OrderSN).PaymentID)
	}
	_, err := w.RefundOrders(t.Context(), []string{refunded.OrderSN}, core.RefundNoStock)
	require.NoError(t, err)
	_, err = w.Cancel(t.Context(), "u1", closed.OrderSN)
	require.NoError(t, err)
	for _, d := range []contract.Deduction{pending, paid} {
		w.put(t, d, "after")
		w.put(t, d, "after") // repeated
		require.Equal(t, "after", w.nameOf(t, w.Service, d))
	}
	for _, d := range []contract.Deduction{closed, refunded} {
		err := w.PutContact(t.Context(), "u1", d.OrderSN, contact(t, "after"))
		require.Equal(t, contract.CodeStateConflict, contract.CodeOf(err))
		require.Equal(t, "before", w.nameOf(t, w.Service, d), "readable after the end")
	}
	tombstone := w.orderSN("u1")
	w.close(t, core.ReasonExpired, tombstone)
	for _, sn := range []string{tombstone, w.orderSN("u1")} {
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(w.PutContact(t.Context(), "u1", sn, contact(t, "x"))))
	}

	all, err := w.Lookup(t.Context(), []string{paid.OrderSN, "77", tombstone, closed.OrderSN, paid.OrderSN})
	require.NoError(t, err)
	require.Len(t, all, 4, "each once")
	require.Equal(t, []any{true, core.Paid, "after", int64(fullAmount)}, []any{all[0].Found, all[0].State, all[0].Contact.Name, all[0].Amount})
	require.Equal(t, []any{false, "77"}, []any{all[1].Found, all[1].OrderSN})
	require.False(t, all[2].Found, "a tombstone")
	require.Equal(t, []any{core.Closed, "before"}, []any{all[3].State, all[3].Contact.Name})
}

// A contact is deleted CONTACT_KEEP after the end of its activity: the latest end that is known when it is due.
func TestContactsAreDeletedAfterTheEndOfTheActivity(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "sale", 24*time.Hour)}, nil))
	d := w.created(t, "u1")
	unknown := w.deduction("u1") // of an activity that is not known: kept from the creation of the order
	unknown.ActivityID = "8"
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{unknown}, nil, nil))
	w.put(t, d, "a")
	w.put(t, unknown, "b")
	sweep := func(want int) {
		t.Helper()
		n, err := w.upkeep(t).Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	sweep(0)
	w.clock.advance(keep - time.Millisecond)
	sweep(0)
	w.clock.advance(time.Millisecond)
	sweep(1)
	require.Empty(t, w.nameOf(t, w.Service, unknown))
	require.Equal(t, contract.CodeStateConflict, contract.CodeOf(w.PutContact(t.Context(), "u1", unknown.OrderSN, contact(t, "c"))),
		"it would be deleted at once")

	// The end moves one day later, just before the contact is due.
	later := about(w, "sale", 48*time.Hour-keep)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{later}, nil))
	w.clock.advance(24 * time.Hour)
	sweep(0)
	require.Equal(t, "a", w.nameOf(t, w.Service, d))
	w.clock.advance(24*time.Hour - time.Millisecond)
	sweep(0)
	w.clock.advance(time.Millisecond)
	sweep(1)
	sweep(0)
	require.Empty(t, w.nameOf(t, w.Service, d))
}

// Of an activity that ends early, order learns the earlier end from a later deduction. It counts for the contacts that
// are given from then on; those given before are kept from the end that was known then.
func TestContactsOfAnActivityThatEndsEarly(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "sale", 48*time.Hour)}, nil))
	before, after := w.created(t, "u1"), w.created(t, "u1")
	w.put(t, before, "before")
	w.clock.advance(time.Hour)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "sale", 0)}, nil))
	w.put(t, after, "after")
	sweep := func(want int) {
		t.Helper()
		n, err := w.upkeep(t).Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	w.clock.advance(keep - time.Millisecond)
	sweep(0)
	w.clock.advance(time.Millisecond)
	sweep(1)
	require.Empty(t, w.nameOf(t, w.Service, after))
	require.Equal(t, "before", w.nameOf(t, w.Service, before))
	w.clock.advance(47 * time.Hour)
	sweep(1)
	require.Empty(t, w.nameOf(t, w.Service, before))
}

// manyContacts is more than two statements take.
const manyContacts = 1203

// insertMany inserts contacts that are due. Each third one is of u1 and sealed by first, all others are of u2 and
// sealed by second.
func (w *world) insertMany(t testing.TB, first, second core.Sealer) {
	t.Helper()
	rows := make([]map[string]any, manyContacts)
	for i := range rows {
		user, sealer := "u2", second
		if i%3 == 0 {
			user, sealer = "u1", first
		}
		keyID, sealed := sealer.Seal(fmt.Sprint(i+1), []byte(`{"name":"n","phone":"+1"}`))
		rows[i] = map[string]any{
			"order_sn": i + 1, "user_id": user, "activity_id": 7, "key_id": keyID, "sealed": sealed,
			"kept_from": w.clock.Now().Add(-keep),
		}
	}
	require.NoError(t, w.db.Table("contacts").CreateInBatches(rows, 500).Error)
}

func TestManyContactsAreDeleted(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	w.insertMany(t, w.sealer, w.sealer)
	deleted, err := w.upkeep(t).ForgetContacts(t.Context(), "u2")
	require.NoError(t, err)
	require.Equal(t, 802, deleted)
	deleted, err = w.upkeep(t).ForgetContacts(t.Context(), "u2")
	require.NoError(t, err)
	require.Zero(t, deleted)

	require.NoError(t, db.Exec("DELETE FROM contacts").Error)
	w.insertMany(t, w.sealer, w.sealer)
	deleted, err = w.upkeep(t).Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, manyContacts, deleted)
}

// Contacts that no key opens hold up neither the others under their key nor those under other keys.
func TestManyContactsAreEncryptedAgain(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	lost := keys(t, seal.DevelopmentKey)
	w.insertMany(t, lost, keys(t, oldKey))
	require.NoError(t, db.Exec("UPDATE contacts SET sealed = ? WHERE order_sn IN (2, 600, 1202)", []byte("damaged")).Error)
	_, upkeep := w.with(t, newKey, oldKey)
	reports := 0
	total, err := upkeep.Reencrypt(t.Context(), func(core.Reencrypted) { reports++ })
	require.NoError(t, err)
	require.Equal(t, core.Reencrypted{Done: 802 - 3, Unreadable: 401 + 3}, total)
	require.Equal(t, 3, reports)
	left, err := upkeep.Left(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 404, left)

	_, upkeep = w.with(t, newKey, oldKey, seal.DevelopmentKey)
	total, err = upkeep.Reencrypt(t.Context(), func(core.Reencrypted) {})
	require.NoError(t, err)
	require.Equal(t, core.Reencrypted{Done: 401, Unreadable: 3}, total, "continues with those that are left")
}

// new,old, then reencrypt, then new alone: every contact stays readable. A lost key makes contacts unreadable: 503,
// null in lists, an incident; the buyer can give the contact again.
func TestKeysOfContactsRotate(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	before, _ := w.with(t, oldKey)
	a, b := w.created(t, "u1"), w.created(t, "u2")
	for _, d := range []contract.Deduction{a, b} {
		require.NoError(t, before.PutContact(t.Context(), d.UserID, d.OrderSN, contact(t, "old")))
	}
	lost, upkeep := w.with(t, newKey)
	_, err := lost.Contact(t.Context(), "u1", a.OrderSN)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	require.Equal(t, 1, w.recorder.count("contact_unreadable"))
	all, err := lost.Lookup(t.Context(), []string{a.OrderSN, b.OrderSN})
	require.NoError(t, err)
	require.True(t, all[0].Found && all[1].Found)
	require.Nil(t, all[0].Contact)
	require.Equal(t, 2, w.recorder.count("contact_unreadable"), "one incident for a call")
	total, err := upkeep.Reencrypt(t.Context(), func(core.Reencrypted) {})
	require.NoError(t, err)
	require.Equal(t, core.Reencrypted{Unreadable: 2}, total)

	both, upkeep := w.with(t, newKey, oldKey)
	require.Equal(t, "old", w.nameOf(t, both, a))
	total, err = upkeep.Reencrypt(t.Context(), func(core.Reencrypted) {})
	require.NoError(t, err)
	require.Equal(t, core.Reencrypted{Done: 2}, total)
	total, err = upkeep.Reencrypt(t.Context(), func(core.Reencrypted) {})
	require.NoError(t, err)
	require.Zero(t, total, "nothing is left")
	left, err := upkeep.Left(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)

	after, _ := w.with(t, newKey)
	require.Equal(t, "old", w.nameOf(t, after, a))
	gone, _ := w.with(t, seal.DevelopmentKey)
	_, err = gone.Contact(t.Context(), "u2", b.OrderSN)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	require.NoError(t, gone.PutContact(t.Context(), "u2", b.OrderSN, contact(t, "given again")))
	require.Equal(t, "given again", w.nameOf(t, gone, b))
}

// racingStore replaces a contact between the read and the write of a re-encryption.
type racingStore struct {
	core.ContactStore
	before func(core.SealedContact)
}

func (s racingStore) ReplaceContact(
	ctx context.Context, old core.SealedContact, keyID string, sealed []byte,
) (bool, error) {
	s.before(old)
	return s.ContactStore.ReplaceContact(ctx, old, keyID, sealed)
}

func TestReencryptionNeverOverwritesANewerContact(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	old, _ := w.with(t, oldKey)
	changed, deleted, kept := w.created(t, "u1"), w.created(t, "u2"), w.created(t, "u3")
	for _, d := range []contract.Deduction{changed, deleted, kept} {
		require.NoError(t, old.PutContact(t.Context(), d.UserID, d.OrderSN, contact(t, "before")))
	}
	both, upkeep := w.with(t, newKey, oldKey)
	plain := upkeep.Store
	upkeep.Store = racingStore{plain, func(c core.SealedContact) {
		switch c.OrderSN {
		case changed.OrderSN: // by a pod that still encrypts with the old key
			require.NoError(t, old.PutContact(t.Context(), "u1", changed.OrderSN, contact(t, "meanwhile")))
		case deleted.OrderSN:
			_, _, err := plain.ForgetContacts(t.Context(), "u2", 10)
			require.NoError(t, err)
		}
	}}
	total, err := upkeep.Reencrypt(t.Context(), func(core.Reencrypted) {})
	require.NoError(t, err)
	require.Equal(t, core.Reencrypted{Done: 1, Replaced: 2}, total)
	require.Equal(t, "meanwhile", w.nameOf(t, both, changed))
	require.Empty(t, w.nameOf(t, both, deleted))
	require.Equal(t, "before", w.nameOf(t, both, kept))
	left, err := upkeep.Left(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, left, "reported, for another run")
}

// A sealed contact that is copied to another order does not open there.
func TestAContactCannotBeMovedToAnotherOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	a, b := w.created(t, "u1"), w.created(t, "u1")
	w.put(t, a, "a")
	w.put(t, b, "b")
	require.NoError(t, w.db.Exec("UPDATE contacts SET sealed = (SELECT sealed FROM contacts WHERE order_sn = ?) WHERE order_sn = ?", a.OrderSN, b.OrderSN).Error)
	_, err := w.Contact(t.Context(), "u1", b.OrderSN)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	require.Equal(t, "a", w.nameOf(t, w.Service, a))
}

// An order keeps what was bought, whatever follows and in whatever order the messages come. A process that has the
// description in memory executes few statements.
func TestAnOrderKeepsWhatWasBought(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	first := about(w, "first", time.Hour)
	w.clock.advance(time.Second)
	second := about(w, "second", 2*time.Hour)
	second.SKUs = []contract.SKUName{{SKUID: "11", Name: "another name"}}
	type purchase struct {
		contract.Deduction
		about contract.ActivityInfo
	}
	var bought []purchase
	buy := func(s *core.Service, a contract.ActivityInfo) {
		t.Helper()
		d := w.deduction(fmt.Sprint("u", len(bought)))
		require.NoError(t, s.Land(t.Context(), []contract.Deduction{d}, []contract.ActivityInfo{a}, nil))
		require.NoError(t, s.Land(t.Context(), []contract.Deduction{d}, []contract.ActivityInfo{second}, nil), "repeated")
		bought = append(bought, purchase{d, a})
	}
	buy(w.Service, first)
	buy(w.Service, second)
	buy(w.Service, first)    // a deduction that was delayed
	buy(w.service(t), first) // in another process
	buy(w.service(t), second)
	var rows int64
	require.NoError(t, db.Table("descriptions").Count(&rows).Error)
	require.EqualValues(t, 2, rows, "one for each content")
	earlier, equal := first, second // another content of the same millisecond, as the first and as the latest
	earlier.Title, equal.Title = "earlier", "equal"
	buy(w.service(t), earlier)
	buy(w.Service, equal)
	for _, s := range []*core.Service{w.Service, w.service(t)} {
		for _, p := range bought {
			o, err := s.Order(t.Context(), p.UserID, p.OrderSN)
			require.NoError(t, err)
			shown, err := s.Descriptions(t.Context(), []core.Order{o, {ActivityID: "8"}, {ActivityID: "7"}})
			require.NoError(t, err)
			require.Equal(t, p.about.Title, shown[0].Title)
			require.Equal(t, p.about.SKUs, shown[0].SKUs)
			require.Zero(t, shown[1], "not known")
			require.Equal(t, "equal", shown[2].Title, "an order without any shows the latest")
		}
	}

	statements := 0
	count := func(*gorm.DB) { statements++ }
	require.NoError(t, db.Callback().Query().Before("*").Register("count", count))
	require.NoError(t, db.Callback().Create().Before("*").Register("count", count))
	for range 100 {
		w.clock.advance(time.Second)
		second.AsOf = w.clock.Now()
		require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{second}, nil))
	}
	require.LessOrEqual(t, statements, 12, "a query each 10 s, since another process may have stored a later one")

	// A time in the future does not stay the latest for long.
	third := about(w, "third", time.Hour)
	third.AsOf = w.clock.Now().Add(1000 * time.Hour)
	buy(w.Service, third)
	w.clock.advance(time.Second)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "fourth", time.Hour)}, nil))
	shown, err := w.service(t).Descriptions(t.Context(), []core.Order{{ActivityID: "7"}})
	require.NoError(t, err)
	require.Equal(t, "fourth", shown[0].Title)
}

// A transaction that was rolled back begins again with the description of the message.
func TestADescriptionAfterADeadlock(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	deadlocks := 0
	require.NoError(t, db.Callback().Query().Before("gorm:query").Register("deadlock", func(tx *gorm.DB) {
		if tx.Statement.Table == "descriptions" && deadlocks < 2 {
			deadlocks++
			_ = tx.AddError(core.ErrRetry)
		}
	}))
	d := w.deduction("u1")
	sale := []contract.ActivityInfo{about(w, "sale", time.Hour)}
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, sale, nil))
	require.Equal(t, 2, deadlocks)
	require.Zero(t, w.recorder.count("activity_not_stored"))
	shown, err := w.Descriptions(t.Context(), []core.Order{w.get(t, d)})
	require.NoError(t, err)
	require.Equal(t, "sale", shown[0].Title)
	require.False(t, w.get(t, d).DescribedAt.IsZero())
}

// A description that the tables refuse raises one incident in a minute, and its deductions become orders.
func TestADescriptionThatCannotBeStored(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	refused := true
	require.NoError(t, db.Callback().Create().Before("gorm:create").Register("refuse", func(tx *gorm.DB) {
		if refused && tx.Statement.Table == "descriptions" {
			_ = tx.AddError(contract.Refuse(contract.CodeInvalidRequest, "refused"))
		}
	}))
	for range 3 {
		require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "sale", time.Hour)}, nil))
		w.created(t, "u1")
		w.clock.advance(time.Second)
		shown, err := w.Descriptions(t.Context(), []core.Order{{ActivityID: "7"}})
		require.NoError(t, err)
		require.Zero(t, shown[0])
	}
	require.Equal(t, 1, w.recorder.count("activity_not_stored"))
	w.clock.advance(time.Minute)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "sale", time.Hour)}, nil))
	require.Equal(t, 2, w.recorder.count("activity_not_stored"))
	refused = false
	w.clock.advance(time.Minute)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{about(w, "sale", time.Hour)}, nil))
	shown, err := w.Descriptions(t.Context(), []core.Order{{ActivityID: "7"}})
	require.NoError(t, err)
	require.Equal(t, "sale", shown[0].Title)
}

// When the memory for descriptions is full, a new one replaces one of the others, and a description that is read again
// replaces none.
func TestDescriptionsInMemoryAreReplacedOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	orders := make([]core.Order, 1023)
	for i := range orders {
		orders[i].ActivityID = fmt.Sprint(i + 1000)
	}
	_, err := w.Descriptions(t.Context(), orders)
	require.NoError(t, err)
	w.clock.advance(time.Second)
	sale := about(w, "sale", time.Hour)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{sale}, nil))
	w.clock.advance(time.Second)
	statements := 0
	require.NoError(t, w.db.Callback().Query().Before("*").Register("count", func(*gorm.DB) { statements++ }))
	_, err = w.Descriptions(t.Context(), []core.Order{{ActivityID: "2500"}}) // one too many
	require.NoError(t, err)
	require.Equal(t, 1, statements)
	_, err = w.Descriptions(t.Context(), append(orders, core.Order{ActivityID: "7"}))
	require.NoError(t, err)
	require.Equal(t, 2, statements, "one of them was dropped")
	w.clock.advance(10 * time.Second)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{sale}, nil)) // again
	require.Equal(t, 3, statements)
	_, err = w.Descriptions(t.Context(), []core.Order{{ActivityID: "2500"}}) // again
	require.NoError(t, err)
	require.Equal(t, 4, statements)
	require.NoError(t, w.Land(t.Context(), nil, []contract.ActivityInfo{sale}, nil))
	require.Equal(t, 4, statements, "the sale is still in memory")
}

// A merchant takes a change back that only another process has seen: the latest description is the present one.
func TestAChangeThatIsTakenBackIsTheLatest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	land := func(s *core.Service, a contract.ActivityInfo) {
		t.Helper()
		a.AsOf = w.clock.Now()
		require.NoError(t, s.Land(t.Context(), nil, []contract.ActivityInfo{a}, nil))
		w.clock.advance(11 * time.Second)
	}
	before, changed := about(w, "before", time.Hour), about(w, "changed", 2*time.Hour)
	land(w.Service, before)
	land(w.service(t), changed)
	land(w.Service, before)
	shown, err := w.service(t).Descriptions(t.Context(), []core.Order{{ActivityID: "7"}})
	require.NoError(t, err)
	require.Equal(t, "before", shown[0].Title)
}
