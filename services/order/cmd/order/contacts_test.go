package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
)

func TestContactsOfAUserAreDeletedByTheCommand(t *testing.T) {
	const claim = "li.lei@example.com 李雷" // no valid user id, so it is mapped
	dsn, log := dbtest.MariaDBDSN(t), slog.New(slog.DiscardHandler)
	db, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	require.NoError(t, sqldb.Migrate(t.Context(), db, order.Migrations, log))
	t.Setenv("APP_ENV", "development")
	for i, user := range []string{"u1", "u1", auth.UserID(claim), auth.UserID("u_1"), "u2"} {
		require.NoError(t, db.Table("contacts").Create(map[string]any{
			"order_sn": i + 1, "user_id": user, "activity_id": 7, "key_id": "k", "sealed": []byte("x"), "kept_from": time.Now(),
		}).Error)
	}
	t.Setenv("MYSQL_DSN", dsn)
	for _, tt := range []struct {
		args []string
		out  string // "" for wrong arguments
		left int64
	}{
		{nil, "", 5},
		{[]string{"u1"}, "", 5},
		{[]string{"--user"}, "", 5},
		{[]string{"--user", ""}, "", 5},
		{[]string{"--claim", ""}, "", 5},
		{[]string{"--user", claim}, "", 5},
		{[]string{"--user", "u1", "u2"}, "", 5},
		{[]string{"--user", "u1", "--claim", "u1"}, "", 5},
		{[]string{"--all"}, "", 5},
		{[]string{"--user", "u3"}, "user u3 has no contacts: nothing was deleted\n", 5},
		{[]string{"--user", "u1"}, "deleted 2 contacts of user u1\n", 3},
		{[]string{"--claim", claim}, fmt.Sprintf("deleted 1 contacts of user %s\n", auth.UserID(claim)), 2},
		{[]string{"--claim", "u_1"}, fmt.Sprintf("deleted 1 contacts of user %s\n", auth.UserID("u_1")), 1},
		{[]string{"--claim=u2"}, "deleted 1 contacts of user u2\n", 0},
	} {
		var out strings.Builder
		err := forgetContacts(t.Context(), log, tt.args, &out)
		if tt.out == "" {
			require.ErrorIs(t, err, command.ErrUsage, "%q", tt.args)
		} else {
			require.NoError(t, err, "%q", tt.args)
		}
		require.Equal(t, tt.out, out.String(), "%q", tt.args)
		var left int64
		require.NoError(t, db.Table("contacts").Count(&left).Error)
		require.Equal(t, tt.left, left, "%q", tt.args)
	}
}
