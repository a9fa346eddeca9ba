package order_test

import (
	"testing"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
)

func TestMigrationsCanBeRepeated(t *testing.T) { dbtest.RepeatMigrations(t, order.Migrations) }
