package lines_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/lines"
)

// log has what was performed and told, in order.
type log struct{ entries []string }

func (l *log) add(entry string) { l.entries = append(l.entries, entry) }

func (l *log) want(t *testing.T, entries ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(l.entries, entries) {
		t.Errorf("%q, want %q", l.entries, entries)
	}
	l.entries = nil
}

func (l *log) options() lines.Options[string] {
	return lines.Options[string]{
		Length: 8, Octets: 100, Together: 20,
		Perform: func(name string, ops []*lines.Operation[string]) {
			entry := name + ":"
			for _, op := range ops {
				entry += " " + op.Args
				op.OK = true
			}
			l.add(entry)
		},
		Idle: func(name string) { l.add(name + " is idle") },
	}
}

func (l *log) op(args string, octets int, joins bool) *lines.Operation[string] {
	return &lines.Operation[string]{Owner: "owner", Octets: octets, Joins: joins, Args: args, Done: func(ok bool, err error) {
		if !ok || err != nil {
			args += " failed: " + err.Error()
		}
		l.add("done " + args)
	}}
}

func TestOperationsOfANameAreInOrderAndJoinNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		s := lines.New(l.options())
		release, ok := s.Claim("a")
		if !ok {
			t.Fatal("Claim of a name without operations")
		}
		for _, op := range []*lines.Operation[string]{
			l.op("1", 10, true), l.op("2", 10, true), l.op("3", 1, true), l.op("4", 1, false), l.op("5", 1, true),
		} {
			s.Submit("a", op)
		}
		l.want(t)
		if _, ok := s.Claim("a"); ok {
			t.Error("Claim of a claimed name")
		}
		release()
		l.want(t, "a: 1 2", "done 1", "done 2", "a: 3", "done 3", "a: 4", "done 4", "a: 5", "done 5", "a is idle")
		s.Close()
	})
}

func TestAClaimWaitsForAnOperationButNotForItsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		o := l.options()
		performing, telling := make(chan struct{}), make(chan struct{})
		perform := o.Perform
		o.Perform = func(name string, ops []*lines.Operation[string]) {
			<-performing
			perform(name, ops)
		}
		s := lines.New(o)
		op := l.op("1", 1, false)
		op.Done = func(bool, error) { <-telling }
		s.Submit("a", op)
		synctest.Wait()
		if _, ok := s.Claim("a"); ok {
			t.Error("Claim during an operation")
		}
		close(performing)
		synctest.Wait()
		release, ok := s.Claim("a")
		if !ok {
			t.Fatal("Claim during Done")
		}
		s.Submit("a", l.op("2", 1, false))
		close(telling)
		l.want(t, "a: 1")
		release()
		l.want(t, "a: 2", "done 2", "a is idle")
		s.Close()
	})
}

func TestClosePerformsAllThatWaitsAndRefusesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		s := lines.New(l.options())
		release, _ := s.Claim("a")
		s.Submit("a", l.op("1", 1, false))
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		synctest.Wait()
		refused := make(chan error, 1)
		s.Submit("b", &lines.Operation[string]{Done: func(_ bool, err error) { refused <- err }})
		if err := <-refused; !errors.Is(err, store.ErrClosed) {
			t.Errorf("Submit after Close: %v", err)
		}
		if _, ok := s.Claim("b"); ok {
			t.Error("Claim after Close")
		}
		release()
		<-closed
		l.want(t, "a: 1", "done 1", "a is idle")
	})
}
