package suite

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/test/bench/proc"
)

// idle weighs idle connections, one server after the other, each fresh. The
// collection has to be forced from inside, so the server of swpd is always a
// process of this program built from the same packages.
func (r *run) idle() error {
	report := &IdleReport{Conns: r.opts.Idle, Silence: r.opts.Silence, Server: serverBuilt}
	r.report.Idle = report
	for _, s := range idleSystems() {
		r.say("idle: %d connections to %s", r.opts.Idle, s.Name)
		row, err := r.weigh(s)
		if err != nil {
			r.fail("idle "+s.ID, err)
			continue
		}
		// The fixed cost of a server that has served is shared by all.
		if s.Server == swpdKey && r.opts.Idle >= idlePromised {
			row.Promise = atMost(row.PerConn, idleBound)
		}
		report.Rows = append(report.Rows, row)
	}
	return nil
}

func (r *run) weigh(s System) (row IdleRow, err error) {
	srv, err := r.fleet.startServer(s.Server, true)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	client, err := proc.Start(r.ctx, r.fleet.roleArgs(roleClient, s.ID)...)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	row.Name = s.Name
	if row.Baseline, err = collected(srv); err != nil {
		return row, err
	}
	var held int
	if err := client.Do("hold", holdArgs{Addr: srv.Addr(), Conns: r.opts.Idle}, &held); err != nil {
		return row, err
	}
	select {
	case <-time.After(r.opts.Silence):
	case <-r.ctx.Done():
		return row, context.Cause(r.ctx)
	}
	if row.Held, err = proc.Resident(srv.PID()); err != nil {
		return row, err
	}
	if row.Collected, err = collected(srv); err != nil {
		return row, err
	}
	row.Before = float64(row.Held-row.Baseline) / float64(held)
	row.PerConn = float64(row.Collected-row.Baseline) / float64(held)
	return row, nil
}

// collected returns what is resident after one forced collection.
func collected(srv server) (int64, error) {
	if err := srv.Collect(); err != nil {
		return 0, err
	}
	return proc.Resident(srv.PID())
}
