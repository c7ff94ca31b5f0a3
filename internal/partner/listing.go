package partner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// listEvery is the interval between requests for the agents of a partner, and the maximum
// age of its list of tools. Tools are requested only on demand, because the partner starts
// its MCP servers to list them.
const listEvery = 5 * time.Minute

// agentsAge is the maximum age of a list of agents that is told. Agents come and go, and
// their list costs the partner little.
const agentsAge = 5 * time.Second

// listAgain is how long a partner that did not list something is not asked for it again.
const listAgain = 30 * time.Second

// lister requests one list of a partner, one goroutine at a time. Use newLister.
type lister struct {
	turn chan struct{} // held while the list is requested

	// Guarded by the mutex of the Link.
	of    *Up       // the session on which the list was requested
	at    time.Time // and when
	ok    bool      // with success
	known bool      // with success on any session
}

func newLister() *lister { return &lister{turn: make(chan struct{}, 1)} }

// refresh requests a list that is older than age, and reports whether the last request on
// the current session was answered. It waits for that or for ctx. The request goes on
// without who waits, so that a slow partner is listed in the end.
func (l *Link) refresh(ctx context.Context, s *lister, age time.Duration, list func(context.Context, *Up) bool) bool {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	l.mu.Lock()
	up, ok := l.current, s.ok && l.current == s.of
	if !s.ok {
		age = max(age, listAgain)
	}
	due := up != nil && (up != s.of || time.Since(s.at) >= age)
	l.mu.Unlock()
	begun, answered := false, make(chan bool, 1)
	if due {
		l.unlessClosed(func() {
			begun = true
			l.work.Go(func() {
				defer func() { <-s.turn }()
				answered <- l.request(s, up, list)
			})
		})
	}
	if !begun {
		<-s.turn
		return ok
	}
	select {
	case ok := <-answered:
		return ok
	case <-ctx.Done():
		return false
	}
}

// request requests a list on a session, as long as that is current, and notes the result.
func (l *Link) request(s *lister, up *Up, list func(context.Context, *Up) bool) bool {
	ctx, cancel := l.while(l.ctx, up)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, answerTime)
	defer cancel()
	ok := list(ctx, up)
	l.mu.Lock()
	defer l.mu.Unlock()
	s.of, s.at, s.ok, s.known = up, time.Now(), ok, s.known || ok
	return ok
}

// list updates the list of agents of the partner while a session is current.
func (l *Link) list(up *Up) {
	ctx, cancel := l.while(l.ctx, up)
	defer cancel()
	for ctx.Err() == nil {
		wait := listEvery
		if l.opts.Agents != nil && !l.refresh(ctx, l.agents, 0, l.listAgents) {
			wait = listAgain
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-ctx.Done():
		}
		next.Stop()
	}
	l.mu.Lock()
	away := l.current == nil && l.ctx.Err() == nil
	l.mu.Unlock()
	if !away {
		return
	}
	if l.opts.Agents != nil {
		l.opts.Agents.Away(l.opts.Name)
	}
	if l.opts.Tools != nil {
		l.opts.Tools.PartnerAway(l.opts.Name)
	}
}

// listAgents reads the list of agents of the partner, and reports whether the partner has
// answered. On failure the old list stays.
func (l *Link) listAgents(ctx context.Context, up *Up) bool {
	if !profiles.Serves(up.Session, agdisc.ProfileID) {
		return true
	}
	about := Wrong{Profile: agdisc.Name, Operation: "list", Name: l.opts.Name}
	var list []agdisc.Entry
	call := func(params, result any) error {
		return rpc.CallJSON(ctx, up.Session, agdisc.MethodList, params, result)
	}
	for entry, err := range agdisc.Entries(call) {
		if errors.Is(err, profiles.ErrNext) { // the entries so far are used
			_ = l.wrong(err, about)
			break
		}
		if err != nil {
			_ = l.wrong(err, about)
			refused, said := errors.AsType[*rpc.Error](err)
			return said && !refused.Retryable // it has no such list
		}
		if len(list) == agdisc.MaxPartnerAgents {
			_ = l.wrong(errTooMany, about)
			break
		}
		list = append(list, entry)
	}
	l.unlessClosed(func() { l.opts.Agents.Set(l.opts.Name, list) })
	return true
}

