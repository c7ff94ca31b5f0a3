package daemon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
)

// pollEvery is how often the files are checked for changes.
const pollEvery = 2 * time.Second

// Reloaded is the result of a reload on request. It includes what was reloaded because a file
// had changed, since the request before.
type Reloaded struct {
	Changed  []string `json:"changed"`           // keys whose new values are in force
	Added    []string `json:"added,omitempty"`   // those of Changed that are new entries
	Removed  []string `json:"removed,omitempty"` // those of Changed that are entries no more
	Problems []string `json:"problems"`          // faults; the values that were to be replaced stay in force
	Later    []string `json:"later"`             // changed keys that take effect at the next start

	// Reasons are those of Later, by key.
	Reasons map[string]string `json:"reasons,omitempty"`
}

// Serve implements part.Part: it reloads on request, when a file changes, and when a faulty
// file may have become usable.
func (r *reloader) Serve(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
			r.once(true)
		case answer := <-r.asked:
			if result, ok := r.once(true); ok {
				answer <- result
			}
			close(answer)
		case <-tick.C:
			r.once(false)
		}
	}
}

// once reloads, unless the daemon is stopping: a part made then would not be closed in
// order.
func (r *reloader) once(all bool) (result Reloaded, ok bool) {
	select {
	case r.seat <- struct{}{}:
		defer func() { <-r.seat }()
		if r.ending.Load() {
			return Reloaded{}, false
		}
		return r.reload(all), true
	default:
		return Reloaded{}, false
	}
}

// halt waits for a reload in progress, or for the end of ctx. No reload begins after ending is set.
func (r *reloader) halt(ctx context.Context) {
	select {
	case r.seat <- struct{}{}:
	case <-ctx.Done():
	}
}

var errStopping = errors.New("swpd is stopping and has reloaded nothing; the next start reads all files")

// ask requests a reload. The error is errStopping if the daemon is stopping, or that of
// ctx.
func (r *reloader) ask(ctx context.Context) (Reloaded, error) {
	answer := make(chan Reloaded, 1)
	select {
	case r.asked <- answer:
		result, ok := <-answer
		if !ok {
			return Reloaded{}, errStopping
		}
		return result, nil
	case <-ctx.Done():
		return Reloaded{}, context.Cause(ctx)
	}
}

// reloader knows the configuration in force. One goroutine at a time reloads; any goroutine
// may call warnings.
type reloader struct {
	part.Passive
	signal   <-chan struct{}                // each receive is one reload
	asked    chan chan Reloaded             // each receive is one reload; the result goes to the received channel
	seat     chan struct{}                  // capacity one; full during a reload, and after the stop
	read     func() (*config.Config, error) // nil: there is no configuration file
	log      *zap.Logger
	sections []*section
	identity func() string // of this endpoint
	hold     func()        // checks peers against the configuration in force
	when     string        // when changed keys take effect that no section has

	started *config.Config // in force for the keys of no section
	told    *config.Config // what was in force after the last reload on request
	latest  *config.Config // as last read
	stamp   string         // state of the file at that time

	running atomic.Pointer[config.Config] // what is in force; any goroutine may read it

	ending  atomic.Bool
	failure part.Fault               // why the file cannot be used now
	later   atomic.Pointer[[]string] // keys that wait for the next start
}

// newReloader returns a reloader with c in force. Make it before the files are read, so
// that it notices later changes.
func newReloader(c *config.Config, read func() (*config.Config, error), sections []part.Section, log *zap.Logger) *reloader {
	if c.Source == "" {
		read = nil
	}
	r := &reloader{asked: make(chan chan Reloaded), seat: make(chan struct{}, 1), read: read, log: log, when: "at the next start", started: c, told: c, latest: c, stamp: part.Stamp(config.Files(c.Source)...)}
	r.running.Store(c)
	r.later.Store(new([]string))
	for _, one := range sections {
		s := &section{Section: one}
		s.stamp = s.look(c)
		r.sections = append(r.sections, s)
	}
	return r
}

