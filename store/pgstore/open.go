package pgstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/clock"
	"github.com/slimwire/swp/store/internal/gather"
)

// Open opens or creates the store in a database. It takes a new epoch of the node: a process that has
// an earlier one can no longer write.
//
// An error store.ErrLocked says that a process with the name of this node is alive.
func Open(ctx context.Context, options Options) (*Store, error) {
	s := &Store{options: options.withDefaults(), gone: make(chan struct{}), released: make(chan struct{})}
	s.SetBounds(options.Limits)
	s.queue = gather.NewQueue[*op](s.options.QueueLength, s.options.QueueOctets)
	s.writer = &writer{s: s, turns: gather.Turns[*op]{Most: maxBatch, MostOctets: maxBatchOctets}}
	if s.options.Durability != store.Power && s.options.Durability != store.Process {
		return nil, fmt.Errorf("pgstore: durability %q, want %q or %q", s.options.Durability, store.Power, store.Process)
	}
	if err := s.open(ctx); err != nil {
		_ = s.release()
		return nil, err
	}
	s.written.Go(s.writer.loop)
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	config, err := s.options.config()
	if err != nil {
		return err
	}
	s.server.name = nameOf(config)
	pool, err := pgxpool.ParseConfig("")
	if err != nil {
		return fmt.Errorf("pgstore: %w", errUnreadable)
	}
	pool.ConnConfig = config
	pool.MaxConns, pool.MinConns = int32(s.options.Readers), 0
	w := s.writer
	w.config = config.Copy()
	w.config.OnNotice = w.hear
	if w.conn, err = pgx.ConnectConfig(ctx, w.config); err != nil {
		return s.fault(err)
	}
	if err := s.server.inspect(ctx, w.conn); err != nil {
		return s.fault(err)
	}
	if err := s.server.suffices(s.options); err != nil {
		return err
	}
	if err := s.migrate(ctx, w.conn); err != nil {
		return err
	}
	if err := w.enter(ctx); err != nil {
		return s.fault(err)
	}
	if err := w.beginFilling(ctx); err != nil {
		return s.fault(err)
	}
	s.readers, err = pgxpool.NewWithConfig(ctx, pool)
	return s.fault(err)
}

var errUnreadable = errors.New("the connection string cannot be read: it is a URL, in which special characters of the password are escaped with %, or " +
	"a list of keywords such as host=… dbname=…; the service file and the certificates that it names must exist")

// nameOf returns the name of a database in errors. It has no password.
func nameOf(c *pgx.ConnConfig) string {
	return fmt.Sprintf("postgres://%s:%d/%s", c.Host, c.Port, c.Database)
}

// config returns how to connect, for options with defaults. Its error has no part of the connection
// string, because that has the password.
func (o Options) config() (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", errUnreadable)
	}
	if err := o.readPasswords(); err != nil {
		return nil, fmt.Errorf("pgstore: passfile: %w", err)
	}
	if config.ConnectTimeout == 0 { // of each host, so that one without an answer leaves time for the others
		config.ConnectTimeout = o.Timeout / time.Duration(1+len(config.Fallbacks))
	}
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	limit, idle := milliseconds(o.Timeout), milliseconds(min(o.Timeout, silence/2))
	for name, value := range map[string]string{
		"search_path": schemaName, "default_transaction_isolation": "read committed", "statement_timeout": limit,
		// Locks of a node that was stopped within a transaction end with it.
		"idle_in_transaction_session_timeout": idle,
	} {
		config.RuntimeParams[name] = value
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "swpd " + strconv.QuoteToASCII(o.Node)
	}
	return config, nil
}

// readPasswords reports why the password file that a URL names cannot be read. pgx passes over it then, and
// connects without a password.
func (o Options) readPasswords() error {
	u, err := url.Parse(o.DSN)
	if err != nil {
		return nil // it is a list of keywords
	}
	name := u.Query().Get("passfile")
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// server is what was found of the server.
type server struct {
	name     string // in errors
	version  string
	settings map[string]string
}

// inspect reads the settings that decide about durability.
func (v *server) inspect(ctx context.Context, c *pgx.Conn) error {
	rows, err := c.Query(ctx, `SELECT name, setting FROM pg_settings
		WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'synchronous_standby_names')`)
	if err != nil {
		return err
	}
	v.settings = make(map[string]string)
	var name, setting string
	_, err = pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
		v.settings[name] = setting
		return nil
	})
	v.version = v.settings["server_version"]
	return err
}

// waits reports whether commits wait for a synchronous standby.
func (v *server) waits() bool {
	level := v.settings["synchronous_commit"]
	return v.settings["synchronous_standby_names"] != "" && (level == "on" || level == "remote_apply")
}

