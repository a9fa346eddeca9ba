package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

// statementsOf returns the number of statements of fn on the only connection to a MariaDB database, BEGIN and COMMIT
// included.
func statementsOf(t *testing.T, db *gorm.DB, fn func()) int {
	t.Helper()
	sent := func() (n int) {
		var name string
		require.NoError(t, db.Raw("SHOW SESSION STATUS LIKE 'Questions'").Row().Scan(&name, &n))
		return n
	}
	before := sent()
	fn()
	return sent() - before - 1
}

// A statement costs more than the rows that it reads or writes, so the number of statements is the cost of a payment.
func TestThePriceOfAPaymentInStatements(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(1)
	w := newWorld(t, db)
	w.Service = w.serviceOn(t, store.New(db, telemetry.Discard(t), nil), w.provider) // by the time of the database
	w.succeed(t, w.started(t, w.created(t, "u0"), "k").PaymentID)
	d := w.created(t, "u1")
	var paymentID string
	// The fifth statement of a call reads what the provider learns, outside of the transaction.
	require.Equal(t, 5, statementsOf(t, db, func() { paymentID = w.started(t, d, "k").PaymentID }), "begun")
	require.Equal(t, 5, statementsOf(t, db, func() { require.Equal(t, paymentID, w.started(t, d, "k").PaymentID) }), "the call again")
	require.Equal(t, 7, statementsOf(t, db, func() { w.succeed(t, paymentID) }), "paid by a callback")
	require.Equal(t, 4, statementsOf(t, db, func() { w.succeed(t, paymentID) }), "the callback again")
}