// reload reads files again and applies them: all files, or only those that have changed and
// those that were faulty. Each section changes completely or not at all.
func (r *reloader) reload(all bool) Reloaded {
	problems := []string{}
	if err := r.readFile(all); err != nil {
		problems = append(problems, err.Error())
	}
	ready, refused := r.prepare(all)
	ready, clashing := r.compatible(ready)
	ready, unruly := r.admit(ready)
	for _, err := range slices.Concat(refused, clashing, unruly) {
		problems = append(problems, err.Error())
	}
	r.take(ready)
	before := r.told
	answer := Reloaded{Changed: append([]string{}, config.Changed(before, r.running.Load())...), Problems: problems, Later: r.wait()}
	answer.Added, answer.Removed = config.Added(before, r.running.Load()), config.Added(r.running.Load(), before)
	for _, key := range answer.Later {
		if answer.Reasons == nil {
			answer.Reasons = make(map[string]string)
		}
		answer.Reasons[key] = r.reason(key)
	}
	if all {
		r.told = r.running.Load()
		r.log.Info("reloaded", zap.Strings("changed", answer.Changed), zap.Int("problems", len(problems)), zap.Strings("later", answer.Later))
	}
	return answer
}

// readFile reads the configuration file again. If it is faulty, latest stays unchanged, except that
// partners are kept out that their files suspend or revoke: that cannot wait for other faults.
func (r *reloader) readFile(always bool) error {
	if r.read == nil {
		return nil
	}
	stamp := part.Stamp(config.Files(r.started.Source)...)
	if !always && stamp == r.stamp && !faulty(&r.failure) {
		return nil
	}
	r.stamp = stamp
	c, err := r.read()
	if err != nil {
		r.failed(&r.failure, "configuration not reloaded, the old one stays in force", err)
		c, out := r.latest.Withdrawn()
		if len(out) > 0 {
			r.latest = c
			r.log.Warn("partners are kept out, as their files say, although the configuration is faulty", zap.Strings("partners", out))
		}
		return err
	}
	if r.failure.Clear() {
		r.log.Info("configuration can be used again")
	}
	r.latest = c
	return nil
}

// failed records why a file or section is faulty, and logs it once.
func (r *reloader) failed(fault *part.Fault, what string, err error) {
	if fault.Set(err) {
		r.log.Error(what, zap.Error(err))
	}
}

func faulty(f *part.Fault) bool {
	_, ok := f.Text()
	return ok
}

// candidate is a section that is ready to change, with its configuration.
type candidate struct {
	*section
	part.Change
	config *config.Config
	news   bool // its keys or files have changed
}

// prepare prepares the sections that have changed, or all sections.
func (r *reloader) prepare(all bool) (ready []candidate, refused []error) {
	for _, s := range r.sections {
		c := r.running.Load()
		if s.fitting(r.started, r.latest) {
			c = c.With(r.latest, s.Keys...)
		}
		stamp := s.look(c)
		news := stamp != s.stamp || faulty(&s.failure) || len(config.Changed(r.running.Load(), c)) > 0
		if !all && !news {
			continue
		}
		s.stamp = stamp
		change, err := s.Prepare(c)
		if err != nil {
			r.failed(&s.failure, s.trouble(), err)
			refused = append(refused, err)
			continue
		}
		ready = append(ready, candidate{s, change, c, news})
	}
	return ready, refused
}

// compatible returns the candidates that fit together with the sections that do not change.
// The file as a whole is consistent, but one of its sections may have been refused. If
// dropping one candidate removes the conflict, that one is refused; otherwise all are.
func (r *reloader) compatible(ready []candidate) (fit []candidate, refused []error) {
	clash := r.clash(ready)
	if clash == nil {
		return ready, nil
	}
	for i := len(ready) - 1; i >= 0; i-- {
		if rest := slices.Delete(slices.Clone(ready), i, i+1); r.clash(rest) == nil {
			r.refuse(&ready[i], clash)
			return rest, []error{clash}
		}
	}
	for i := range ready {
		r.refuse(&ready[i], clash)
	}
	return nil, []error{clash}
}

