package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/store"
)

// Silence is the time without a sign of life after which the process that has a node counts as dead.
const Silence = silence

// MemberPace is how often a process should call Members.Beat.
const MemberPace = heartbeat / 2

// memberKept is how long a member is listed after its last sign of life.
const memberKept = 24 * time.Hour

// Member is a process that uses a database, or waits for it.
type Member struct {
	Name        string        // what it calls itself; one process at a time has a name
	Address     string        // host:port where other members reach it; empty: nowhere
	Certificate []byte        // DER: what it shows there
	Version     string        // of its program
	Config      string        // digest of its configuration
	Started     time.Time     // on its clock
	Silent      time.Duration // since its last sign of life, on the clock of the server
	Active      bool          // it has the node, or had it less than Silence ago
}

// Members is the list of the processes that use a database or wait for it. It is safe for concurrent
// use, and independent of a Store: it is a list, and protects nothing.
type Members struct {
	options Options
	process []byte
	turn    chan struct{} // one slot: who may use conn
	conn    *pgx.Conn
}

// ErrTaken is the error of Members.Beat while another process that is alive has the name.
var ErrTaken = errors.New("pgstore: another process has the name of this member")

// NewMembers returns the members of the database that options name by DSN, and of its Node. It does not
// connect.
func NewMembers(o Options) (*Members, error) {
	o = o.withDefaults()
	if _, err := o.config(); err != nil {
		return nil, err
	}
	m := &Members{options: o, process: make([]byte, 16), turn: make(chan struct{}, 1)}
	_, _ = rand.Read(m.process) // it never fails
	return m, nil
}

const (
	// A name belongs to one process until that is silent.
	beatMember = `INSERT INTO member AS m VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())
		ON CONFLICT (name) DO UPDATE SET process = EXCLUDED.process, address = EXCLUDED.address, certificate = EXCLUDED.certificate,
			version = EXCLUDED.version, config = EXCLUDED.config, started = EXCLUDED.started, seen = EXCLUDED.seen
		WHERE m.process = EXCLUDED.process OR m.seen < clock_timestamp() - $8::interval`
	dropMembers = `DELETE FROM member WHERE seen < clock_timestamp() - $1::interval`
	// The heartbeat of the node decides, because a process that ended leaves its row.
	selectMembers = `SELECT name, address, certificate, version, config, started,
			(extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint,
			EXISTS (SELECT FROM node WHERE node.name = $1 AND node.address = m.name AND heartbeat > clock_timestamp() - $2::interval)
		FROM member m ORDER BY name`
	leaveMember = `DELETE FROM member WHERE name = $1 AND process = $2`
)

// Beat is a sign of life of a member. Silent and Active of it are not used. It returns all members, in
// the order of their names. The error is ErrTaken if another process has the name, a
// store.ErrUnavailable if the database cannot be reached, or has no tables yet.
func (m *Members) Beat(ctx context.Context, own Member) (list []Member, err error) {
	err = m.use(ctx, func(ctx context.Context, c *pgx.Conn) error {
		b := new(pgx.Batch)
		b.Queue(beatMember, own.Name, m.process, own.Address, given(own.Certificate), own.Version, own.Config, own.Started, silence)
		b.Queue(dropMembers, memberKept)
		b.Queue(selectMembers, []byte(m.options.Node), silence)
		results := c.SendBatch(ctx, b)
		defer results.Close()
		beat, err := results.Exec()
		if err == nil {
			_, err = results.Exec()
		}
		if err != nil {
			return err
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		var one Member
		var silent int64
		_, err = pgx.ForEachRow(rows, []any{&one.Name, &one.Address, &one.Certificate, &one.Version, &one.Config, &one.Started, &silent, &one.Active}, func() error {
			one.Silent = time.Duration(silent) * time.Millisecond
			list = append(list, one)
			one.Certificate = nil // the next row gets its own
			return nil
		})
		if err == nil && beat.RowsAffected() == 0 {
			return ErrTaken
		}
		return err
	})
	return list, err
}

// Close removes the member from the list, if that is possible within a second, and disconnects.
func (m *Members) Close(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	err := m.use(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, leaveMember, name, m.process)
		return err
	})
	m.turn <- struct{}{} // stays in use
	if m.conn != nil {
		_ = m.conn.Close(ctx)
	}
	return err
}

// use calls work with the connection, which it makes again after an error.
func (m *Members) use(ctx context.Context, work func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(m.options.Timeout, silence/2))
	defer cancel()
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.conn == nil || m.conn.IsClosed() {
		config, err := m.options.config()
		if err != nil {
			return err
		}
		if m.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			m.conn = nil
			return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, nameOf(config), err)
		}
	}
	err := work(ctx, m.conn)
	if err == nil || errors.Is(err, ErrTaken) {
		return err
	}
	_ = m.conn.Close(ctx)
	return fmt.Errorf("%w: members: %w", store.ErrUnavailable, err)
}
