package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/effort"
)

// TestST01FederationWithEveryProcessKilledAndTheLinkCutNothingAcknowledgedIsLost has two
// organisations use each other's relay, events, states, artifacts, agents, methods and
// tools, and kills every process and disturbs the link at random moments. What each
// process did is in a journal of its own; history.judge holds them against the contract, and
// judgeTrails against the audit trails of both.
func TestST01FederationWithEveryProcessKilledAndTheLinkCutNothingAcknowledgedIsLost(t *testing.T) {
	sown(t)
	d := 20 * time.Second
	if os.Getenv("SWP_CRASH") != "" {
		d = howLong(t)
	} else {
		effort.Release(t)
	}
	f := newFederation(t)
	f.suffer(t, d)
	f.settle(t)
	f.report(t)
}

// federation is two organisations, each with what the other one uses.
type federation struct {
	*faults
	dir  string
	orgs [2]*organisation
	uses [2]*use

	mu       sync.Mutex
	troubles []span
	done     map[string]int // what was killed or disturbed, and how often
	began    time.Time
}

// organisation is a swpd, and the route to it.
type organisation struct {
	*rig
	name, identity string
	route          *route

	turn sync.Mutex // of who kills it
}

// use is what one organisation uses of another: the processes at both ends.
type use struct {
	from, of *organisation
	journals string
	all      []*series
}

// perUse is how many processes of a role there are in each direction.
var perUse = []struct {
	role  string
	there bool // at the organisation whose resources are used
	n     int
}{
	{roleExecutor, true, 1}, {roleConsumer, true, 2}, {rolePublisher, false, 2},
	{roleGiver, false, 2}, {roleTaker, false, 2}, {roleTaker, true, 1}, {roleCaller, false, 2},
}

// auditConfig has both ends keep all that they record, with what tells which record of one is
// which of the other.
const auditConfig = "audit: {receipts: true, size: 1TiB}\n"

func newFederation(t *testing.T) *federation {
	t.Helper()
	f := &federation{faults: new(faults), dir: keptDir(t, "federation"), done: make(map[string]int)}
	for i, name := range []string{"acme", "beta"} {
		o := &organisation{name: name, identity: "spiffe://" + name + ".example/swpd"}
		o.route = newRoute(t, func(scheme string) string { return addresses(filepath.Join(f.dir, name))[scheme] })
		f.orgs[i] = o
	}
	for i, o := range f.orgs {
		f.uses[i] = &use{from: o, of: f.orgs[1-i], journals: filepath.Join(f.dir, o.name+"-at-"+f.orgs[1-i].name)}
		if err := errors.Join(os.MkdirAll(exchangesIn(filepath.Join(f.dir, o.name)), 0o700), os.Mkdir(f.uses[i].journals, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	for i, o := range f.orgs {
		other := f.orgs[1-i]
		partner := fmt.Sprintf("partners: {%s: {identity: %q, trust: [%q], addresses: [%s]}}\n",
			other.name, other.identity, filepath.Join(f.dir, other.name, "pki", "ca.crt"), other.route.addresses())
		dir := filepath.Join(f.dir, o.name)
		o.rig = newRigOf(t, dir, devpki.Options{Name: o.identity}, filepath.Join(dir, "data"), relayConfig()+workConfig(t, f.uses[1-i].journals)+partner+auditConfig)
		j, err := openJournal(exchangesIn(dir), auditor)
		if err != nil {
			t.Fatal(err)
		}
		o.opened = &exchanges{j}
	}
	var starting sync.WaitGroup
	for _, o := range f.orgs { // each needs the authority of the other
		starting.Go(func() {
			if _, err := o.start(); err != nil {
				f.add("%v", err)
			}
		})
	}
	starting.Wait()
	for _, o := range f.orgs {
		if err := o.linked(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range f.uses {
		u.begin(t, f)
	}
	f.began = time.Now()
	return f
}

// linked waits until the link to the partner is up.
func (o *organisation) linked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		var status struct{ Partners []struct{ Up bool } }
		token, _ := os.ReadFile(filepath.Join(o.dir, "data", "admin.token")) // empty: refused, and asked again
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, addresses(o.dir)[adminScheme]+"/status", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&status)
			_ = res.Body.Close()
		}
		switch {
		case err == nil && len(status.Partners) == 1 && status.Partners[0].Up:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("crash: %s is not linked after %v (%v): %s", o.name, startPatience, err, o.log)
		}
		wait(ctx, retryPause)
	}
}

// begin starts the processes, those that carry out tasks first.
func (u *use) begin(t *testing.T, f *federation) {
	t.Helper()
	number := make(map[string]int)
	for _, of := range perUse {
		for range of.n {
			p := post{Role: of.role, Number: number[of.role], Rig: u.from.dir, Via: u.of.name, Journals: u.journals}
			if of.there {
				p.Rig, p.Via = u.of.dir, ""
			}
			p.Exchanges = exchangesIn(p.Rig)
			number[of.role]++
			s := newSeries(p)
			if err := s.start(); err != nil {
				t.Fatal(err)
			}
			u.all = append(u.all, s)
			t.Cleanup(func() { _ = s.cmd.Process.Kill() })
		}
		if of.role != roleExecutor {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), startPatience)
		defer cancel()
		if err := awaitExecutor(ctx, u.journals); err != nil {
			t.Fatal(err)
		}
	}
}

