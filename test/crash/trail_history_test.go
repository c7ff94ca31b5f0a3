package crash

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/audit"
)

// record is one of an audit trail, with what only a judge looks at.
type record struct {
	audit.Entry
	Trace   string `json:"trace.id"`
	Session uint64 `json:"swp.session"`

	life int // of the swpd that wrote it, from 1
}

// trail is all that the audit trail of an organisation says of exchanges that have ended.
type trail struct {
	name, identity string
	clients        []record // that its clients opened
	partner        []record // that its partner opened
	sent           []record // that it opened at the partner
	findings       []record
}

// take takes in a record. partner is the identity of the partner.
func (tr *trail) take(r record, partner string) {
	switch {
	case r.Finding():
		tr.findings = append(tr.findings, r)
	case r.Sent():
		tr.sent = append(tr.sent, r)
	case !r.Exchange() || r.Begins():
	case r.Identity == partner:
		tr.partner = append(tr.partner, r)
	default:
		tr.clients = append(tr.clients, r)
	}
}

// readTrail verifies the trail of a rig in a directory, and reads it.
func readTrail(ctx context.Context, of trail, partner, dir string, wrong func(string, ...any)) (*trail, error) {
	ca, dir := filepath.Join(dir, "pki", "ca.crt"), filepath.Join(dir, "data", "audit")
	pem, err := os.ReadFile(ca)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		return nil, cmp.Or(err, errors.New("crash: no certificate in "+ca))
	}
	result, err := audit.Verify(ctx, audit.Verification{
		Dir: dir, Trust: audit.TrustOf(of.identity, roots),
		Found: func(f audit.Finding) { wrong("%s: segment %d, line %d: %s", of.name, f.Segment, f.Line, f.Text) },
	})
	if err != nil {
		return nil, err
	}
	if result.Proven == 0 {
		wrong("%s: nothing of %d records is proven", of.name, result.Records)
	}
	life := 0
	for e, err := range audit.Entries(ctx, dir, false) {
		if err != nil {
			return nil, err
		}
		r := record{Entry: *e}
		if err := json.Unmarshal(e.Line, &r); err != nil {
			return nil, err
		}
		if r.Action == "start" {
			life++
		}
		r.Line, r.life = nil, life
		of.take(r, partner)
	}
	return &of, nil
}

// noted is what clients have noted of their exchanges.
type noted struct {
	opened   map[string]bool     // digests of requests
	parts    map[string]bool     // those that need no record
	answered map[[2]string]times // by the digests of request and answer
}

// times says how often there was something of a type.
type times struct {
	n   int
	typ string
}

func newNoted() *noted {
	return &noted{opened: make(map[string]bool), parts: make(map[string]bool), answered: make(map[[2]string]times)}
}

func (n *noted) take(e *entry) {
	switch e.What {
	case didOpen:
		n.opened[e.Payload] = true
		n.parts[e.Payload] = n.parts[e.Payload] || e.Kind == aPart
	case wasClosed:
		key := [2]string{e.Payload, e.Text}
		n.answered[key] = times{n.answered[key].n + 1, e.Topic}
	}
}

// readNoted reads what all clients of an organisation have noted.
func readNoted(dir string) (*noted, error) {
	names, err := journals(dir)
	n := newNoted()
	for _, name := range names {
		err = errors.Join(err, readJournal(dir, name, n.take))
	}
	return n, err
}

// errand is what a record is about, the same at both ends: of a task or a call its trace.
type errand struct{ what, of string }

// errandOf returns the errand of a record; false if journals know no such thing. via is the
// partner that the name begins with at the near end.
func errandOf(r *record, via string) (e errand, ok bool) {
	name := strings.TrimPrefix(r.Name, via+"/")
	switch e = (errand{r.Profile + " " + r.Operation, name}); e.what {
	case traced[aTask], traced[aToolCall]:
		e.of = r.Trace
		return e, true
	case traced[aCall]:
		e.of = r.Trace
		return e, name == method
	case uploads, "artifact offer": // what is there already needs no chunk
		e.what = uploads
		return e, true
	case gets, puts, deltas, publishes, relays:
		return e, true
	}
	return e, false
}

// The errands of the kinds of work. That of an upload stands for its offer, too.
const (
	uploads   = "artifact chunk"
	gets      = "artifact get"
	puts      = "state put"
	deltas    = "state delta"
	publishes = "events publish"
	relays    = "relay publish"
)

var traced = map[string]string{aTask: "a2a task", aCall: "rpc call", aToolCall: "mcp tools/call"}

// errands returns how many records with the outcome ok there have to be of each errand at
// both ends, at least. One that is not in it has no reason.
func (h *history) errands() map[errand]int {
	least := make(map[errand]int)
	may := func(what, of string, done bool) {
		least[errand{what, of}] += 0
		if done {
			least[errand{what, of}]++
		}
	}
	for _, w := range h.works.works {
		done := len(w.ended) > 0 && w.ended[0].text == endOK
		switch {
		case len(w.begun) == 0:
		case w.kind == anArtifact:
			may(uploads, w.id, done)
			may(gets, w.id, done) // in the end somebody has looked
		default:
			may(traced[w.kind], traceOf(w.kind, w.id), done)
		}
	}
	for _, n := range h.numbered {
		switch n.kind {
		case anEvent:
			least[errand{publishes, countType}] += int(n.acked)
		case aState:
			changed := uint64(0)
			if of := h.numbered[aDelta+" "+n.id]; of != nil {
				changed = of.acked
			}
			for i := uint64(1); i <= n.most(); i++ {
				id := grown(n.id, i).ID
				may(puts, hex.EncodeToString(id[:]), i <= n.acked)
				may(deltas, hex.EncodeToString(id[:]), i <= changed && i%deltaEvery == 0)
			}
		}
	}
	for id, d := range h.deliveries {
		may(relays, parcel{id: id}.topic(), d.custody && len(d.attempts) > 0 && plan(id) != brief) // which may expire before the partner is heard
	}
	return least
}

// lived is when a swpd ran, by the clock of the trails.
type lived struct{ from, killed time.Time }

// livedIn turns the lives of a rig into times of its trail.
func livedIn(past []life) (list []lived) {
	zero := time.Now().Add(-time.Duration(clock()))
	for _, l := range past {
		list = append(list, lived{zero.Add(time.Duration(l.from)), zero.Add(time.Duration(l.killed.to))})
	}
	return list
}
