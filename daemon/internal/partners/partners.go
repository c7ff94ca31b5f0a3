// Package partners maintains the links to federation partners and offers the services of
// partners under local names.
package partners

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/daemon/internal/telemetry"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/internal/receipts"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Partners are the links to federation partners.
type Partners struct {
	part.Passive
	directory partner.Directory
	agents    *agdisc.Partners
	o         Options
	log       *zap.Logger
	audit     *zap.Logger
	refusals  *prometheus.CounterVec
	wrongs    *prometheus.CounterVec
	dialling  map[bool]*endpoint.Endpoint // for outgoing sessions; the key says whether they offer the error path
	dialled   part.Connections
	declared  atomic.Pointer[map[string]*policyhint.Target] // policy hints that the configuration declares, by partner

	mu     sync.Mutex
	conf   config.Partners // in force
	barred map[string]bar  // those that are not let in, by name
	dates  []string        // warnings that are in the log
	links  map[string]*partner.Link
	shut   bool

	captured map[string][]config.Captured // local names, by partner

	memory memory
}

// Options configure Partners.
type Options struct {
	Config      *config.Config
	Log         *zap.Logger
	Credentials *identity.Credentials
	Served      *served.Profiles
	Local       mcpmap.Backend                // the MCP servers of this endpoint
	Security    func(transport.SecurityEvent) // takes note of handshakes that failed

	// Endpoints makes the options of the endpoints for sessions that are dialled.
	Endpoints interface {
		Options(errorFrames bool) endpoint.Options
	}

	// Listeners are the endpoints for incoming sessions.
	Listeners interface{ Endpoints() []*endpoint.Endpoint }

	// Keeper closes connections that the access rules no longer allow.
	Keeper interface {
		Refuse(conn transport.Conn) error
		RecheckAll(open []transport.Conn) (kept, closed int)
		Audit(identity, profile, operation, name, why string)
	}

	// Drifted records that a partner lists a pinned tool with another descriptor now, or no more.
	Drifted func(partner, identity, tool string, gone bool)

	// Changed is called when a link has got a session. It must not block.
	Changed func()

	// Key is the secret of the pseudonyms of callers. It is kept for good.
	Key []byte

	// Records keep what partners are remembered to serve.
	Records store.Records

	// Taken is called when the partners change: a name that was local may now belong to a
	// partner.
	Taken func(config.Partners)

	// Stored returns stored names that begin with a prefix, by their kind.
	Stored func(ctx context.Context, prefix string) (map[string][]string, error)

	// Vouch is called when partners are in force: it records who vouches for them.
	Vouch func()

	// Forgotten is called when a partner was removed.
	Forgotten func(name string)

	// Removed is called with the identities that are no longer those of partners, to end what
	// they have under way.
	Removed func(identities []string)
}

// New opens no link.
func New(o Options) *Partners {
	return &Partners{
		o: o, log: o.Log.Named(boundlog.Session), conf: make(config.Partners), links: make(map[string]*partner.Link),
		dialling: make(map[bool]*endpoint.Endpoint), agents: agdisc.NewPartners(), audit: o.Log.Named(boundlog.Security), refusals: newRefusals(), wrongs: newWrongs(),
		memory: memory{records: o.Records, log: o.Log.Named(boundlog.Session), kept: make(map[string]partner.Remembered), versions: make(map[string]uint64), next: make(map[string][]byte)},
	}
}

// Directory finds the links by name.
func (p *Partners) Directory() *partner.Directory { return &p.directory }

// Split splits a name into the partner of its first segment and the rest.
func (p *Partners) Split(name string) (partner, rest string, ok bool) {
	link, rest, ok := p.directory.Split(name)
	if !ok {
		return "", "", false
	}
	return link.Name(), rest, true
}

// Has reports whether there is a partner of a name.
func (p *Partners) Has(name string) bool {
	_, _, ok := p.directory.Split(name + "/x")
	return ok
}