// did counts something that was killed or disturbed.
func (f *federation) did(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done[what]++
}

// trouble notes that a swpd was dead, or the link disturbed, from a time until now.
func (f *federation) trouble(from int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.troubles = append(f.troubles, span{from, clock()})
}

// blow is something that is killed or disturbed.
type blow func(ctx context.Context, luck *rand.Rand)

// blows are all that there are: each process, and each fault of each route.
func (f *federation) blows() (list []blow) {
	for _, o := range f.orgs {
		list = append(list, func(ctx context.Context, luck *rand.Rand) { f.killOrganisation(ctx, o, luck) })
		for _, fault := range allFaults {
			list = append(list, func(ctx context.Context, luck *rand.Rand) { f.disturb(ctx, o, fault, luck) })
		}
	}
	for _, u := range f.uses {
		for _, s := range u.all {
			list = append(list, func(context.Context, *rand.Rand) {
				f.did(s.Role + " killed")
				if err := s.again(); err != nil {
					f.add("%v", err)
				}
			})
		}
	}
	return list
}

// killOrganisation kills a swpd, leaves it dead for a while, and starts it again, perhaps
// after some starts that it does not survive. The next link comes over the other transport.
func (f *federation) killOrganisation(ctx context.Context, o *organisation, luck *rand.Rand) {
	o.turn.Lock()
	defer o.turn.Unlock()
	from := clock()
	o.kill()
	f.did("swpd killed")
	for _, o := range f.orgs {
		o.route.turnOver()
	}
	if luck.IntN(4) == 0 {
		f.did("swpd killed while it starts")
		o.killWhileStarting(1+luck.IntN(2), luck)
	}
	wait(ctx, upTo(luck, 2*time.Second))
	if _, err := o.start(); err != nil {
		f.add("%s: %v", o.name, err)
	}
	f.trouble(from)
}

// disturb has a fault on the way to an organisation for a while; some whiles are longer than
// what waits for a link.
func (f *federation) disturb(ctx context.Context, o *organisation, what fault, luck *rand.Rand) {
	from, lasting := clock(), 100*time.Millisecond+upTo(luck, 2*time.Second)
	if luck.IntN(10) == 0 {
		lasting += 6 * time.Second
	}
	o.route.disturb(what)
	wait(ctx, lasting)
	o.route.disturb(quiet)
	f.did("link " + string(what))
	f.trouble(from)
}

// suffer strikes each blow once, in any order, and then more until time is up and the link
// has come by TLS and by QUIC. It returns when work of every kind has ended. Some blows last
// while others come.
func (f *federation) suffer(t *testing.T, d time.Duration) {
	t.Helper()
	luck, blows := chances("blows"), f.blows()
	once := luck.Perm(len(blows))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var striking sync.WaitGroup
	busy := make([]sync.Mutex, len(blows))
	told := time.Now()
	for n := 0; n < len(blows) || time.Since(f.began) < d || len(f.carried()) < 2; n++ {
		i := luck.IntN(len(blows))
		if n < len(blows) {
			i = once[n]
		}
		own := rand.New(rand.NewPCG(luck.Uint64(), 0)) //nolint:gosec // choices of a test
		striking.Go(func() {
			busy[i].Lock()
			defer busy[i].Unlock()
			blows[i](ctx, own)
		})
		wait(ctx, 100*time.Millisecond+upTo(luck, 700*time.Millisecond))
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			t.Logf("%v of %v: %s", time.Since(f.began).Round(time.Second), d, f.counted())
		}
	}
	striking.Wait()
	for _, u := range f.uses {
		if err := awaitAll(t.Context(), u.journals); err != nil {
			f.add("%s: %v", u.journals, err)
		}
	}
	t.Logf("%v: %s", time.Since(f.began).Round(time.Second), f.counted())
}

