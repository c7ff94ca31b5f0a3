package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// errInterrupted is the cause of the context of a command that SIGINT or SIGTERM has
// ended.
var errInterrupted error = interrupted{}

// interrupted is context.Canceled in other words.
type interrupted struct{}

func (interrupted) Error() string        { return "interrupted" }
func (interrupted) Is(target error) bool { return target == context.Canceled }

// untilStopped marks commands that run until they are told to stop.
const untilStopped = "until-stopped"

// UntilStopped marks a command that runs until it is told to stop: ended in order by
// SIGTERM its exit code is 0, so that a supervisor sees no failure. Ctrl-C is 130.
func UntilStopped(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[untilStopped] = "true"
	return cmd
}

// service is the mark of a command that Service has marked.
const service = "service"

// Service marks a command that is a service: ended in order its exit code is 0,
// after SIGTERM and after Ctrl-C.
func Service(cmd *cobra.Command) *cobra.Command {
	UntilStopped(cmd).Annotations[untilStopped] = service
	return cmd
}

// RunsUntilStopped reports whether UntilStopped has marked a command.
func RunsUntilStopped(cmd *cobra.Command) bool { return cmd.Annotations[untilStopped] != "" }

// signals are SIGINT and SIGTERM. The first ends the context. The second closes
// the channel of Abort or, if Abort was not called, ends the program at once; a
// third ends the program.
type signals struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	in     chan os.Signal
	over   chan struct{}

	mu      sync.Mutex
	sig     syscall.Signal // the first; 0 until then
	second  bool
	aborter bool // Abort was called
	abort   chan struct{}
}

type signalsKey struct{}

func listen() *signals {
	s := &signals{in: make(chan os.Signal, 3), over: make(chan struct{}), abort: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.WithValue(context.Background(), signalsKey{}, s))
	signal.Notify(s.in, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case sig := <-s.in:
				s.take(sig.(syscall.Signal)) //nolint:forcetypeassert // package os has no other
			case <-s.over:
				return
			}
		}
	}()
	return s
}

func (s *signals) take(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sig == 0:
		s.sig = sig
		s.cancel(errInterrupted)
	case !s.second && s.aborter:
		s.second = true
		close(s.abort)
		time.AfterFunc(abortGrace, func() { os.Exit(ExitSignal + int(sig)) })
	default:
		os.Exit(ExitSignal + int(sig))
	}
}

// abortGrace is how long a command may take to end after the second signal.
const abortGrace = 5 * time.Second

// Abort returns a channel that the second signal closes, for a command that takes
// its time after the first one. The program ends 5 s later in any case.
func Abort(ctx context.Context) <-chan struct{} {
	s, ok := ctx.Value(signalsKey{}).(*signals)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aborter = true
	return s.abort
}

func (s *signals) first() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sig
}

// code is the exit code after a signal.
func (s *signals) code(cmd *cobra.Command, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	orderly := !s.second && (err == nil || s.stopped(err))
	if mark := cmd.Annotations[untilStopped]; orderly && mark != "" && (s.sig == syscall.SIGTERM || mark == service) {
		return ExitOK
	}
	return ExitSignal + int(s.sig)
}

// expected reports whether an error says only that a command was told to stop that
// runs until then.
func (s *signals) expected(cmd *cobra.Command, err error) bool {
	return s.first() != 0 && RunsUntilStopped(cmd) && s.stopped(err)
}

// stopped reports whether an error says only that a command was stopped.
func (*signals) stopped(err error) bool { return errors.Is(err, context.Canceled) }

func (s *signals) stop() {
	signal.Stop(s.in)
	close(s.over)
	s.cancel(nil)
}
