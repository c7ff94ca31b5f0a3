package daemon

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
)

// pollEvery is how often the files are looked at.
const pollEvery = 2 * time.Second

// Reloaded is what reading the files again came to.
type Reloaded struct {
	Problems []string `json:"problems"` // what could not be used; what it should have replaced stays in force
	Later    []string `json:"later"`    // keys that have changed and take effect at the next start
}

// watch reads again what changes while the daemon serves, when it is asked to
// and when a file changes or may have become usable, until ctx ends.
func (d *daemon) watch(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.opts.Reload:
			d.reload(true)
		case answer := <-d.reloads:
			answer <- d.reload(true)
		case <-tick.C:
			d.reload(false)
		}
	}
}

// reload reads files again: all of them, or those that have changed and those
// that could not be used. Peers are held against what is new.
func (d *daemon) reload(all bool) Reloaded {
	before := d.guard.policy.Load()
	trust, credentials := d.credentials.refresh(all)
	rules, configuration := d.rules.refresh(all, d.guard)
	conf, front := d.rules.links()
	lines := d.exchanges.refresh(all, d.rules.logged())
	bundles, partners := d.credentials.usePartners(conf)
	callers, fronts := d.fronts.reload(all, front)
	if trust || rules || bundles || callers {
		d.recheck()
	}
	if now := d.guard.policy.Load(); rules {
		d.profiles.MCP.RulesChanged(func(identity, server string) bool { return now.Differs(before, identity, "mcp", server) })
	}
	if partners == nil {
		d.partners.apply(conf)
	}
	r := Reloaded{Problems: []string{}, Later: d.rules.later()}
	for _, err := range []error{credentials, configuration, partners, fronts, lines, d.cards.refresh(all), d.verifiers.refresh(all)} {
		if err != nil {
			r.Problems = append(r.Problems, err.Error())
		}
	}
	return r
}

// askReload has the files read by whoever watches them.
func (d *daemon) askReload(ctx context.Context) (Reloaded, error) {
	answer := make(chan Reloaded, 1)
	select {
	case d.reloads <- answer:
		return <-answer, nil
	case <-ctx.Done():
		return Reloaded{}, context.Cause(ctx)
	}
}

// ruleFile is the configuration file as the source of the access rules. What
// was loaded last stays in force while the file cannot be used.
type ruleFile struct {
	read    func() (*config.Config, error) // nil means that there is no file
	started *config.Config
	log     *zap.Logger
	failure atomic.Pointer[string] // why the file cannot be used now; nil if it can

	mu     sync.Mutex
	stamp  string         // what the file looked like when it was read last
	latest *config.Config // as read last
}

func newRuleFile(c *config.Config, read func() (*config.Config, error), log *zap.Logger) *ruleFile {
	if c.Source == "" {
		read = nil
	}
	return &ruleFile{read: read, started: c, latest: c, log: log, stamp: stampOf(c.Source)}
}

// refresh reads the file again and gives the rules to g. It reports whether
// they have changed.
func (f *ruleFile) refresh(always bool, g *guard) (changed bool, err error) {
	if f.read == nil {
		return false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	stamp := stampOf(f.started.Source)
	if !always && stamp == f.stamp && f.failure.Load() == nil {
		return false, nil
	}
	f.stamp = stamp
	c, err := f.read()
	if err == nil {
		err = f.use(c, g)
	}
	if err != nil {
		text := boundlog.CleanLines(err.Error())
		if old := f.failure.Swap(&text); old == nil || *old != text {
			f.log.Error("access rules not reloaded, the old ones stay in force", zap.Error(err))
		}
		return false, err
	}
	recovered := f.failure.Swap(nil) != nil
	changed = !reflect.DeepEqual(c.Access, f.latest.Access)
	f.latest = c
	if changed || recovered {
		f.log.Info("access rules reloaded", zap.Int("rules", len(c.Access.Rules)), zap.Int("agents", len(c.Access.Agents)), zap.Int("denied", len(c.Access.Deny)))
	}
	if later := laterKeys(f.started, c); len(later) > 0 {
		f.log.Warn("changes of the configuration that take effect at the next start", zap.String("keys", strings.Join(later, " ")))
	}
	return changed, nil
}

func (f *ruleFile) use(c *config.Config, g *guard) error {
	policy, err := newPolicy(&c.Access)
	if err != nil {
		return err
	}
	g.policy.Store(policy)
	return nil
}

// links returns the partners, and the section http, as they were read last.
func (f *ruleFile) links() (config.Partners, *config.HTTP) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest.Partners, &f.latest.HTTP
}

// logged returns section log as it was read last.
func (f *ruleFile) logged() *config.Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &f.latest.Log
}

// later returns the keys whose change takes effect at the next start.
func (f *ruleFile) later() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return laterKeys(f.started, f.latest)
}

// laterKeys compares two configurations, but for what is in force at once.
func laterKeys(old, now *config.Config) []string {
	keys := []string{}
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem()
	for i := range a.NumField() {
		key := a.Type().Field(i).Tag.Get("yaml")
		if key == "http" {
			keys = append(keys, httpLater(&old.HTTP, &now.HTTP)...)
			continue
		}
		if key == "log" {
			if old.Log.Level != now.Log.Level {
				keys = append(keys, "log.level")
			}
			if old.Log.Format != now.Log.Format {
				keys = append(keys, "log.format")
			}
			continue
		}
		if key != "-" && key != "access" && key != "partners" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// stampOf describes files without opening them.
func stampOf(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.WriteString("missing;")
			continue
		}
		fmt.Fprintf(&b, "%d %d %v;", info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	return b.String()
}