// Of returns the partner that the first segment of a name denotes.
func (p *Partners) Of(name string) (string, bool) {
	partner, _, ok := p.Split(name)
	return partner, ok
}

// Offer implements part.Part. It wraps the local backends, so that names of partners are
// looked up first.
func (p *Partners) Offer(o *all.Options) error {
	o.Partner, o.Partners, o.KnownAs = p.directory.Asked, p.directory.Names, p.directory.Told
	o.A2A.Refused, o.A2A.Wrong, o.A2A.Away = p.refusedTask, p.wrongTask, p.directory.Refusal
	o.MCP.Backend = &partner.Backend{
		Local: p.o.Local, Directory: &p.directory,
		Client: func(s profiles.Session) *mcpmap.Client { return p.o.Served.Set().MCP.Client(s) },
	}
	o.Hop, o.RPC.Toward = p.directory.Hop, p.directory.MethodAt
	o.AGDISC.Partners, o.AGDISC.Partner, o.AGDISC.Refresh = p.agents, p.directory.Knows, p.directory.RefreshAgents
	o.TOOLDISC.Partner, o.TOOLDISC.Partners, o.TOOLDISC.Withheld = p.directory.Knows, p.directory.RefreshTools, p.directory.Withholds
	o.Relay.Behind, o.Relay.Partner, o.Relay.Across = p.Split, p.directory.NameOf, p.directory.Across
	o.Relay.Wrong, o.Relay.Refused, o.Relay.Carries = p.wrongDelivery, p.refusedDelivery, p.directory.Carries
	o.Relay.Away = p.directory.Refusal
	local := o.RPC.Resolve
	o.RPC.Resolve = func(name string) (rpc.Method, bool) {
		if m, ok := local(name); ok {
			return m, true
		}
		return p.directory.Method(name)
	}
	return nil
}

// Target returns the policy hints that are declared for a partner.
func (p *Partners) Target(name string) (*policyhint.Target, bool) {
	declared := p.declared.Load()
	if declared == nil {
		return nil, false
	}
	target, ok := (*declared)[name]
	return target, ok
}

// apply replaces the partners. A link whose entry has not changed stays; a changed one is
// closed and opened again. The trust anchors of the partners must be loaded before. It returns
// the identities that are no longer those of partners.
func (p *Partners) apply(conf config.Partners) (gone []string) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	barred := make(map[string]bar)
	for name, c := range conf {
		if why := c.Barred(name, now); why != "" {
			barred[name] = bar{why, c.Over(now)}
		}
	}
	p.warn(conf.Dates(now))
	if p.shut || reflect.DeepEqual(conf, p.conf) && maps.Equal(barred, p.barred) {
		return nil
	}
	p.tell(barred)
	p.bound(conf)
	for name, link := range p.links {
		if now, ok := conf[name]; !ok || !sameLink(now, p.conf[name]) || barred[name] != p.barred[name] {
			link.Close()
			delete(p.links, name)
		}
	}
	var added []*partner.Link
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		if p.links[name] != nil {
			continue
		}
		o := p.options(name, conf[name])
		o.Barred, o.Over = barred[name].why, barred[name].over
		link, err := partner.New(o)
		if err != nil {
			p.log.Error("partner", zap.String("partner", name), zap.Error(err)) // cannot happen: the configuration was checked
			continue
		}
		p.links[name] = link
		added = append(added, link)
	}
	for name, link := range p.links {
		link.SetPinned(conf[name].Pinned)
	}
	removed := slices.DeleteFunc(slices.Collect(maps.Keys(p.conf)), func(name string) bool { return p.links[name] != nil })
	identities := conf.Identities()
	stay := slices.Collect(maps.Values(identities))
	for _, c := range p.conf {
		if !slices.Contains(stay, c.Identity) {
			gone = append(gone, c.Identity)
			p.memory.forget(c.Identity)
		}
	}
	p.conf, p.barred = maps.Clone(conf), barred
	declared := make(map[string]*policyhint.Target, len(conf))
	for name, c := range conf {
		declared[name] = c.Hints.Target()
	}
	p.declared.Store(&declared)
	p.directory.Set(slices.Collect(maps.Values(p.links)))
	p.o.Served.Set().A2A.SetPartners(identities)
	for _, link := range added {
		link.Start()
	}
	for _, name := range removed { // after the directory has changed, because counters look partners up there
		p.forget(name)
	}
	for _, ep := range p.o.Listeners.Endpoints() {
		for s := range ep.Sessions() { // a peer that is a partner now may have been connected before
			p.directory.Adopt(s)
		}
	}
	return gone
}

