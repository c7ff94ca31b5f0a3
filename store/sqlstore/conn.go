package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/slimwire/swp/store"
)

// conn is a connection to the database. It prepares each statement at its first use and
// keeps it. It is not safe for concurrent use.
//
// It uses the driver directly: database/sql adds a pool and conversions, which are not
// needed here and cost a third of a small transaction.
type conn struct {
	raw     connection
	stmts   map[string]statement
	args    []driver.NamedValue
	scratch []byte
}

// connection and statement are the methods of the driver beyond those that database/sql
// requires.
type connection interface {
	driver.Conn
	driver.ExecerContext
	sqlite.DBStatus
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Modes of opening a file.
const (
	create    = "rwc"
	readWrite = "rw"
	readOnly  = "ro"             // even closing does not change the file and its log
	atRest    = "ro&immutable=1" // of a file without a log, which nobody writes: no lock is taken, no file made
)

// vfs keeps the index of the write-ahead log in the memory of this process, the only one
// that opens the file. By default the index is a mapped file. If the disk stalls, access to
// a mapped page blocks a thread where Go does not expect it, and the next garbage
// collection then blocks the whole process.
const vfs = "unix-excl"

// connect opens a file; an empty file is a database in memory.
func connect(file, mode string, pragmas ...string) (*conn, error) {
	dsn := ":memory:"
	if file != "" {
		dsn = (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: "_error_rc=1&vfs=" + vfs + "&mode=" + mode}).String()
	}
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	opened, err := connector.Connect(context.Background())
	if err != nil {
		return nil, failure(err)
	}
	raw, ok := opened.(connection)
	if !ok {
		_ = opened.Close()
		return nil, fmt.Errorf("sqlstore: the driver gives a %T, which lacks something", opened)
	}
	c := &conn{raw: raw, stmts: make(map[string]statement)}
	for _, pragma := range append(pragmas, "busy_timeout = 5000", "trusted_schema = OFF", "cell_size_check = ON") {
		if err := c.run("PRAGMA " + pragma); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return c, nil
}

// run executes statements without keeping them.
func (c *conn) run(text string) error { return c.runWithin(context.Background(), text) }

// runWithin is run with a context.
func (c *conn) runWithin(ctx context.Context, text string) error {
	_, err := c.raw.ExecContext(ctx, text, nil)
	return failure(err)
}

func (c *conn) prepare(text string, args []driver.Value) (statement, error) {
	stmt := c.stmts[text]
	if stmt == nil {
		prepared, err := c.raw.Prepare(text)
		if err != nil {
			return nil, failure(err)
		}
		var ok bool
		if stmt, ok = prepared.(statement); !ok {
			_ = prepared.Close()
			return nil, fmt.Errorf("sqlstore: the driver prepares a %T, which lacks something", prepared)
		}
		c.stmts[text] = stmt
	}
	c.args = c.args[:0]
	for i, value := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: value})
	}
	return stmt, nil
}

// exec executes a statement and returns the number of changed rows.
func (c *conn) exec(text string, args ...driver.Value) (int64, error) {
	stmt, err := c.prepare(text, args)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), c.args)
	if err != nil {
		return 0, failure(err)
	}
	return result.RowsAffected()
}

// rows calls each with every row of a result until it returns false. Octets in row belong
// to the caller; row itself is reused.
func (c *conn) rows(each func(row []driver.Value) bool, text string, args ...driver.Value) error {
	return c.rowsWithin(context.Background(), each, text, args...)
}

// rowsWithin is rows with a context.
func (c *conn) rowsWithin(
	ctx context.Context, each func(row []driver.Value) bool, text string, args ...driver.Value,
) error {
	stmt, err := c.prepare(text, args)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, c.args)
	if err != nil {
		return failure(err)
	}
	row := make([]driver.Value, len(rows.Columns()))
	for err == nil {
		if err = rows.Next(row); err == nil && !each(row) {
			break
		}
	}
	if err == io.EOF {
		err = nil
	}
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return failure(err)
}

// row returns the first row of a result; nil if the result is empty.
func (c *conn) row(text string, args ...driver.Value) (row []driver.Value, err error) {
	err = c.rows(func(r []driver.Value) bool {
		row = r
		return false
	}, text, args...)
	if err != nil {
		return nil, err
	}
	return row, nil
}

// atOnce calls work within a transaction that only reads.
func (c *conn) atOnce(work func() error) error {
	if _, err := c.exec("BEGIN"); err != nil {
		return err
	}
	err := work()
	if _, ended := c.exec("COMMIT"); err == nil {
		err = ended
	}
	return err
}

func (c *conn) close() error {
	for _, stmt := range c.stmts {
		_ = stmt.Close()
	}
	return failure(c.raw.Close())
}

// octets returns a column of octets, never nil.
func octets(v driver.Value) []byte {
	if b, ok := v.([]byte); ok && b != nil {
		return b
	}
	return []byte{}
}

// number returns an integer column. Another type means damage, which the checksum of the
// row then reveals.
func number(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// failed is a failed statement, with the kind of failure for callers.
type failed struct {
	kind  *store.Error // nil for a bug in this package
	cause error
}

func (f *failed) Error() string {
	if f.kind == nil {
		return "sqlstore: " + f.cause.Error()
	}
	return f.kind.Error() + ": " + f.cause.Error()
}

func (f *failed) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

// failure classifies an error of the driver.
func failure(err error) error {
	var fault *sqlite.Error
	if err == nil || !errors.As(err, &fault) {
		return err
	}
	f := &failed{cause: err}
	switch fault.Code() & 0xff {
	case codes.SQLITE_FULL:
		f.kind = store.ErrFull
	case codes.SQLITE_IOERR, codes.SQLITE_NOMEM, codes.SQLITE_BUSY, codes.SQLITE_LOCKED,
		codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PROTOCOL, codes.SQLITE_INTERRUPT:
		f.kind = store.ErrUnavailable
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		f.kind = store.ErrDamaged
	case codes.SQLITE_TOOBIG:
		f.kind = store.ErrTooLarge
	}
	return f
}
