package suite

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/swpd"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// starts is how often swpd is started.
const starts = 7

// errNeedsProgram reports a part that cannot be measured inside the process.
var errNeedsProgram = errors.New("needs the program itself")

// start times swpd from the start of its process to the first answer.
func (r *run) start() error {
	if r.opts.SWPD == "" {
		return errNeedsProgram
	}
	var ms []float64
	for range starts {
		took, err := r.startOnce()
		if err != nil {
			return err
		}
		ms = append(ms, float64(took)/float64(time.Millisecond))
	}
	s := spread(ms)
	r.report.Start = &StartReport{Millis: s, Starts: starts,
		Promise: atMost(s.Median, float64(startBound)/float64(time.Millisecond))}
	return nil
}

func (r *run) startOnce() (took time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(r.ctx, 10*time.Second, errors.New("no answer"))
	defer cancel()
	began := time.Now()
	srv, err := swpd.Launch(ctx, r.opts.SWPD, r.fleet.dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	files := cert.Client(r.fleet.dir)
	for {
		conn, err := swpecho.DialTLS(ctx, srv.Addr(), files)
		if err == nil {
			err = conn.Caller().Echo(make([]byte, 64), func([]byte) error { return nil })
			took := time.Since(began)
			return took, errors.Join(err, conn.Close())
		}
		select {
		case <-time.After(time.Millisecond): // it does not listen yet
		case <-srv.Done():
			return 0, err
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), err)
		}
	}
}