// bar is why a partner is not let in, and whether it is to come back.
type bar struct {
	why  string
	over bool
}

// warn logs the warnings of dates that are not in the log.
func (p *Partners) warn(dates []string) {
	for _, text := range dates {
		if !slices.Contains(p.dates, text) {
			p.o.Log.Warn(text)
		}
	}
	p.dates = dates
}

// tell logs the partners that are barred now, and those that are no longer.
func (p *Partners) tell(barred map[string]bar) {
	for _, name := range slices.Sorted(maps.Keys(barred)) {
		if p.barred[name].why != barred[name].why {
			p.o.Log.Warn("partner is not let in, and nothing is sent to it", zap.String("partner", name), zap.String("why", barred[name].why))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.barred)) {
		if barred[name].why == "" {
			p.o.Log.Info("partner is let in again", zap.String("partner", name))
		}
	}
}

// sameLink reports whether a link for entry a can stay for entry b.
func sameLink(a, b config.Partner) bool {
	b.Queue, b.Allow, b.NamedOnly, b.OwnsData, b.State, b.ValidUntil, b.ReviewBy, b.Pinned = a.Queue, a.Allow, a.NamedOnly, a.OwnsData, a.State, a.ValidUntil, a.ReviewBy, a.Pinned
	return reflect.DeepEqual(a, b)
}

// bound sets the limits of the queues of partners.
func (p *Partners) bound(conf config.Partners) {
	for name, c := range conf {
		if old, ok := p.conf[name]; ok && old.Queue == c.Queue {
			continue
		}
		p.o.Served.Set().Relay.Bound(name, int64(c.Queue.Messages), int64(c.Queue.Size), func(err error) {
			if err != nil {
				p.log.Error("the queue of a partner keeps its bound", zap.String("partner", name), zap.Error(err))
			}
		})
	}
}

// forget removes the counters of a partner that was removed.
func (p *Partners) forget(name string) {
	p.refusals.DeletePartialMatch(prometheus.Labels{"partner": name})
	p.wrongs.DeletePartialMatch(prometheus.Labels{"partner": name})
	p.o.Forgotten(name)
}

func (p *Partners) options(name string, c config.Partner) partner.Options {
	policy := &transport.Policy{Credentials: p.o.Credentials.Current, Expect: c.Identity}
	o := partner.Options{
		Name: name, Identity: c.Identity, Self: p.o.Credentials.Identity, DialFault: p.o.Credentials.DialFault,
		Dial: func(ctx context.Context, addr transport.Addr) (transport.Conn, error) {
			return p.dial(ctx, name, addr, policy)
		},
		Attach: func(conn transport.Conn) *endpoint.Session {
			return p.dialling[c.ErrorFrames].Attach(conn)
		},
		Remembered: p.memory.load(c.Identity), Remember: func(kept partner.Remembered) { p.memory.save(c.Identity, kept) },
		Trace:     crosses[c.Trace],
		Tell:      tells[c.Tell],
		Pseudonym: func(caller string) string { return p.pseudonym(c.Identity, caller) },
		Carrier:   p.o.Served,
		Tasks:     p.o.Served.Set().A2A, Deliveries: p.o.Served.Set().Relay, Chains: p.o.Served.Set().Cred,
		Agents: p.agents, Tools: p.o.Served.Set().TOOLDISC,
		Observe: p.observe, Refused: p.refused, Wrong: p.wrong, Denied: p.o.Keeper.Audit, Drifted: func(tool string, gone bool) { p.drifted(name, c.Identity, tool, gone) }, InFlight: c.InFlight, Ending: p.o.Credentials.Ends,
	}
	for _, a := range c.Addresses {
		o.Addresses = append(o.Addresses, a.Addr)
	}
	for _, profile := range served.Tables(nil) {
		if slices.Contains(c.Profiles, profile.Name) {
			o.Profiles = append(o.Profiles, profile.ID)
		}
	}
	if c.Extensions {
		o.Extensions = map[uint64][]uint64{
			mcpmap.ProfileID: {mcpmap.ExtTarget, mcpmap.ExtSession},
			a2a.ProfileID:    {a2a.ExtAgent},
		}
	}
	return o
}

