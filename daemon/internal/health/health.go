// Package health has one record for each thing that stands behind the endpoint: MCP servers, workers, agents, back ends,
// partners, certificates and the store.
//
// A record says whether the last use of the thing was a success, since when, what went wrong last and what to do. Time
// without a use changes nothing: after a failure the thing is failing until something works.
//
// The parts that use the things report each success and each failure (Entry). Things whose state is known elsewhere, such as
// links, are looked at every five seconds (Records.Watch). Idle things can be asked (Records.Probe).
package health

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/masked"
	"github.com/slimwire/swp/internal/plain"
)

// Record is what is known of a thing.
type Record struct {
	Kind        Kind      `json:"kind"`
	Name        string    `json:"name"`
	State       State     `json:"state"`
	Since       time.Time `json:"since"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastError   *Error    `json:"last_error,omitempty"`
	Failures    int       `json:"failures_24h"` // in the last 24 hours
	Remedy      string    `json:"remedy,omitempty"`
}

// Error is a failure.
type Error struct {
	At     time.Time `json:"at"`
	Fault  Fault     `json:"fault"`
	Text   string    `json:"text"`             // what failed, and why
	Output []string  `json:"output,omitempty"` // the last lines of standard error, masked; at most ten, 2 KiB of them
}

// Title returns the kind and the name, as texts have them.
func (r *Record) Title() string { return r.Kind.row().noun + " " + r.Name }

// Records are the records of an endpoint. Its methods are safe for concurrent use; a nil Records knows no things.
type Records struct {
	part.Passive
	log  *zap.Logger
	file string // they are kept there; empty: nowhere

	things atomic.Pointer[map[key]*Entry] // replaced as a whole

	mu       sync.Mutex
	found    map[key]keptRecord // in the file at the start, until the thing is in the configuration
	watches  []watch
	probers  map[Kind]Prober
	probes   sync.WaitGroup
	probing  chan struct{} // one place for each probe under way
	opened   bool          // all things are in the configuration or gone
	retired  bool
	saved    time.Time
	unsaved  part.Fault
	changed  atomic.Bool // a state has changed since the file was written
	watching sync.Mutex  // held while watches are looked at
}

type key struct {
	kind Kind
	name string
}

func (k key) compare(l key) int {
	order := func(k Kind) int { return slices.IndexFunc(kinds, func(r kindRow) bool { return r.kind == k }) }
	return cmp.Or(cmp.Compare(order(k.kind), order(l.kind)), strings.Compare(k.name, l.name))
}

// New returns Records without things. file keeps them over restarts, unless it is empty: its record of a thing holds as
// soon as the thing is set. A file that cannot be read is a warning in the log.
func New(file string, log *zap.Logger) *Records {
	r := &Records{log: log.Named(boundlog.Health), file: file, probers: make(map[Kind]Prober), probing: make(chan struct{}, maxProbes)}
	r.things.Store(new(map[key]*Entry))
	r.load()
	return r
}

// Set says which things of a kind there are. The records of others of this kind are removed.
func (r *Records) Set(kind Kind, names ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[key]*Entry)
	same := true
	for k, e := range *r.things.Load() {
		if k.kind == kind && !slices.Contains(names, k.name) {
			same = false
			continue
		}
		next[k] = e
	}
	for _, name := range names {
		k := key{kind, name}
		if next[k] == nil {
			next[k], same = r.enter(k), false
		}
	}
	if !same {
		r.things.Store(&next)
		r.changed.Store(true)
	}
}

// enter makes the entry of a thing. The caller holds mu.
func (r *Records) enter(k key) *Entry {
	e := &Entry{records: r, key: k, state: Untried, since: time.Now().UTC().Round(0)}
	if kept, ok := r.found[k]; ok {
		delete(r.found, k)
		e.restore(&kept)
	}
	return e
}

// Of returns the entry of a thing; nil if there is no such thing. A nil Entry takes no notice of anything.
func (r *Records) Of(kind Kind, name string) *Entry {
	if r == nil {
		return nil
	}
	return (*r.things.Load())[key{kind, name}]
}

// entries returns all entries in the order of their kinds and names.
func (r *Records) entries() []*Entry {
	things := *r.things.Load()
	list := make([]*Entry, 0, len(things))
	for _, e := range things {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *Entry) int { return a.key.compare(b.key) })
	return list
}

// List returns all records, in the order of their kinds and names.
func (r *Records) List() []Record {
	list := []Record{} // not nil, which would be null in JSON
	if r == nil {
		return list
	}
	r.look()
	for _, e := range r.entries() {
		list = append(list, e.Record())
	}
	return list
}

// Look implements part.Part: it warns of things that fail.
func (r *Records) Look(h *part.Health) {
	for _, e := range r.entries() {
		if one := e.Record(); e.kind.row().warned && !one.State.Well() && one.LastError != nil {
			what := one.LastError.Fault.row().what
			h.WarnWith(one.Title()+": "+what, strings.TrimPrefix(one.line(), what))
		}
	}
}

// line returns the last error with the last line of standard error, if that says more.
func (r *Record) line() string {
	text := r.LastError.Text
	if out := r.LastError.Output; len(out) > 0 && !strings.Contains(text, out[len(out)-1]) {
		text += ": " + out[len(out)-1]
	}
	return text
}

// Line returns the record in one line, without its title.
func (r *Record) Line() string {
	text := string(r.State) + " since " + r.Since.UTC().Format(time.RFC3339)
	if !r.State.Well() && r.LastError != nil {
		text += ": " + r.line()
	}
	return text
}

// Entry is the place to report about a thing. Its methods are safe for concurrent use.
type Entry struct {
	records *Records
	key

	fine   atomic.Bool  // the state is OK
	worked atomic.Int64 // seconds since 1970 of the last success; 0: none

	mu       sync.Mutex
	state    State
	since    time.Time
	last     *Error
	told     string // the remedy in place of that of the fault
	failures window
	total    uint64 // failures since the start

	probing bool
	asked   time.Time // the end of the last probe; zero: none
	tries   int       // probes in a row after which it was failing
}

// Worked reports a success. It costs no lock while the state is OK.
func (e *Entry) Worked() {
	if e == nil {
		return
	}
	if now := time.Now().Unix(); e.worked.Load() != now {
		e.worked.Store(now)
	}
	if !e.fine.Load() {
		e.turn(OK, time.Time{}, nil, "")
	}
}

// Reached reports that the thing accepts connections. That is a success if it was not tried, or was not reached.
func (e *Entry) Reached() {
	if e == nil {
		return
	}
	e.mu.Lock()
	reached := e.state == Untried || e.state == Failing && e.last != nil && e.last.Fault.row().reach
	e.mu.Unlock()
	if reached {
		e.Worked()
	}
}

// Failed reports a failure: the fault, why, and the last lines of standard error.
func (e *Entry) Failed(fault Fault, why error, output []string) {
	if e != nil {
		e.turn(Failing, time.Time{}, failure(fault, why, output), "")
	}
}

// Changed says that the thing is another one now, because its entry of the configuration has changed: its state is Untried.
func (e *Entry) Changed() {
	if e != nil {
		e.turn(Untried, time.Time{}, nil, "")
	}
}

// Failing reports whether the thing fails.
func (e *Entry) Failing() bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == Failing
}

// maxText bounds the text of an error, and each line of standard error, in octets.
const maxText = boundlog.MaxValue

// failure describes a failure. Secrets are masked, control characters escaped and long texts cut.
func failure(fault Fault, why error, output []string) *Error {
	text := fault.row().what
	if why != nil {
		text += ": " + boundlog.Clean(masked.Text(words(why)))
	}
	f := &Error{At: time.Now().UTC().Round(0), Fault: fault, Text: text}
	for _, line := range output {
		f.Output = append(f.Output, boundlog.Clean(line))
	}
	return f
}

// words returns the text of an error. If no connection was made, the text says why and to which address.
func words(err error) string {
	dial, ok := errors.AsType[*net.OpError](err)
	if !ok || dial.Op != "dial" {
		return plain.Error(err)
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return "no address is found for the host " + name.Name
	}
	switch {
	case dial.Addr == nil:
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on " + dial.Addr.String()
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to " + dial.Addr.String()
	case dial.Timeout():
		return "no connection to " + dial.Addr.String() + " in time"
	}
	return plain.Error(err)
}

// turn changes the state. since is the time of the change; zero: now. A change is logged and kept.
func (e *Entry) turn(to State, since time.Time, why *Error, remedy string) {
	r := e.records
	r.mu.Lock()
	retired := r.retired
	r.mu.Unlock()
	if retired {
		return
	}
	e.mu.Lock()
	was := e.state
	news := was != to
	if news {
		if since.IsZero() {
			since = time.Now()
		}
		e.state, e.since = to, since.UTC().Round(0)
		e.fine.Store(to == OK)
	}
	if why != nil {
		e.last = why
	}
	if e.told = remedy; why != nil && (to == Failing || to == Away && news) {
		e.failures.add(time.Now())
		e.total++
	}
	e.mu.Unlock()
	if !news {
		return
	}
	r.changed.Store(true)
	if was.Well() && to.Well() || to == Untried {
		return // which is no news for an operator
	}
	r.tell(e.Record(), was)
}

// tell logs a change of state.
func (r *Records) tell(now Record, was State) {
	fields := []zap.Field{zap.String("name", now.Name), zap.String("was", string(was))}
	if !now.State.Well() && now.LastError != nil {
		fields = append(fields, zap.String("error", now.LastError.Text))
		if out := now.LastError.Output; len(out) > 0 {
			fields = append(fields, zap.String("said", out[len(out)-1]))
		}
		fields = append(fields, zap.String("do", now.Remedy))
	}
	noun := now.Kind.row().noun
	switch {
	case now.State == OK:
		r.log.Info(noun+" works again", fields...)
	case now.State.worse(was):
		r.log.Warn(noun+" is "+string(now.State), fields...)
	default:
		r.log.Info(noun+" is "+string(now.State), fields...)
	}
}

// Record returns the present record.
func (e *Entry) Record() Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := Record{Kind: e.kind, Name: e.name, State: e.state, Since: e.since, LastError: e.last, Failures: e.failures.sum(time.Now())}
	if at := e.worked.Load(); at > 0 {
		one.LastSuccess = time.Unix(at, 0).UTC()
	}
	if !e.state.Well() && e.last != nil {
		one.Remedy = cmp.Or(e.told, e.last.Fault.remedy(e.name))
	}
	return one
}

// window counts failures by the hour.
type window struct {
	Hour   int64               `json:"hour,omitempty"` // of the last count, since 1970
	Counts [windowHours]uint32 `json:"counts"`
}

const windowHours = 24

func (w *window) move(now time.Time) {
	hour := now.Unix() / 3600
	w.Hour = max(w.Hour, hour-windowHours)
	for ; w.Hour < hour; w.Hour++ {
		w.Counts[(w.Hour+1)%windowHours] = 0
	}
}

func (w *window) add(now time.Time) {
	w.move(now)
	if n := &w.Counts[w.Hour%windowHours]; *n < 1<<31 {
		*n++
	}
}

func (w *window) sum(now time.Time) (n int) {
	w.move(now)
	for _, count := range w.Counts {
		n += int(count)
	}
	return n
}

// Seen is the state of a thing that is known elsewhere.
type Seen struct {
	Name   string
	State  State
	Since  time.Time // zero: since it is seen
	Fault  Fault     // unless the state is well
	Why    string    // may be empty
	Remedy string    // in place of that of the fault; may be empty
}

type watch struct {
	kind Kind
	of   func() []Seen
}

// Watch has things of a kind be looked at while they are served. A kind can have several watches and has no other things.
func (r *Records) Watch(kind Kind, of func() []Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches = append(r.watches, watch{kind, of})
}

// look looks at the things that are known elsewhere.
func (r *Records) look() {
	r.watching.Lock()
	defer r.watching.Unlock()
	r.mu.Lock()
	watches, open := slices.Clone(r.watches), r.opened && !r.retired
	r.mu.Unlock()
	if !open {
		return
	}
	seen := make(map[Kind]map[string]Seen)
	for _, w := range watches {
		if seen[w.kind] == nil {
			seen[w.kind] = make(map[string]Seen)
		}
		for _, one := range w.of() {
			if before, ok := seen[w.kind][one.Name]; !ok || one.State.worse(before.State) { // of several certificates in a file the worst counts
				seen[w.kind][one.Name] = one
			}
		}
	}
	for kind, list := range seen {
		names := make([]string, 0, len(list))
		for name := range list {
			names = append(names, name)
		}
		r.Set(kind, names...)
		for name, one := range list {
			r.Of(kind, name).see(one)
		}
	}
}

// see takes the state of a thing that is known elsewhere. The time of an error stays while its text does.
func (e *Entry) see(s Seen) {
	if s.State == OK {
		if !e.fine.Load() {
			e.turn(OK, s.Since, nil, "")
		}
		e.Worked()
		return
	}
	var why error
	if s.Why != "" {
		why = errors.New(s.Why)
	}
	e.mu.Lock()
	state, last, told := e.state, e.last, e.told
	e.mu.Unlock()
	var now *Error
	if !s.State.Well() {
		now = failure(s.Fault, why, nil)
		if last != nil && last.Fault == now.Fault && last.Text == now.Text && state == s.State {
			if told == s.Remedy {
				return
			}
			now = nil
		}
	} else if state == s.State {
		return
	}
	e.turn(s.State, s.Since, now, s.Remedy)
}