// suffices returns an error if the server has less durability than configured.
func (v *server) suffices(o Options) error {
	var lack []string
	if v.settings["synchronous_commit"] == "off" {
		lack = append(lack, "synchronous_commit is off")
	}
	if o.Durability == store.Power {
		for _, name := range []string{"fsync", "full_page_writes"} {
			if v.settings[name] != "on" {
				lack = append(lack, name+" is "+v.settings[name])
			}
		}
	}
	if o.Standby && !v.waits() {
		lack = append(lack, "commits do not wait for a synchronous standby")
	}
	if lack == nil {
		return nil
	}
	return fmt.Errorf("pgstore: %s: durability %q needs more than this server gives: %s", v.name, o.Durability, strings.Join(lack, ", "))
}

// Found returns what durability the server has, and its version, for the log.
func (s *Store) Found() string {
	v := &s.server
	standby := "no synchronous standby"
	if v.waits() {
		standby = "synchronous standby " + v.settings["synchronous_standby_names"]
	}
	return fmt.Sprintf("PostgreSQL %s, fsync %s, synchronous_commit %s, full_page_writes %s, %s",
		v.version, v.settings["fsync"], v.settings["synchronous_commit"], v.settings["full_page_writes"], standby)
}

// Name returns the server and the database, without user and password.
func (s *Store) Name() string { return s.server.name }

const (
	tryNode   = `SELECT pg_try_advisory_lock($1, $2)`
	leaveNode = `SELECT pg_advisory_unlock($1, $2)`
	nodeAlive = `SELECT heartbeat > clock_timestamp() - $2::interval, coalesce(server = pg_postmaster_start_time(), false), address, epoch
		FROM node WHERE name = $1`
	// It returns no row if another process has entered since the epoch $4 was read.
	enterNode = `INSERT INTO node (name, epoch, batch, address, heartbeat, server)
		VALUES ($1, 1, 0, $2, clock_timestamp(), CASE WHEN $3 THEN pg_postmaster_start_time() END)
		ON CONFLICT (name) DO UPDATE SET epoch = node.epoch + 1, address = EXCLUDED.address, heartbeat = EXCLUDED.heartbeat, server = EXCLUDED.server
			WHERE node.epoch = $4
		RETURNING id, epoch, batch`
	lockedNode  = `UPDATE node SET server = pg_postmaster_start_time() WHERE id = $1 AND epoch = $2`
	othersAlive = `SELECT (SELECT now FROM clock), EXISTS (SELECT FROM node WHERE id <> $1 AND heartbeat > clock_timestamp() - $2::interval),
		(SELECT written FROM state)`
	nodeBehind   = `SELECT (epoch, batch) < ($2, $3 - 1) FROM node WHERE id = $1`
	settleBatch  = `UPDATE node SET batch = $3, void = $3 WHERE id = $1 AND epoch = $2 AND batch = $3 - 1`
	confirmBatch = `UPDATE node SET heartbeat = clock_timestamp() WHERE id = $1 AND epoch = $2 AND batch = $3 RETURNING void = $3`
	endNode      = `SELECT pg_terminate_backend(pid, $3) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = $1::bigint::oid AND objid = $2::bigint::oid
		AND EXISTS (SELECT FROM node WHERE name = $4 AND epoch = $5)`
)

// lockSpace is the first part of the keys of advisory locks.
const lockSpace = 0x53575053 // "SWPS"

// silence is the time after which a node without a transaction counts as dead. Locks of a transaction
// in which it was stopped end before.
const silence = 4 * heartbeat

// Held is the error of Open while another process that has the name of the node is alive. It is a
// store.ErrLocked.
type Held struct {
	Node    string
	Address string // Options.Address of the other process
}

func (h *Held) Error() string {
	return fmt.Sprintf("%v: node %q at %q", store.ErrLocked, h.Node, h.Address)
}

func (h *Held) Unwrap() error { return store.ErrLocked }

// lockWait is the time for the server to notice that the connection of an earlier process has ended.
const lockWait = time.Second

func (w *writer) lockKey() []any {
	return []any{int32(lockSpace), int32(crc32.ChecksumIEEE([]byte(w.s.options.Node)))}
}