var crosses = map[string]partner.Trace{
	config.TraceParent: partner.TraceParent, config.TraceFull: partner.TraceFull, config.TraceNone: partner.TraceNone,
}

var tells = map[string]partner.Tell{
	config.TellNone: partner.TellNone, config.TellPseudonym: partner.TellPseudonym, config.TellCaller: partner.TellCaller,
}

// Pseudonym begins pseudonyms of callers.
const Pseudonym = "pseudonym:"

// pseudonym returns the pseudonym of a caller for a partner. It is the same each time, and
// another one for another partner.
func (p *Partners) pseudonym(partner, caller string) string {
	h := hmac.New(sha256.New, p.o.Key)
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(partner)))) // never fails
	_, _ = h.Write([]byte(partner + caller))
	return Pseudonym + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// dial connects to a partner unless the access rules deny its identity.
func (p *Partners) dial(ctx context.Context, name string, addr transport.Addr, policy *transport.Policy) (conn transport.Conn, err error) {
	security := func(ev transport.SecurityEvent) {
		ev.Err = p.o.Credentials.Dialled(name, policy.Expect, ev.Err)
		p.o.Security(ev)
	}
	if addr.Transport == "quic" {
		conn, err = quicconn.Dial(ctx, addr.HostPort(), policy, quicconn.Options{OnSecurity: security})
	} else {
		conn, err = tlsconn.Dial(ctx, addr.HostPort(), policy, tlsconn.Options{OnSecurity: security})
	}
	if err == nil {
		err = p.dialled.Admit(conn, p.o.Keeper.Refuse)
	}
	if err != nil {
		return nil, p.o.Credentials.Dialled(name, policy.Expect, err)
	}
	return conn, nil
}

// InFlight implements endpoint.Options.InFlightOf: a link carries the exchanges of many
// peers, so its limit is higher.
func (p *Partners) InFlight(identity string) int { return p.directory.InFlight(identity) }

// observe logs what happens to links.
func (p *Partners) observe(e partner.Event) {
	fields := []zap.Field{zap.String("partner", e.Name)}
	if e.Up != nil {
		peer := e.Up.Session.Peer()
		fields = append(fields, zap.Uint64("session", e.Up.Session.ID()), zap.Bool("dialled", e.Up.Dialled),
			zap.String("transport", peer.Transport), zap.String("addr", peer.Addr))
	}
	switch e.What {
	case partner.Connected:
		p.log.Info("partner connected", fields...)
		p.o.Changed()
	case partner.Lost:
		p.log.Warn("partner disconnected", append(fields, zap.NamedError("cause", e.Err))...)
	case partner.Failed:
		p.log.Warn("partner not reached", append(fields, zap.Error(e.Err))...)
	case partner.Crowded:
		streams := e.Up.Session.Streams()
		p.log.Warn("partner has few streams left", append(fields,
			zap.Int("streams", streams.Used), zap.Int("limit", streams.Capacity), zap.Any("callers", streams.Most))...)
	}
}

