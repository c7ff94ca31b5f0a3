package sqlstore

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/slimwire/swp/store"
)

// WaitChecked waits until structure and rows of a store were checked.
func (s *Store) WaitChecked() { s.checks.done.Wait() }

// Scrub reads every row as the check in the background does.
func (s *Store) Scrub(ctx context.Context) error {
	c, err := connect(s.file, readOnly)
	if err != nil {
		return err
	}
	scrubber{s: s, conn: c, alone: true}.run(ctx)
	return c.close()
}

// MarkOf returns the content of a mark.
func MarkOf(commits int64, level store.Durability, boot string) []byte {
	return mark{commits, level, boot}.append(nil)
}

// BootID is what tells runs of this machine apart.
var BootID = bootID

// Exports are the statements that list what is exported.
var Exports = []string{exportRecords, exportLogs, exportChunks, exportLines, exportItems}

// Plan returns how a statement would be executed, a line for each step.
func (s *Store) Plan(ctx context.Context, statement string) (steps []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.rows(func(row []driver.Value) bool {
			step, _ := row[3].(string)
			steps = append(steps, step)
			return true
		}, "EXPLAIN QUERY PLAN "+strings.ReplaceAll(statement, "?", "1"))
	})
	return steps, err
}