// enter makes this process the node. The server locks the name while the connection of its holder
// lasts. A holder without an answer for the time of silence counts as dead all the same, and the epoch
// keeps it from writing. A free name says nothing if the server was started after the holder had it:
// the holder may be about to connect again.
//
// The server has no limit for a commit that waits for a synchronous standby, as on an old primary after
// a failover; enter has.
func (w *writer) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait+w.s.options.Timeout)
	defer cancel()
	name := []byte(w.s.options.Node)
	for late := time.Now().Add(lockWait); ; time.Sleep(settlePace) {
		var alive, same bool
		var epoch int64 // 0: nobody has had the name
		held := &Held{Node: w.s.options.Node}
		if err := w.conn.QueryRow(ctx, tryNode, w.lockKey()...).Scan(&w.locked); err != nil {
			return err
		}
		err := w.conn.QueryRow(ctx, nodeAlive, name, silence).Scan(&alive, &same, &held.Address, &epoch)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			alive, same = true, true // if the name is taken, its holder is about to make the row
		case err != nil:
			return err
		}
		free := w.locked && same
		if !free && !alive {
			w.s.notice("pgstore: %s: node %q is silent for more than %v; this process takes it over", w.s.server.name, w.s.options.Node, silence)
			if err := w.oust(ctx, epoch); err != nil {
				return err
			}
			free = true
		}
		if free {
			err := w.conn.QueryRow(ctx, enterNode, name, w.s.options.Address, w.locked, epoch).Scan(&w.node, &w.epoch, &w.batch)
			if err == nil {
				break
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		if w.locked {
			if _, err := w.conn.Exec(ctx, leaveNode, w.lockKey()...); err != nil {
				return err
			}
			w.locked = false
		}
		if time.Now().After(late) {
			return fmt.Errorf("%s: %w", w.s.server.name, held)
		}
	}
	var now int64
	var others bool
	if err := w.conn.QueryRow(ctx, othersAlive, w.node, silence).Scan(&now, &others, &w.used); err != nil {
		return err
	}
	// While other nodes are alive, the stored time continues, and the wall clock of this node does not count.
	if others && now > 0 {
		w.s.clock = clock.At(w.s.options.Now, now)
	} else {
		w.s.clock = clock.New(w.s.options.Now, now)
	}
	return nil
}

// oust ends the session of a node that is silent. Otherwise the locks of a transaction in which it was cut
// off stay for as long as TCP waits, or, if the server waits for the rest of a batch, without limit. It does
// nothing if another process has entered since the epoch was read.
func (w *writer) oust(ctx context.Context, epoch int64) error {
	key := w.lockKey()
	_, err := w.conn.Exec(ctx, endNode, int64(uint32(key[0].(int32))), int64(uint32(key[1].(int32))), lockWait.Milliseconds(), []byte(w.s.options.Node), epoch)
	if codeOf(err) != "" {
		return nil // the role has no right to; the epoch fences the node all the same
	}
	return err
}

// connect connects again after a failure, and learns the outcome of a commit that is not known: either
// its batch is there, or its number is used up, so that it can never be.
func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	w.warned = ""
	c, err := pgx.ConnectConfig(ctx, w.config)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = c.Close(context.WithoutCancel(ctx))
		}
	}()
	if err := w.lock(ctx, c); err != nil {
		return err
	}
	if w.unsettled {
		tag, err := c.Exec(ctx, settleBatch, w.node, w.epoch, w.batch)
		if err != nil {
			return err
		}
		w.committed = false
		if tag.RowsAffected() == 0 {
			// The batch is there, or an earlier attempt that had no answer has used its number up. What can be
			// read is not yet at a synchronous standby: a later commit has to wait for that.
			var void bool
			err := c.QueryRow(ctx, confirmBatch, w.node, w.epoch, w.batch).Scan(&void)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return w.missing(ctx, c)
			case err != nil:
				return err
			}
			w.committed = !void
		}
	}
	if w.warned != "" { // a write of this connection may not be at a synchronous standby
		return errors.New(w.warned)
	}
	w.unsettled = false
	w.conn = c
	return nil
}

// missing returns why a server has no row of the node with its epoch and batch.
func (w *writer) missing(ctx context.Context, c *pgx.Conn) error {
	var behind bool
	if err := c.QueryRow(ctx, nodeBehind, w.node, w.epoch, w.batch).Scan(&behind); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if behind {
		return errors.New("pgstore: this server lacks what the node has committed: it is an earlier primary")
	}
	return store.ErrFenced
}

// lock locks the name of the node if it is free. The epoch protects also without the lock.
func (w *writer) lock(ctx context.Context, c *pgx.Conn) error {
	err := c.QueryRow(ctx, tryNode, w.lockKey()...).Scan(&w.locked)
	if err == nil && w.locked {
		_, err = c.Exec(ctx, lockedNode, w.node, w.epoch)
	}
	return err
}

// disconnect ends the connection, and frees the name of the node if that is possible at once.
func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if !w.conn.IsClosed() {
		_, _ = w.conn.Exec(ctx, leaveNode, w.lockKey()...)
	}
	_ = w.conn.Close(ctx)
	w.conn = nil
}
