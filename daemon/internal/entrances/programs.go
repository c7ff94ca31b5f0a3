package entrances

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/internal/bridge/worker"
	"github.com/slimwire/swp/internal/hosting"
	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/transport"
)

// programs are the processes of entries with nodes: all that this node has placed.
type programs struct {
	mu    sync.Mutex
	here  int
	far   map[string]*far      // by certificate
	avoid map[string]time.Time // nodes, and entries at nodes, that get no process until then
}

// far is another node that runs programs for this one.
type far struct {
	place passing.Place
	end   context.CancelFunc // of place.Until
	count int
	reach sync.Once
	fault error // of reach
}

// avoided is how long a node gets no other process after it could not be reached, or has refused one of
// the same entry.
const avoided = pgstore.Silence

// lost is the silence after which the links to the programs of a node end. A killed process is seen at once.
const lost = 2 * pgstore.Silence

// Place is a part.Place. The result is nil without an address, or if c is nil.
func (c *Cluster) Place(entry string, program proc.Config) func([]string) (*proc.Link, func()) {
	if !c.Entered() {
		return nil
	}
	return func(env []string) (*proc.Link, func()) { return c.start(entry, &program, env) }
}

// start starts a process at the node that has the fewest; nil: it is to be started here.
func (c *Cluster) start(entry string, program *proc.Config, env []string) (*proc.Link, func()) {
	to := c.choose(entry)
	if to == nil {
		return nil, func() { c.placed.count(nil, -1) }
	}
	link, err := c.ask(to, entry, program, env)
	if err == nil {
		link.Leaving = c.taker.Departing(to.place.Certificate)
		return link, func() { c.placed.count(to, -1) }
	}
	c.o.Log.Warn("a program that another node does not start is started here", zap.String("entry", entry), zap.String("node", to.place.Name), zap.Error(err))
	at := to.place.Name
	if errors.Is(err, passing.ErrRefused) {
		at += " " + entry
	}
	c.placed.mu.Lock()
	c.placed.avoid[at] = time.Now().Add(avoided)
	c.placed.mu.Unlock()
	c.placed.count(to, -1)
	c.placed.count(nil, 1)
	return nil, func() { c.placed.count(nil, -1) }
}

// ask has a node start a process.
func (c *Cluster) ask(to *far, entry string, program *proc.Config, env []string) (*proc.Link, error) {
	to.reach.Do(func() {
		held, err := c.passer.Hold(to.place.Until, to.place)
		if to.fault = err; err != nil {
			to.end()
			return
		}
		context.AfterFunc(held, to.end)
	})
	if to.fault != nil {
		return nil, to.fault
	}
	return hosting.Start(to.place.Until, &c.passer, to.place, entry, program, env)
}

// choose counts a process at the node that has the fewest; nil is this one. Nodes that are silent, about to
// end, or have another configuration get none.
func (c *Cluster) choose(entry string) *far {
	list, age := c.known()
	own, p := c.digest(), &c.placed
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.avoid, func(_ string, until time.Time) bool { return time.Now().After(until) })
	var best *pgstore.Member
	least := p.here
	for i, m := range list {
		_, unreached := p.avoid[m.Name]
		_, refused := p.avoid[m.Name+" "+entry]
		if m.Name == c.node || m.Address == "" || m.Config != own || m.Silent+age >= pgstore.Silence || unreached || refused || c.taker.Departing(m.Certificate).Err() != nil {
			continue
		}
		count := 0
		if one := p.far[string(m.Certificate)]; one != nil {
			count = one.count
		}
		if count < least {
			best, least = &list[i], count
		}
	}
	if best == nil {
		p.here++
		return nil
	}
	one := p.far[string(best.Certificate)]
	if one == nil || one.place.Until.Err() != nil {
		one = &far{place: passing.Place{Name: best.Name, Address: best.Address, Certificate: best.Certificate}}
		one.place.Until, one.end = context.WithCancel(context.Background())
		p.far[string(best.Certificate)] = one
	}
	one.count++
	return one
}

// count counts a process at a node; nil is this one.
func (p *programs) count(at *far, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at == nil {
		p.here += n
	} else {
		at.count += n
	}
}

// gone ends the links to nodes whose certificates are not those of live ones.
func (p *programs) gone(alive map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for certificate, one := range p.far {
		if !alive[certificate] {
			one.end()
		}
		if one.place.Until.Err() != nil && one.count == 0 {
			delete(p.far, certificate)
		}
	}
}

// programs returns how many processes run, by the name of the node.
func (c *Cluster) programs() map[string]int {
	c.placed.mu.Lock()
	defer c.placed.mu.Unlock()
	list := map[string]int{c.node: c.placed.here + c.host.Links()}
	for _, one := range c.placed.far {
		list[one.place.Name] += one.count
	}
	return list
}

// offer is hosting.Host.Offer.
func (c *Cluster) offer(entry string) (*hosting.Offer, error) {
	kind, name, _ := strings.Cut(entry, "/")
	o := &hosting.Offer{Grace: part.ChildGrace}
	groups, err := c.o.Groups()
	if err != nil {
		return nil, err
	}
	nodes := ""
	switch conf := c.o.Latest(); kind {
	case "mcp":
		s := conf.MCP.Servers[name]
		nodes, o.Most, o.Program = s.Nodes, s.MaxChildren, part.Program(s.Command, s.Args, s.Env, s.Dir, groups)
	case "a2a":
		w := conf.A2A.Workers[name]
		nodes, o.Most, o.Program = w.Nodes, w.Tasks, part.Program(w.Command, w.Args, w.Env, w.Dir, groups)
		o.Env = worker.Variables
	}
	if nodes != config.NodesAll {
		return nil, fmt.Errorf("node %s has no entry %.100q with nodes: %s", c.node, entry, config.NodesAll)
	}
	return o, nil
}

// errActive and errLeaving refuse programs.
var (
	errActive  = errors.New("this node does not stand by")
	errLeaving = errors.New("this node is about to end")
)

// run runs a program for the active node, as a passing.Work, while this one stands by.
func (c *Cluster) run(ctx context.Context, conn transport.Conn, s transport.Stream, request []byte, answer func(error) error) {
	c.mu.Lock()
	era, stands := c.era, c.stands
	c.mu.Unlock()
	switch {
	case c.passer.Leaving.Err() != nil:
		_ = answer(errLeaving)
		return
	case stands == nil || stands.Err() != nil:
		_ = answer(errActive)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(era, cancel)() // another node has become active
	defer context.AfterFunc(stands, cancel)()
	c.host.Serve(ctx, conn, s, request, answer)
}