// Open implements part.Part. Outgoing sessions have separate limits, so that many
// incoming peers cannot keep a partner from being reached.
func (p *Partners) Open() error {
	for _, errorFrames := range []bool{false, true} {
		ep, err := endpoint.New(p.o.Endpoints.Options(errorFrames))
		if err != nil {
			return err
		}
		p.dialling[errorFrames] = ep
	}
	return nil
}

// Endpoints implements part.Part.
func (p *Partners) Endpoints() []*endpoint.Endpoint { return slices.Collect(maps.Values(p.dialling)) }

// Opened implements part.Part. The names of partners are reserved before the first peer
// connects.
func (p *Partners) Opened() {
	p.capture(p.o.Config)
	p.o.Vouch()
	p.apply(p.o.Config.Partners)
}

// Recheck implements part.Part.
func (p *Partners) Recheck() (kept, closed int) { return p.o.Keeper.RecheckAll(p.dialled.List()) }

// Retire implements part.Part: the links end. Their sessions are drained with the
// endpoints.
func (p *Partners) Retire() {
	p.mu.Lock()
	p.shut = true
	links := slices.Collect(maps.Values(p.links))
	p.mu.Unlock()
	for _, link := range links {
		link.Drain()
		link.Close()
	}
}

// PinnedTool is a tool of a partner.
type PinnedTool = partner.PinnedTool

// States of a PinnedTool.
const (
	Unpinned = partner.Unpinned
	Pinned   = partner.Pinned
	Changed  = partner.Changed
	Gone     = partner.Gone
	Unread   = partner.Unread
)

// Status is the state of a link and of the queue for the partner.
type Status struct {
	partner.Status
	Queue Queue `json:"queue"`

	Bundle *identity.BundleStatus `json:"bundle,omitempty"` // nil: the trust of the partner is in files
}

// Queue describes the deliveries that wait for a partner.
type Queue struct {
	Messages int64 `json:"messages"`
	Octets   int64 `json:"octets"`

	// Held is why the partner, which is connected, does not accept deliveries now; nil if it
	// does, as far as is known.
	Held *Held `json:"held,omitempty"`
}

// Held is what a partner has answered to a delivery that waits.
type Held struct {
	Topic string `json:"topic"`
	relay.Refusal
}

// Status returns the state of each link, by name.
func (p *Partners) Status() []Status {
	list := []Status{} // not nil: JSON would show null
	for _, link := range p.directory.Links() {
		s := Status{Status: link.Status(), Bundle: p.o.Credentials.BundleOf(link.Name())}
		s.Failure = boundlog.Clean(s.Failure)
		deliveries := p.o.Served.Set().Relay
		s.Queue.Messages, s.Queue.Octets = deliveries.Waiting(link.Name())
		if topic, why, ok := deliveries.Obstacle(link.Name()); ok && s.Queue.Messages > 0 {
			why.Message = boundlog.Clean(why.Message)
			s.Queue.Held = &Held{topic, why}
		}
		list = append(list, s)
	}
	return list
}

// Receipts returns the links and whether their partners exchange receipts.
func (p *Partners) Receipts() (list []receipts.Partner) {
	for _, link := range p.directory.Links() {
		one := receipts.Partner{Name: link.Name(), Identity: link.Identity()}
		switch s, listed, asked := link.Lists(rpc.MethodReceipt); {
		case listed:
			one.Session, one.Offer = s, receipts.Listed
		case asked:
			one.Offer = receipts.Absent
		case s != nil:
			one.Offer = receipts.Silent
		}
		list = append(list, one)
	}
	return list
}

// Look implements part.Part.
func (p *Partners) Look(h *part.Health) {
	p.mu.Lock()
	conf := p.conf
	p.mu.Unlock()
	h.Warn(conf.Terms(time.Now())...)
	p.lookLinks(h)
	p.drifts(h)
	h.Warn(p.expiries()...)
	p.captures(h)
}

