package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
)

// The states of a layout.
const (
	steady    = "steady"
	copying   = "copying"   // writers record what they change, and MoveTables copies
	switching = "switching" // writers wait
)

const (
	// switchPatience bounds how long a call waits for a switch of tables.
	switchPatience = 5 * time.Second
	switchPause    = 20 * time.Millisecond
)

var errSwitching = errors.New("the order tables are being switched: `order migrate tables` has not ended")

// layout names the order tables, as the table order_layout records them.
type layout struct {
	ID         int `gorm:"primaryKey;autoIncrement:false"`
	Version    int // 1: 16 tables, lines in order_items; 2: lines in the row
	Generation int // part of the names of the tables of version 2
	State      string
	TableNames string
	NextNames  string
}

func (layout) TableName() string { return "order_layout" }

// tables returns the names of the tables by shard.
func (l *layout) tables() []string { return strings.Split(l.TableNames, ",") }

// next returns the layout that is being filled.
func (l *layout) next() *layout {
	return &layout{ID: l.ID, Version: 2, Generation: l.Generation + 1, State: steady, TableNames: l.NextNames}
}

// inline reports whether the rows have their lines.
func (l *layout) inline() bool { return l.Version > 1 }

// itemTable returns the table of the lines, in version 1. It has the suffix of the order tables, if they have one.
func (l *layout) itemTable() string {
	return "order_items" + strings.TrimPrefix(l.tables()[0], "orders_00")
}

// records reports whether writers record what they change.
func (l *layout) records() bool { return l.State == copying }

// shardOf returns the shard of the orders of a gene.
func (l *layout) shardOf(gene uint8) int { return int(gene) % (strings.Count(l.TableNames, ",") + 1) }

// group holds order_sns of one table, ascending.
type group struct {
	table string
	sns   []int64
}

// groups returns the order_sns by table, in the order of the shards. All transactions lock orders in this order.
func (l *layout) groups(orderSNs []string) ([]group, error) {
	names := l.tables()
	all := make([]group, len(names))
	for _, sn := range orderSNs {
		shard, err := ordersn.ShardOf(sn, len(names))
		if err != nil {
			return nil, err
		}
		n, err := id(sn)
		if err != nil {
			return nil, err
		}
		all[shard].sns = append(all[shard].sns, n)
	}
	for i := range all {
		all[i].table = names[i]
		slices.Sort(all[i].sns)
	}
	return slices.DeleteFunc(all, func(g group) bool { return len(g.sns) == 0 }), nil
}

// tablesOf returns the names of the tables of version 2.
func tablesOf(generation, count int) string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("orders_%d_%02d", generation, i)
	}
	return strings.Join(names, ",")
}

// readLayout reads the layout of the database.
func readLayout(db *gorm.DB) (*layout, error) {
	var rows []layout
	if err := db.Where("id = 1").Limit(1).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read the layout of the order tables: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("the table order_layout is empty: run `order migrate up`")
	}
	return &rows[0], nil
}

// withLayout runs work with the layout. If a table does not exist, the layout was changed since it was read:
// withLayout reads it again and repeats work. While the tables are switched it waits, for at most switchPatience.
func (s *Store) withLayout(ctx context.Context, work func(l *layout) error) error {
	var patience *time.Timer
	for {
		l := s.layout.Load()
		if l == nil {
			var err error
			if l, err = readLayout(s.db.WithContext(ctx)); err != nil {
				return err
			}
		}
		err := errSwitching
		if l.State != switching {
			s.layout.Store(l)
			if err = work(l); !sqldb.IsMissingTable(err) {
				return err
			}
			s.layout.CompareAndSwap(l, nil)
			again, failed := readLayout(s.db.WithContext(ctx))
			if failed != nil || *again == *l { // a table is missing for another reason
				return err
			}
			if again.State != switching {
				continue
			}
		}
		if patience == nil {
			patience = time.NewTimer(switchPatience)
			defer patience.Stop()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-patience.C:
			return err
		case <-time.After(switchPause):
		}
	}
}