func (f *federation) counted() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%s; links carried %s", counts(f.done), counts(f.carried()))
}

// carried is how many connections and flows there were between the two, by scheme.
func (f *federation) carried() map[string]int {
	all := make(map[string]int)
	for _, o := range f.orgs {
		o.route.mu.Lock()
		for scheme, n := range o.route.carried {
			all[scheme] += n
		}
		o.route.mu.Unlock()
	}
	return all
}

// settle has what is left done while nothing is killed any more, and judges what happened.
func (f *federation) settle(t *testing.T) {
	t.Helper()
	calm := clock()
	f.end(rolePublisher, roleGiver, roleCaller)
	dead := make([]map[string]grave, len(f.uses))
	var all sync.WaitGroup
	for i, u := range f.uses {
		all.Go(func() {
			var err error
			to := hop{u.of.name, clientOf(u.from.name)}
			if dead[i], err = drain(t.Context(), u.journals, u.from.dial, to); err != nil {
				f.add("%s: deliveries: %v", u.journals, err)
			}
		})
		all.Go(func() {
			p := post{Rig: u.from.dir, Journals: u.journals, Via: u.of.name, Number: 1}
			if err := inspect(t.Context(), p, u.from.as); err != nil {
				f.add("%s: %v", u.journals, err)
			}
		})
	}
	all.Wait()
	f.end(roleConsumer, roleTaker, roleExecutor)
	for i, u := range f.uses {
		known := history{relays: u.of.past(), troubles: f.troubles, dead: dead[i], calm: calm, kills: make(map[string]span)}
		for _, s := range u.all {
			maps.Copy(known.kills, s.kills)
		}
		what := filepath.Base(u.journals)
		figures, err := verdict(u.journals, known, func(format string, args ...any) { f.add(what+": "+format, args...) })
		if err != nil {
			f.add("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, figures)
	}
	for _, o := range f.orgs {
		o.kill()
		for _, line := range o.log.panics {
			f.add("%s: %s", o.name, line)
		}
	}
	if err := f.judgeTrails(t); err != nil {
		f.add("the audit trails: %v", err)
	}
}

// judgeTrails holds the audit trails of both ends against each other, and against the journals.
func (f *federation) judgeTrails(t *testing.T) error {
	t.Helper()
	trails := make(map[*organisation]*trail)
	for i, o := range f.orgs {
		tr, err := readTrail(t.Context(), trail{name: o.name, identity: o.identity}, f.orgs[1-i].identity, o.dir, f.add)
		if err != nil {
			return err
		}
		n, err := readNoted(exchangesIn(o.dir))
		if err != nil {
			return err
		}
		judgeNear(n, tr, f.add)
		trails[o] = tr
		t.Logf("%s has records of %d exchanges of clients, of %d at the partner and %d of it", o.name, len(tr.clients), len(tr.sent), len(tr.partner))
	}
	for _, u := range f.uses {
		h, err := readAll(u.journals)
		if err != nil {
			return err
		}
		near, far := trails[u.from], trails[u.of]
		judgeLink(near, far, livedIn(u.from.past()), livedIn(u.of.past()), f.add)
		judgeErrands(h, near, far, f.add)
	}
	return nil
}

// clientOf is the identity of the clients of an organisation.
func clientOf(name string) string { return "spiffe://" + name + ".example/swp-client" }

// end kills the processes of some roles for good.
func (f *federation) end(roles ...string) {
	for _, u := range f.uses {
		for _, s := range u.all {
			if !slices.Contains(roles, s.Role) {
				continue
			}
			if err := s.kill(); err != nil {
				f.add("%v", err)
			}
		}
	}
}
