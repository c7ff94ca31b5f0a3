package crash

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/pgstore"
)

// Actions of the owner of a store, each with its Op. The answer has the number of an entry.
const (
	didTake   = "take"
	didAppend = "append"
	didLeave  = "leave"
)

// The log of owners.
const (
	ownedSpace = "crash"
	ownedLog   = "turns"
)

// own takes a store as soon as it can, and appends entries until another process has taken it, or it is
// told to leave.
func (p post) own() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	j, err := openJournal(p.Journals, p.Name)
	if err != nil {
		return err
	}
	do := func(what string, f func() (string, uint64)) string {
		op := j.begin(entry{What: what})
		end, seq := f()
		j.write(entry{Op: op, What: hadAnswer, Text: end, Seq: seq})
		return end
	}
	var s *pgstore.Store
	for s == nil && ctx.Err() == nil {
		do(didTake, func() (string, uint64) {
			opened, err := pgstore.Open(ctx, pgstore.Options{DSN: p.Store, Address: p.Name})
			switch {
			case err == nil:
				s = opened
				return endOK, 0
			case errors.Is(err, store.ErrLocked):
				return endHeld, 0
			}
			return unknownEnd, 0
		})
	}
	for n, end := 0, ""; s != nil && ctx.Err() == nil && end != endFenced; n++ {
		end = do(didAppend, func() (string, uint64) {
			told := make(chan store.AppendResult, 1)
			s.Append(ownedSpace, ownedLog, fmt.Sprint(p.Name, " ", n), "", nil, time.Time{}, func(r store.AppendResult) { told <- r })
			r := <-told
			switch {
			case r.Err == nil:
				return endOK, r.Seq
			case errors.Is(r.Err, store.ErrFenced):
				return endFenced, 0
			}
			return unknownEnd, 0
		})
	}
	if s == nil {
		return nil
	}
	do(didLeave, func() (string, uint64) {
		if err := s.Close(); err != nil {
			return unknownEnd, 0
		}
		return endOK, 0
	})
	return nil
}

// turns reads the journals of owners.
func turns(dir string) (ops []porcupine.Operation, err error) {
	names, err := journals(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		begun := make(map[uint64]porcupine.Operation)
		err := readJournal(dir, name, func(e *entry) {
			op, known := begun[e.Op]
			if !known {
				begun[e.Op] = porcupine.Operation{Input: turn{e.What, name}, Output: answered{end: unknownEnd}, Call: e.At, Return: forever}
				return
			}
			op.Output = answered{e.Text, e.Seq}
			if e.Text != unknownEnd {
				op.Return = e.At
			}
			begun[e.Op] = op
		})
		if err != nil {
			return nil, err
		}
		for _, op := range begun {
			ops = append(ops, op)
		}
	}
	return ops, nil
}

// count returns how many turns of a process have ended in a way.
func count(ops []porcupine.Operation, who, do, end string) (n int) {
	for _, op := range ops {
		if op.Input == (turn{do, who}) && op.Output.(answered).end == end {
			n++
		}
	}
	return n
}