func (r *reloader) refuse(c *candidate, why error) {
	if c.Abandon != nil {
		c.Abandon()
	}
	r.failed(&c.failure, c.trouble(), why)
}

// clash returns the conflict in the configuration that would be in force.
func (r *reloader) clash(ready []candidate) error {
	c, own := r.running.Load(), r.identity()
	for i := range ready {
		c = c.With(ready[i].config, ready[i].Keys...)
		if ready[i].Identity != "" {
			own = ready[i].Identity
		}
	}
	return errors.Join(c.Clashes(), identity.NotSelf(c.Partners, own))
}

// admit prepares the access rules again if the section of the partners was refused. The rules contain rights
// and denials of partners, but none of a refused entry.
func (r *reloader) admit(ready []candidate) (fit []candidate, refused []error) {
	partners := r.running.Load().Partners
	for i := range ready {
		if ready[i].has("partners") {
			partners = ready[i].config.Partners
		}
	}
	at := slices.IndexFunc(ready, func(c candidate) bool { return c.has("access") })
	if at < 0 || reflect.DeepEqual(partners, r.latest.Partners) {
		return ready, nil
	}
	s, running := ready[at].section, r.running.Load()
	c := running.With(r.latest.Admitting(partners), s.Keys...)
	change, err := s.Prepare(c)
	if err != nil {
		r.refuse(&ready[at], err)
		return slices.Delete(ready, at, at+1), []error{err}
	}
	ready[at] = candidate{s, change, c, len(config.Changed(running, c)) > 0}
	return ready, nil
}

// take applies candidates.
func (r *reloader) take(ready []candidate) {
	stricter := false
	for i := range ready {
		c := &ready[i]
		stricter = c.Commit() || stricter
		r.running.Store(r.running.Load().With(c.config, c.Keys...))
		c.failure.Clear()
		if c.news {
			r.log.Info(c.Name+" reloaded", c.Fields...)
		}
	}
	if stricter {
		r.hold()
	}
	for i := range ready {
		if then := ready[i].Then; then != nil {
			then()
		}
	}
}

// wait returns the keys that take effect at the next start, and logs them when they change.
func (r *reloader) wait() []string {
	keys := append([]string{}, slices.DeleteFunc(config.Changed(r.running.Load(), r.latest), r.takesUp)...)
	if old := r.later.Swap(&keys); len(keys) > 0 && !slices.Equal(*old, keys) {
		r.log.Warn("changes of the configuration that take effect "+r.when, zap.String("keys", strings.Join(keys, " ")))
	}
	return keys
}

// takesUp reports whether a reload can apply a key of the latest configuration, at once or
// when its section becomes usable.
func (r *reloader) takesUp(key string) bool {
	return slices.ContainsFunc(r.sections, func(s *section) bool {
		return s.has(key) && s.fitting(r.started, r.latest)
	})
}

// reason says why a key takes effect at the next start.
func (r *reloader) reason(key string) string {
	for _, s := range r.sections {
		if s.has(key) {
			return s.Waits
		}
	}
	for _, one := range lasting {
		if config.Within(key, one.key) {
			return one.why
		}
	}
	return ""
}

// Look implements part.Part: it describes the differences between the configuration in force and the files.
func (r *reloader) Look(h *part.Health) {
	if why, ok := r.failure.Text(); ok {
		h.WarnWith("configuration not reloaded, the old one stays in force", ": "+why)
	}
	for _, s := range r.sections {
		if why, ok := s.failure.Text(); ok {
			h.WarnWith(s.trouble(), ": "+why)
		}
	}
	if keys := *r.later.Load(); len(keys) > 0 {
		h.Warn("changed since the start, in force at the next start: " + strings.Join(keys, ", "))
	}
}
