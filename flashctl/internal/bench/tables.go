package bench

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// table is a table of a service's database, as information_schema describes it.
type table struct {
	name    string
	columns []column
}

type column struct {
	name      string
	kind      string // data type, such as bigint
	generated bool   // computed by the database, or its next number
}

func (t table) has(name string) bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.name == name })
}

// tablesWith returns the tables of a database that have this column, by name.
func tablesWith(ctx context.Context, db *sql.DB, name string) ([]table, error) {
	const query = "SELECT c.table_name, c.column_name, c.data_type, c.extra FROM information_schema.columns c " +
		"JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name " +
		"WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position"
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []table
	for rows.Next() {
		var of, extra string
		var c column
		if err := rows.Scan(&of, &c.name, &c.kind, &extra); err != nil {
			return nil, err
		}
		extra = strings.ToUpper(extra)
		c.generated = strings.Contains(extra, "GENERATED") || strings.Contains(extra, "AUTO_INCREMENT")
		if len(all) == 0 || all[len(all)-1].name != of {
			all = append(all, table{name: of})
		}
		last := &all[len(all)-1]
		last.columns = append(last.columns, c)
	}
	return slices.DeleteFunc(all, func(t table) bool { return !t.has(name) }), rows.Err()
}