// drifts warns of the pinned tools that have changed or are gone.
func (p *Partners) drifts(h *part.Health) {
	for _, link := range p.directory.Links() {
		if s := link.Status(); len(s.Drifted) > 0 {
			h.WarnWith(fmt.Sprintf("pinned tools of partner %s have changed or are gone, so calls of them are refused: swpd partner pin %s shows them (%d)", s.Name, s.Name, len(s.Drifted)),
				": "+boundlog.Clean(strings.Join(s.Drifted, ", ")))
		}
	}
}

// lookLinks warns of the partners that are not connected, or cannot be told of callers.
func (p *Partners) lookLinks(h *part.Health) {
	for _, s := range p.Status() {
		if s.Barred != "" {
			continue // Terms says so
		}
		if s.Untold {
			h.Warn(fmt.Sprintf("partner %s cannot be told who calls, because it does not list extension 51: all callers are one to it", s.Name))
		}
		if held := s.Queue.Held; held != nil {
			h.WarnWith(fmt.Sprintf("partner %s accepts no deliveries of a topic now", s.Name), fmt.Sprintf(": %s: %s: %s", boundlog.Clean(held.Topic), held.Code, held.Message))
		}
		if s.Up {
			continue
		}
		why := s.Failure
		if why == "" {
			why = "it has not connected yet"
		}
		h.Warn(fmt.Sprintf("partner %s is away since %s: %s", s.Name, s.Since.UTC().Format(time.RFC3339), why))
	}
}

// expiries lists the partners whose last certificate expires soon.
func (p *Partners) expiries() []string {
	var list []string
	now := p.o.Credentials.Now()
	for _, s := range p.Status() {
		if s.Seen != nil && p.o.Credentials.Ends(s.Seen) {
			list = append(list, fmt.Sprintf("partner %s: the certificate that it showed last %s; the partner has to renew it", s.Name, identity.End(s.NotAfter, now)))
		}
	}
	return list
}

// Shown describes the last certificate of each partner.
func (p *Partners) Shown() (list []certinfo.Info) {
	for _, s := range p.Status() {
		if s.Seen != nil {
			list = append(list, certinfo.Info{
				File: "shown by partner " + s.Name, Identity: s.Seen.Identity, Subject: s.Seen.Subject, Issuer: s.Seen.Issuer,
				NotBefore: s.Seen.NotBefore, NotAfter: s.Seen.NotAfter, Fingerprint: s.Seen.Fingerprint,
			})
		}
	}
	return list
}

// Section is the reloadable part of the configuration: the links and the trust bundles of
// partners. bundles is Credentials.BundlesState, for Credentials that are made later.
func Section(prepare part.Prepare, bundles func() string) part.Section {
	return part.Section{
		Name: "partners", Stays: "the old ones stay", Keys: []string{"partners"}, Files: identity.BundleFiles, Prepare: prepare,
		// It also changes when a partner ends by its date, and when a warning of a date begins.
		State: func(c *config.Config) string {
			return strings.Join(c.Partners.Terms(time.Now()), "\n") + bundles()
		},
	}
}

// Prepare reads the trust bundles of the partners. The links change after connected peers
// were checked against these bundles.
func (p *Partners) Prepare(c *config.Config) (part.Change, error) {
	commit, err := p.o.Credentials.PrepareBundles(c.Partners)
	if err != nil {
		return part.Change{}, err
	}
	return part.Change{
		Fields: []zap.Field{zap.Int("partners", len(c.Partners))},
		Commit: commit,
		Then: func() {
			p.o.Taken(c.Partners)
			p.capture(c)
			p.o.Vouch()
			if gone := p.apply(c.Partners); len(gone) > 0 {
				p.o.Removed(gone)
			}
		},
	}, nil
}

