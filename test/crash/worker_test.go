package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
)

// worker works with what a swpd has, or a partner of it, writes down what it does, and
// goes on where the process before it has ended.
type worker struct {
	post
	series string // name of it
	j      *journal
	past   leftovers
	pace   time.Duration // between two things that one goroutine does

	near dialer
	far  dialer // what is asked for is asked of the partner
}

// dialing makes the dialer of a worker: to its swpd or, with via, to that partner of it.
type dialing func(who func(string) devpki.Files, via string) dialer

func newWorker(p post, dials dialing) (*worker, error) {
	j, err := openJournal(p.Journals, p.Name)
	if err != nil {
		return nil, err
	}
	w := &worker{post: p, series: seriesOf(p.Name), j: j}
	w.near, w.far = dials(devpki.Client, ""), dials(devpki.Client, p.Via)
	if p.Via != "" {
		w.pace = viaPace
	}
	w.past, err = takeOver(j, p.Journals, forerunners(p.Journals, p.Name))
	return w, err
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context, role string) error {
	work := map[string][]func(context.Context){
		roleGiver:    {w.produce, w.putStates, w.upload},
		roleTaker:    {w.subscribe, w.listen, w.download},
		roleCaller:   {w.call, w.callTool, w.task},
		roleExecutor: {w.execute},
	}[role]
	if work == nil {
		return fmt.Errorf("crash: there is no role %q", role)
	}
	var all sync.WaitGroup
	for _, do := range work {
		all.Go(func() { do(ctx) })
	}
	all.Wait()
	return nil
}

// aims reports whether the worker names the partner by a target, in place of names that
// begin with it.
func (w *worker) aims() bool { return w.Number%2 == 1 }

// of is how the worker names what has a name at the swpd that has it.
func (w *worker) of(name string) string {
	if w.aims() {
		return name
	}
	return w.behind(name)
}

// behind is the name with the partner in front.
func (w *worker) behind(name string) string {
	if w.Via == "" {
		return name
	}
	return w.Via + "/" + name
}

// dial connects as the names of the worker want it.
func (w *worker) dial() dialer {
	if w.aims() {
		return w.far
	}
	return w.near
}

// connect is dial for those who move artifacts.
func (w *worker) connect(ctx context.Context) (*client.Client, error) { return w.dial()(ctx, nil) }

// line is a connection of one goroutine, which is made again when something fails on it.
type line struct {
	w    *worker
	dial dialer
	c    *client.Client
	told string // the last failure that was written down
}

func (w *worker) line(dial dialer) *line { return &line{w: w, dial: dial} }

// do runs f until it succeeds, or ctx ends.
func (l *line) do(ctx context.Context, f func(context.Context, *client.Client) error) {
	for ctx.Err() == nil {
		err := l.try(ctx, f)
		if err == nil {
			return
		}
		l.close()
		if text := err.Error(); text != l.told && ctx.Err() == nil {
			l.told = text
			l.w.j.begin(entry{What: hadTrouble, Text: text})
		}
		wait(ctx, retryPause)
	}
}

func (l *line) try(ctx context.Context, f func(context.Context, *client.Client) error) (err error) {
	if l.c == nil {
		if l.c, err = l.dial(ctx, nil); err != nil {
			return err
		}
	}
	return f(ctx, l.c)
}

func (l *line) close() {
	if l.c != nil {
		l.c.Close()
		l.c = nil
	}
}

// persist runs f with one connection after the other until it succeeds or ctx ends.
func (w *worker) persist(ctx context.Context, f func(context.Context, *client.Client) error) {
	l := w.line(w.dial())
	defer l.close()
	l.do(ctx, f)
}

// fault writes down an error that no crash explains: a refusal that is final.
func (w *worker) fault(id string, err error) {
	if refused := (*profiles.PeerError)(nil); errors.As(err, &refused) && !refused.Retryable() {
		w.j.begin(entry{What: sawFault, ID: id, Text: err.Error()})
	}
}

func (w *worker) chances(what string) *rand.Rand { return chances(w.Name + " " + what) }

// rest is a pause between two things.
func (w *worker) rest(ctx context.Context) { wait(ctx, w.pace) }

// leftovers are what the processes before one have left: by kind and ID, what is begun and
// not ended, and what was reached last.
type leftovers struct {
	open, reached map[string]entry
}

// takeOver reads what the process before has left, and writes it down again: the next one
// reads this journal alone. One that was killed before it had written everything down is
// passed by.
func takeOver(j *journal, dir string, before []string) (leftovers, error) {
	for _, name := range slices.Backward(before) {
		s, whole, err := leftBy(dir, name)
		if err != nil {
			return s, err
		}
		if !whole {
			continue
		}
		var again []entry
		for _, of := range []map[string]entry{s.open, s.reached} {
			for key, e := range of {
				e.Op, e.Again = j.ops.Add(1), true
				of[key] = e
				again = append(again, e)
			}
		}
		j.write(append(again, entry{What: tookOver})...)
		return s, nil
	}
	j.write(entry{What: tookOver})
	return leftovers{}, nil
}

// leftBy reads the journal of one process, and returns whether it had taken over.
func leftBy(dir, name string) (s leftovers, whole bool, err error) {
	s = leftovers{open: make(map[string]entry), reached: make(map[string]entry)}
	err = readJournal(dir, name, func(e *entry) {
		switch key := e.Kind + " " + e.ID; e.What {
		case didBegin:
			s.open[key] = *e
		case didReach:
			s.reached[key] = *e
		case didEnd:
			delete(s.open, key)
			delete(s.reached, key)
		case tookOver:
			whole = true
		}
	})
	return s, whole, err
}

// last is the number that a series has reached.
func (s leftovers) last(kind, id string) uint64 { return s.reached[kind+" "+id].Seq }

// owed is what of a kind is begun and not ended, in order.
func (s leftovers) owed(kind string) (list []entry) {
	for _, e := range s.open {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return int(a.Op) - int(b.Op) })
	return list
}
