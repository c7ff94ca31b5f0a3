package config

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
)

func (c *Config) checkStore(p *problems) {
	if c.Store == StoreMemory && p.isSet("durability") {
		p.add("durability", "is set while store is %s, which keeps nothing; remove one", StoreMemory)
	}
	q := c.Quota
	if q.Total < minQuota {
		p.add("quota.total", "is %s, want at least %s", q.Total, minQuota)
	}
	if q.PerIdentity < minQuota || q.PerIdentity > q.Total {
		p.add("quota.per_identity", "is %s, want %s to quota.total, which is %s", q.PerIdentity, minQuota, q.Total)
	}
}

// minQuota is the minimum of a usable store.
const minQuota = Size(1 << 20)

func (c *Config) checkWorkers(p *problems) {
	served := make(map[string]string) // kind → worker
	for _, name := range slices.Sorted(maps.Keys(c.A2A.Workers)) {
		w, key := c.A2A.Workers[name], "a2a.workers."+name
		checkName(p, key, name, "")
		switch {
		case w.Command == "" && w.URL == "":
			p.add(key, "has neither command nor url; name the program that is run for each task, or the URL that each is posted to")
		case w.Command != "" && w.URL != "":
			p.add(key, "has command and url; keep one")
		case w.Command != "":
			checkCommand(p, key+".command", w.Command)
			checkProgram(p, key, w.Args, w.Env, w.Dir)
			c.checkNodes(p, key+".nodes", w.Nodes)
			if p.isSet(key + ".timeout") {
				p.add(key+".timeout", "is for a url; a command may be silent until the deadline of its task")
			}
		default:
			checkTimeout(p, key+".timeout", w.Timeout)
			for _, k := range []string{"args", "env", "dir", "nodes"} {
				if p.isSet(key + "." + k) {
					p.add(key+"."+k, "is for a command; remove it")
				}
			}
		}
		if len(w.Kinds) == 0 {
			p.add(key+".kinds", "missing; list the kinds of task it carries out")
		}
		for i, kind := range w.Kinds {
			literal(p, key+".kinds", i, kind)
			if other, taken := served[kind]; taken {
				p.addItem(key+".kinds", i, "%.200q is carried out by %s already; one worker serves a kind", kind, other)
			}
			served[kind] = name
		}
		readable(p, key+".schema", w.Schema)
		if w.Tasks < 1 || w.Tasks > MaxTasks {
			p.add(key+".tasks", "is %d, want 1 to %d", w.Tasks, MaxTasks)
		}
		if w.Deadline <= 0 && p.isSet(key+".deadline") {
			p.add(key+".deadline", "is 0, want a duration above 0, such as 5m; without it a2a.deadline holds")
		}
	}
}

// MaxTasks is the maximum of concurrent tasks of one worker.
const MaxTasks = 1024

func (c *Config) checkBackends(p *problems) {
	served := make(map[string]string) // method → backend
	for _, name := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		b, key := c.RPC.Backends[name], "rpc.backends."+name
		checkName(p, key, name, "")
		if b.URL == "" {
			p.add(key+".url", "missing; name the URL that calls are posted to, such as http://127.0.0.1:8080/rpc")
		} else if hasQuery(b.URL) {
			p.add(key+".url", "%.200q has a query, and the name of the method is appended to the path; remove it", b.URL)
		}
		if len(b.Methods) == 0 {
			p.add(key+".methods", "missing; list the methods it serves")
		}
		for i, method := range b.Methods {
			literal(p, key+".methods", i, method)
			if strings.HasPrefix(method, "swp.") {
				p.addItem(key+".methods", i, "%.200q is reserved: names that begin with swp. are built in", method)
			}
			if other, taken := served[method]; taken {
				p.addItem(key+".methods", i, "%.200q is served by %s already", method, other)
			}
			served[method] = name
		}
		for i, method := range b.Repeatable {
			if !slices.Contains(b.Methods, method) {
				p.addItem(key+".repeatable", i, "%.200q is not in methods", method)
			}
		}
		checkTimeout(p, key+".timeout", b.Timeout)
	}
}

// literal refuses a pattern as element i of a list: it would be served as a name, with
// its wildcards.
func literal(p *problems, key string, i int, name string) {
	switch {
	case name == "":
		p.addItem(key, i, "contains an empty name; remove it")
	case len(name) > maxPattern:
		p.addItem(key, i, "contains a name of %d octets, want at most %d", len(name), maxPattern)
	case strings.Contains(name, "*"):
		p.addItem(key, i, "%.200q is a pattern, want names in full", name)
	}
}

func (c *Config) checkDurations(p *problems) {
	for _, row := range []struct {
		key   string
		value int64
	}{
		{"a2a.retention", int64(c.A2A.Retention)},
		{"a2a.deadline", int64(c.A2A.Deadline)},
		{"a2a.abandoned", int64(c.A2A.Abandoned)},
		{"rpc.replay_window", int64(c.RPC.ReplayWindow)},
	} {
		if row.value <= 0 {
			p.add(row.key, "is 0, want a duration above 0, such as 1h")
		}
	}
}

// checkURL refuses a URL that is not an absolute URL of HTTP, and one with a secret:
// addresses are logged and shown.
func checkURL(p *problems, key, s string) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		p.add(key, "is not a URL, want one such as http://127.0.0.1:8080/path")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		p.add(key, "%.200q is not an absolute http:// or https:// URL", u.Redacted())
	case u.User != nil:
		p.add(key, "contains a user or password, and addresses are shown in logs; remove it")
	case u.Fragment != "":
		p.add(key, "%.200q has a fragment, which is never sent; remove it", s)
	}
}

// hasQuery reports whether a URL has a query. Of one with a password, which no text may quote,
// checkURL says what is wrong.
func hasQuery(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.User == nil && (u.RawQuery != "" || u.ForceQuery)
}

// checkProgram finds problems of the arguments, environment and directory of a command.
func checkProgram(p *problems, key string, args []string, env map[string]string, dir string) {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			p.add(fmt.Sprintf("%s.args[%d]", key, i), "contains NUL, which no argument can")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "PATH" {
			p.add(key+".env.PATH", "cannot be set: children get the PATH of swpd, in which the command was found")
		}
		if !envName.MatchString(name) || strings.ContainsRune(env[name], 0) {
			p.add(key+".env", "%.80q is not a variable: the name has no '=', and neither name nor value contains NUL", name)
		}
	}
	if !p.sees(key + ".dir") {
		return
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		p.add(key+".dir", "%.200q is not a directory; make it, or name one that exists", dir)
	}
}