var (
	partnerUp       = prometheus.NewDesc("swpd_partner_up", "1 while there is a session to the partner.", []string{"partner"}, nil)
	partnerConnects = prometheus.NewDesc("swpd_partner_connects_total", "Sessions to the partner that carried something.", []string{"partner"}, nil)
	partnerFailures = prometheus.NewDesc("swpd_partner_failures_total", "Rounds in which no address of the partner answered.", []string{"partner"}, nil)
	partnerRefused  = prometheus.NewDesc("swpd_partner_refused", "1 while the partner refuses this endpoint, by the cause that it has said.", []string{"partner", "cause"}, nil)
	partnerQueue    = prometheus.NewDesc("swpd_partner_queue_messages", "Deliveries that wait for the partner.", []string{"partner"}, nil)
	partnerOctets   = prometheus.NewDesc("swpd_partner_queue_bytes", "Octets of them.", []string{"partner"}, nil)
	partnerDrift    = prometheus.NewDesc("swpd_partner_tools_drifted", "Pinned tools that the partner lists with another descriptor now, or no more.", []string{"partner"}, nil)
	partnerStreams  = prometheus.NewDesc("swpd_partner_streams", "Streams to the partner in use.", []string{"partner"}, nil)
	partnerPermits  = prometheus.NewDesc("swpd_partner_streams_limit", "Streams that the partner permits; without the series there is no bound.", []string{"partner"}, nil)
	partnerExpiry   = prometheus.NewDesc("swpd_partner_certificate_expiry_timestamp_seconds", "When the certificate ends that the partner showed last.", []string{"partner"}, nil)
)

// Collectors implements part.Part.
func (p *Partners) Collectors() []prometheus.Collector {
	return []prometheus.Collector{p}
}

// Describe implements prometheus.Collector. Label values are names from the configuration.
func (p *Partners) Describe(ch chan<- *prometheus.Desc) {
	ch <- partnerUp
	ch <- partnerConnects
	ch <- partnerFailures
	ch <- partnerRefused
	ch <- partnerQueue
	ch <- partnerOctets
	ch <- partnerDrift
	ch <- partnerStreams
	ch <- partnerPermits
	ch <- partnerExpiry
	p.refusals.Describe(ch)
	p.wrongs.Describe(ch)
}

// Collect implements prometheus.Collector.
func (p *Partners) Collect(ch chan<- prometheus.Metric) {
	for _, s := range p.Status() {
		up := 0.0
		if s.Up {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(partnerUp, prometheus.GaugeValue, up, s.Name)
		ch <- prometheus.MustNewConstMetric(partnerConnects, prometheus.CounterValue, float64(s.Connects), s.Name)
		ch <- prometheus.MustNewConstMetric(partnerFailures, prometheus.CounterValue, float64(s.Failures), s.Name)
		if s.Cause != "" {
			ch <- prometheus.MustNewConstMetric(partnerRefused, prometheus.GaugeValue, 1, s.Name, s.Cause)
		}
		ch <- prometheus.MustNewConstMetric(partnerQueue, prometheus.GaugeValue, float64(s.Queue.Messages), s.Name)
		ch <- prometheus.MustNewConstMetric(partnerDrift, prometheus.GaugeValue, float64(len(s.Drifted)), s.Name)
		ch <- prometheus.MustNewConstMetric(partnerOctets, prometheus.GaugeValue, float64(s.Queue.Octets), s.Name)
		if s.Streams != nil {
			ch <- prometheus.MustNewConstMetric(partnerStreams, prometheus.GaugeValue, float64(s.Streams.Used), s.Name)
			ch <- prometheus.MustNewConstMetric(partnerPermits, prometheus.GaugeValue, float64(s.Streams.Capacity), s.Name)
		}
		if s.Seen != nil {
			ch <- identity.Expiry(partnerExpiry, s.Seen.NotAfter, s.Name)
		}
	}
	p.refusals.Collect(ch)
	p.wrongs.Collect(ch)
}

// Adopting returns an Observer that forwards to o and hands the sessions of partners to
// their links.
func (p *Partners) Adopting(o *telemetry.Observer) endpoint.Observer {
	return adopting{o, &p.directory}
}

type adopting struct {
	*telemetry.Observer
	directory *partner.Directory
}

// Opened implements endpoint.Observer.
func (a adopting) Opened(s *endpoint.Session) {
	a.Observer.Opened(s)
	a.directory.Adopt(s)
}
