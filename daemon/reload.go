package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
)

// pollEvery is how often the files are looked at.
const pollEvery = 2 * time.Second

// Reloaded is what reading the files again came to.
type Reloaded struct {
	Changed  []string `json:"changed"`  // keys that have been taken up
	Problems []string `json:"problems"` // what could not be used; what it should have replaced stays in force
	Later    []string `json:"later"`    // keys that have changed and take effect at the next start
}

// Serve implements part.Part: it reads again what changes while the daemon serves, when it is
// asked to and when a file changes or may have become usable.
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

// once reloads, unless the daemon stops: what is taken up would not be ended in order.
func (r *reloader) once(all bool) (result Reloaded, ok bool) {
	select {
	case r.seat <- struct{}{}:
		defer func() { <-r.seat }()
		return r.reload(all), true
	default:
		return Reloaded{}, false
	}
}

// halt has nothing reloaded any more. It waits for a reload under way, or for the end of
// ctx.
func (r *reloader) halt(ctx context.Context) {
	select {
	case r.seat <- struct{}{}:
	case <-ctx.Done():
	}
}

var errStopping = errors.New("swpd is stopping: nothing was read again; the next start reads everything")

// ask has the files read again. The error is errStopping once the daemon stops, or that
// of ctx.
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

// reloader knows what is in force of the configuration. One goroutine at a time reloads;
// warnings may be asked for meanwhile.
type reloader struct {
	part.Passive
	signal   <-chan struct{}                // each receive is one reload
	asked    chan chan Reloaded             // likewise, with where the answer goes
	seat     chan struct{}                  // of one: full during a reload, and once the daemon stops
	read     func() (*config.Config, error) // nil: there is no file
	log      *zap.Logger
	sections []*section
	identity func() string // of this endpoint
	hold     func()        // holds peers against what is in force

	started *config.Config // what is in force of all that is in no section
	running *config.Config // what is in force
	latest  *config.Config // as it was read last
	stamp   string         // what the file looked like then

	failure atomic.Pointer[string]   // why the file cannot be used now; nil if it can
	later   atomic.Pointer[[]string] // keys that wait for the next start
}

// newReloader takes a configuration for what is in force. It comes before the files are
// read: what changes from then on is noticed.
func newReloader(c *config.Config, read func() (*config.Config, error), sections []part.Section, log *zap.Logger) *reloader {
	if c.Source == "" {
		read = nil
	}
	r := &reloader{asked: make(chan chan Reloaded), seat: make(chan struct{}, 1), read: read, log: log, started: c, running: c, latest: c, stamp: part.Stamp(c.Source)}
	r.later.Store(new([]string))
	for _, one := range sections {
		s := &section{Section: one}
		s.stamp = s.look(c)
		r.sections = append(r.sections, s)
	}
	return r
}

// reload reads files again: all of them, or those that have changed and those that could
// not be used, and takes up what can be. Each section changes as a whole or not at all.
func (r *reloader) reload(all bool) Reloaded {
	problems := []string{}
	if err := r.readFile(all); err != nil {
		problems = append(problems, err.Error())
	}
	ready, refused := r.prepare(all)
	ready, clashing := r.compatible(ready)
	for _, err := range slices.Concat(refused, clashing) {
		problems = append(problems, err.Error())
	}
	before := r.running
	r.take(ready)
	answer := Reloaded{Changed: append([]string{}, config.Changed(before, r.running)...), Problems: problems, Later: r.wait()}
	if all {
		r.log.Info("reloaded", zap.Strings("changed", answer.Changed), zap.Int("problems", len(problems)), zap.Strings("later", answer.Later))
	}
	return answer
}

// readFile reads the configuration file again. While it cannot be used, the one that was
// read before is the latest.
func (r *reloader) readFile(always bool) error {
	if r.read == nil {
		return nil
	}
	stamp := part.Stamp(r.started.Source)
	if !always && stamp == r.stamp && r.failure.Load() == nil {
		return nil
	}
	r.stamp = stamp
	c, err := r.read()
	if err != nil {
		r.failed(&r.failure, "configuration not reloaded, the old one stays in force", err)
		return err
	}
	if r.failure.Swap(nil) != nil {
		r.log.Info("configuration can be used again")
	}
	r.latest = c
	return nil
}

// failed remembers why something cannot be used, and logs it once.
func (r *reloader) failed(failure *atomic.Pointer[string], what string, err error) {
	text := boundlog.CleanLines(err.Error())
	if old := failure.Swap(&text); old == nil || *old != text {
		r.log.Error(what, zap.Error(err))
	}
}

// candidate is a section that is ready, with the configuration that it then is of.
type candidate struct {
	*section
	part.Change
	config *config.Config
	news   bool // it is not as it was
}

// prepare makes the sections ready that have changed, or all.
func (r *reloader) prepare(all bool) (ready []candidate, refused []error) {
	for _, s := range r.sections {
		c := r.running
		if s.fitting(r.started, r.latest) {
			c = c.With(r.latest, s.Keys...)
		}
		stamp := s.look(c)
		news := stamp != s.stamp || s.failure.Load() != nil || len(config.Changed(r.running, c)) > 0
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

// compatible returns the candidates that can be in force together with what stays: the
// file fits together, but of its sections one may have been refused. The one is refused
// without which there is no clash, or else all.
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

// clash says what is wrong with what would be in force.
func (r *reloader) clash(ready []candidate) error {
	c, own := r.running, r.identity()
	for i := range ready {
		c = c.With(ready[i].config, ready[i].Keys...)
		if ready[i].Identity != "" {
			own = ready[i].Identity
		}
	}
	return errors.Join(c.Clashes(), identity.NotSelf(c.Partners, own))
}

// take puts candidates in force.
func (r *reloader) take(ready []candidate) {
	stricter := false
	for i := range ready {
		c := &ready[i]
		stricter = c.Commit() || stricter
		r.running = r.running.With(c.config, c.Keys...)
		c.failure.Store(nil)
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

// wait returns the keys that wait for the next start, and logs them when they change.
func (r *reloader) wait() []string {
	keys := append([]string{}, slices.DeleteFunc(config.Changed(r.running, r.latest), r.takesUp)...)
	if old := r.later.Swap(&keys); len(keys) > 0 && !slices.Equal(*old, keys) {
		r.log.Warn("changes of the configuration that take effect at the next start", zap.String("keys", strings.Join(keys, " ")))
	}
	return keys
}

// takesUp reports whether a key of the latest configuration is taken up without a new
// start. If it is not in force it will be as soon as its section can be used.
func (r *reloader) takesUp(key string) bool {
	return slices.ContainsFunc(r.sections, func(s *section) bool {
		return s.has(key) && s.fitting(r.started, r.latest)
	})
}

// Look implements part.Part.
func (r *reloader) Look(h *part.Health) { h.Warnings = append(h.Warnings, r.warnings()...) }

// warnings says where what is in force is not what the files say.
func (r *reloader) warnings() (list []string) {
	if failure := r.failure.Load(); failure != nil {
		list = append(list, "configuration not reloaded, the old one stays in force: "+*failure)
	}
	for _, s := range r.sections {
		if failure := s.failure.Load(); failure != nil {
			list = append(list, s.trouble()+": "+*failure)
		}
	}
	if keys := *r.later.Load(); len(keys) > 0 {
		list = append(list, "changed since the start, in force at the next start: "+strings.Join(keys, ", "))
	}
	return list
}
