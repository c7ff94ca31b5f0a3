package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store/internal/checksum"
	"github.com/slimwire/swp/store/internal/gather"
)

// op is a submitted write.
type op struct {
	size    int
	owner   string
	subject gather.Subject
	after   bool  // must come after all that wait for the subject
	invalid error // refuses it before it is sent
	done    func(err error)

	// probe is for an operation that writes only what each transaction writes.
	probe bool

	// call returns the statement. It is called in the order of the operations, again after a rollback,
	// and again after a decision with other limits. Without a statement, it may change rooms. It may be
	// nil.
	call func(w *writer, l limits) call

	// read reads the result of the statement. It sets ask if a limit needs a decision; then nothing was
	// written. It sets err if the operation was refused.
	read func(rows pgx.Rows) error
	ask  *ask
	err  error

	// appends is what an operation appends to a log; nil: nothing.
	appends *appends

	// alone is a separate transaction instead of a statement. It is not repeated.
	alone func(ctx context.Context, w *writer) error
}

// call is a statement and its arguments.
type call struct {
	text string
	args []any
}

// Size implements gather.Operation.
func (o *op) Size() int { return o.size }

// Owner implements gather.Operation.
func (o *op) Owner() string { return o.owner }

// Subject implements gather.Operation.
func (o *op) Subject() (gather.Subject, bool) { return o.subject, o.after }

// Done implements gather.Operation.
func (o *op) Done(err error) { o.done(err) }

// begin returns the statement of an operation.
func (o *op) begin(w *writer, l limits) call {
	o.ask, o.err = nil, o.invalid
	if o.err != nil || o.call == nil {
		return call{}
	}
	return o.call(w, l)
}

var (
	errNoRow = errors.New("pgstore: a function has returned no row")
	errRows  = errors.New("pgstore: a function has returned another number of rows than expected")
)

// one reads the only row of a result.
func one(rows pgx.Rows, to ...any) error {
	found, err := maybe(rows, to...)
	if err == nil && !found {
		err = errNoRow
	}
	return err
}

// maybe reads the only row of a result, if there is one.
func maybe(rows pgx.Rows, to ...any) (found bool, err error) {
	defer rows.Close()
	if rows.Next() {
		found, err = true, rows.Scan(to...)
	}
	rows.Close()
	return found, errors.Join(err, rows.Err())
}

// given returns a value as a column that is not NULL.
func given(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// crc returns the part of the checksum of a row that does not depend on its numbers.
func crc(table byte, value []byte, names ...string) int64 {
	octets := make([][]byte, len(names))
	for i, name := range names {
		octets[i] = []byte(name)
	}
	sum, _ := checksum.Sum(nil, table, nil, value, octets...)
	return sum
}

// rot is the function of schema1.sql.
func rot(n int64, by int) int64 { return n<<by | int64(uint64(n)>>(64-by)) }
