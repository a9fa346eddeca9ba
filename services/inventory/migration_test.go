package inventory

import (
	"testing"

	"flashsale.internal/pkg/sqldb/dbtest"
)

func TestMigrationsCanBeRepeated(t *testing.T) { dbtest.RepeatMigrations(t, Migrations) }