// errTooMany reports a list above the bounds for one partner.
var errTooMany = profiles.Errorf(profiles.InvalidProfilePayload, "more than is listed of one partner; the rest is left out")

// RefreshTools updates the lists of tools of the connected partners that are wanted, so
// that none is older than five minutes. It waits for that or for ctx, and returns the
// partners that have not listed their tools yet.
func (d *Directory) RefreshTools(ctx context.Context, wanted func(partner string) bool) (unread []tooldisc.Unread) {
	unlisted := d.refresh(ctx, wanted, listEvery, func(l *Link) (*lister, func(context.Context, *Up) bool) {
		if l.opts.Tools == nil {
			return nil, nil
		}
		return l.tools, l.listTools
	})
	for _, name := range unlisted {
		unread = append(unread, tooldisc.Unread{Name: name, Reason: "this partner has not listed its tools yet"})
	}
	return unread
}

// RefreshAgents updates the lists of agents of the connected partners that are wanted, so
// that none is older than some seconds. It waits for that or for ctx, and returns the names
// of those partners that have not listed their agents yet.
func (d *Directory) RefreshAgents(ctx context.Context, wanted func(partner string) bool) (unlisted []string) {
	return d.refresh(ctx, wanted, agentsAge, func(l *Link) (*lister, func(context.Context, *Up) bool) {
		if l.opts.Agents == nil {
			return nil, nil
		}
		return l.agents, l.listAgents
	})
}

// refresh updates lists that are older than age, and returns the names of the partners that
// have never answered. of returns a list of a link, or nil.
func (d *Directory) refresh(
	ctx context.Context, wanted func(partner string) bool, age time.Duration, of func(*Link) (*lister, func(context.Context, *Up) bool),
) (unlisted []string) {
	var mu sync.Mutex
	d.each(wanted, func(l *Link) {
		list, read := of(l)
		if list == nil {
			return
		}
		l.mu.Lock()
		age := age
		if list == l.tools && l.listed.partial() {
			age = partialAge
		}
		l.mu.Unlock()
		l.refresh(ctx, list, age, read)
		l.mu.Lock()
		known := list.known
		l.mu.Unlock()
		if !known {
			mu.Lock()
			unlisted = append(unlisted, l.Name())
			mu.Unlock()
		}
	})
	slices.Sort(unlisted)
	return unlisted
}

// each calls f with the links that are wanted, at the same time, and waits for all calls.
func (d *Directory) each(wanted func(partner string) bool, f func(l *Link)) {
	var asked sync.WaitGroup
	for _, l := range d.Links() {
		if wanted(l.Name()) {
			asked.Go(func() { f(l) })
		}
	}
	asked.Wait()
}

// listTools reads the list of tools of the partner, and reports success.
func (l *Link) listTools(ctx context.Context, up *Up) bool {
	about := Wrong{Profile: tooldisc.Name, Operation: "list", Name: l.opts.Name}
	var tools []tooldisc.Tool
	octets := 0
	var unread []tooldisc.Unread
	wanted := tooldisc.Query{Unread: func(u tooldisc.Unread) { unread = append(unread, u) }}
	for tool, err := range tooldisc.List(ctx, up.Session, wanted) {
		if err != nil {
			_ = l.wrong(err, about)
			return false
		}
		if octets += tool.Octets(); len(tools) == tooldisc.MaxPartnerTools || octets > tooldisc.MaxPartnerOctets {
			_ = l.wrong(errTooMany, about)
			break
		}
		tools = append(tools, tool)
	}
	listed := listedTools{digests(tools), unread}
	l.mu.Lock()
	if up != l.tools.of { // what was met before may be over
		l.met = nil
	}
	l.listed = listed
	l.mu.Unlock()
	l.compare()
	l.unlessClosed(func() { l.opts.Tools.SetPartner(l.opts.Name, tools, unread) })
	return true
}
