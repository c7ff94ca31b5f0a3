package sdlagent

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcptools"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Inside is the access of the agent to this endpoint, under the identities of peers.
type Inside struct {
	// Connect opens a session of an identity to this endpoint, and returns a function that
	// closes it. It is called if no session of that identity is open.
	Connect func(identity string) (s profiles.Session, end func(), err error)

	Self string          // identity of this endpoint
	MCP  *mcpmap.Mapping // of the ends that Connect returns
	A2A  *a2a.Service    // likewise

	// Task returns what a task of a kind asks this endpoint for, to compare it with hints.
	// Nil: there is nobody but its workers.
	Task func(kind string) profiles.Act

	// Carrier sends trace contexts and hints along with a request. Nil sends none.
	Carrier profiles.Carrier

	Links int           // sessions at once, default 256
	Idle  time.Duration // an unused session closes after it; default 1 min
}

// links holds the sessions to this endpoint, one for each identity in use.
type links struct {
	Inside

	mu   sync.Mutex
	open map[string]*link
}

// link is one of the links.
type link struct {
	session profiles.Session
	end     func()

	// Guarded by mu of the table.
	users   int
	timer   *time.Timer // runs while there are no users
	callers map[string]*mcptools.Caller
}

func newLinks(in Inside) *links {
	if in.Task == nil {
		in.Task = func(kind string) profiles.Act { return profiles.Act{Profile: "a2a", Operation: "task", Name: kind} }
	}
	if in.Links == 0 {
		in.Links = 256
	}
	if in.Idle == 0 {
		in.Idle = time.Minute
	}
	return &links{Inside: in, open: make(map[string]*link)}
}

var errLinks = errors.New("sdlagent: too many identities have something done for them at once")

// use returns the link of an identity. The caller must call release afterwards.
func (l *links) use(identity string) (*link, func(), error) {
	if l.Connect == nil {
		return nil, nil, errors.New("sdlagent: nothing is reached from here")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.open[identity]
	if k != nil && k.session.Context().Err() != nil {
		l.drop(identity, k)
		k = nil
	}
	if k == nil {
		if len(l.open) >= l.Links && !l.makeRoom() {
			return nil, nil, errLinks
		}
		s, end, err := l.Connect(identity)
		if err != nil {
			return nil, nil, fmt.Errorf("sdlagent: %w", err)
		}
		k = &link{session: s, end: end, callers: make(map[string]*mcptools.Caller)}
		l.open[identity] = k
	}
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
	k.users++
	return k, sync.OnceFunc(func() { l.release(identity, k) }), nil
}

func (l *links) release(identity string, k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users > 0 || l.open[identity] != k {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(l.Idle, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.open[identity] == k && k.timer == timer {
			l.drop(identity, k)
		}
	})
	k.timer = timer
}

// drop ends a link. The caller holds mu.
func (l *links) drop(identity string, k *link) {
	if k.timer != nil {
		k.timer.Stop()
	}
	delete(l.open, identity)
	k.end()
}

// makeRoom closes an unused link. The caller holds mu.
func (l *links) makeRoom() bool {
	for identity, k := range l.open {
		if k.users == 0 {
			l.drop(identity, k)
			return true
		}
	}
	return false
}

// caller returns a Caller for the tools of a server over a link.
func (l *links) caller(k *link, server string) *mcptools.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := k.callers[server]
	if c == nil {
		c = mcptools.NewCaller(l.MCP.Client(k.session), server)
		k.callers[server] = c
	}
	return c
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for identity, k := range l.open {
		l.drop(identity, k)
	}
}
