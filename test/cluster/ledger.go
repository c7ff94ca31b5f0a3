//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// Ledger compares numbered work of several kinds: the acknowledged numbers with those that have arrived.
type Ledger struct {
	mu     sync.Mutex
	kinds  []*Kind
	faults []string // the first ones
	more   int
}

// Kind is work of one kind. Numbers begin at 1 and grow by one. Its methods are safe for concurrent use.
type Kind struct {
	Name string

	of         *Ledger
	sent       uint64
	acked      map[uint64]bool
	arrived    map[uint64]int
	reconnects int
}

// maxFaults is how many faults are kept in words.
const maxFaults = 20

// Kind adds a kind of work.
func (l *Ledger) Kind(name string) *Kind {
	k := &Kind{Name: name, of: l, acked: make(map[uint64]bool), arrived: make(map[uint64]int)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds = append(l.kinds, k)
	return k
}

// Next returns the number of the next work, which is about to be sent.
func (k *Kind) Next() uint64 {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.sent++
	return k.sent
}

// Acked notes that an endpoint has acknowledged a number to the sender.
func (k *Kind) Acked(n uint64) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.acked[n] = true
}

// Arrived notes that a number has reached the receiver.
func (k *Kind) Arrived(n uint64) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.arrived[n]++
}

// Lost notes that a client has lost its connection and connects again.
func (k *Kind) Lost(error, time.Duration) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.reconnects++
}

// Fault notes an error other than a lost connection.
func (k *Kind) Fault(err error) {
	l := k.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) == maxFaults {
		l.more++
		return
	}
	l.faults = append(l.faults, fmt.Sprintf("%s: %v", k.Name, err))
}

// missing returns how many acknowledged numbers have not arrived, and the first of them.
func (k *Kind) missing() (count int, first uint64) {
	for n := range k.acked {
		if k.arrived[n] > 0 {
			continue
		}
		if count++; count == 1 || n < first {
			first = n
		}
	}
	return count, first
}

// Ahead returns how many acknowledged numbers have not arrived yet.
func (k *Kind) Ahead() int {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	count, _ := k.missing()
	return count
}

// Missing returns how many acknowledged numbers of all kinds have not arrived.
func (l *Ledger) Missing() (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kinds {
		n, _ := k.missing()
		count += n
	}
	return count
}

// Mark is a moment in the work of all kinds.
type Mark []uint64

// Mark returns the present moment.
func (l *Ledger) Mark() (m Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kinds {
		m = append(m, k.sent)
	}
	return m
}

// Since returns the kinds of which no number after a mark is both acknowledged and arrived.
func (l *Ledger) Since(m Mark) (waiting []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range l.kinds {
		done := false
		for n := m[i] + 1; n <= k.sent && !done; n++ {
			done = k.acked[n] && k.arrived[n] > 0
		}
		if !done {
			waiting = append(waiting, k.Name)
		}
	}
	return waiting
}

// Await waits until a condition holds, and describes what it has waited for if it does not.
func Await(ctx context.Context, what func() string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := what()
		if missing == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), missing)
		}
	}
}

// Report writes a table of all kinds, and the faults.
func (l *Ledger) Report(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "sent\tacknowledged\tarrived\trepeated\treconnects\tlost\t  work")
	for _, k := range l.kinds {
		repeated := 0
		for _, times := range k.arrived {
			repeated += times - 1
		}
		lost, _ := k.missing()
		_, _ = fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", k.sent, len(k.acked), len(k.arrived), repeated, k.reconnects, lost, k.Name)
	}
	err := table.Flush()
	for _, fault := range l.faults {
		_, _ = fmt.Fprintln(w, fault)
	}
	if l.more > 0 {
		_, _ = fmt.Fprintf(w, "and %d more\n", l.more)
	}
	return err
}

// Verdict returns an error if an acknowledged number has not arrived, a number has arrived that was never
// sent, a kind has done nothing, or there was a fault.
func (l *Ledger) Verdict() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []error
	for _, k := range l.kinds {
		if lost, first := k.missing(); lost > 0 {
			all = append(all, fmt.Errorf("%s: %d acknowledged and lost, the first is number %d", k.Name, lost, first))
		}
		for n := range k.arrived {
			if n == 0 || n > k.sent {
				all = append(all, fmt.Errorf("%s: number %d has arrived and was never sent", k.Name, n))
			}
		}
		if len(k.acked) == 0 {
			all = append(all, fmt.Errorf("%s: nothing was acknowledged", k.Name))
		}
	}
	if faults := len(l.faults) + l.more; faults > 0 {
		all = append(all, fmt.Errorf("%d errors at clients that were no lost connections", faults))
	}
	if len(l.kinds) == 0 {
		all = append(all, errors.New("there was no work"))
	}
	return errors.Join(all...)
}
