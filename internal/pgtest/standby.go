//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a server that replicates s from a copy of its data, and waits until commits of s wait
// for it. Only the last standby of a server counts.
func (s *Server) Standby(ctx context.Context, o Options) (*Server, error) {
	o.Settings = append(slices.Clip(o.Settings), "wal_retrieve_retry_interval=100ms") // commits wait for it after a restart
	next, err := place(o)
	if err != nil {
		return nil, err
	}
	source := fmt.Sprintf("host=%s user=postgres application_name=%s", s.Host(), standbyName)
	if err := next.run("pg_basebackup", "-D", next.data(), "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return nil, err
	}
	if err := next.Start(); err != nil {
		return nil, err
	}
	if err := s.waitFor(ctx, standbyName); err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, s.inSync(ctx)
}

// standbyName is the application_name of a standby at its primary.
const standbyName = "standby"

// Promote makes a standby, whose primary is away, a primary that waits for no standby.
func (s *Server) Promote(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	done := false
	if err := c.QueryRow(ctx, "SELECT pg_promote(true, $1)", int(patience/time.Second)).Scan(&done); err != nil || !done {
		return fmt.Errorf("pgtest: a standby was not promoted: %w", err)
	}
	return s.waitFor(ctx, "")
}

// waitFor has commits wait for a standby with a name, or for none.
func (s *Server) waitFor(ctx context.Context, name string) error {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range []string{fmt.Sprintf("ALTER SYSTEM SET synchronous_standby_names = '%s'", name), "SELECT pg_reload_conf()"} {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// inSync waits until the standby has all data, and commits wait for it.
func (s *Server) inSync(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var is bool
		err := c.QueryRow(ctx, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&is)
		if err != nil || is {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("pgtest: no standby is synchronous after %v", patience)
		}
	}
}
