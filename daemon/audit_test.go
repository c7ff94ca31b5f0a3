package daemon

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
)

// recorded is what a test looks at in a record.
type recorded struct {
	audit.Entry
	Request   string `json:"swp.request.sha256"`
	Answer    string `json:"swp.answer.sha256"`
	Transport string `json:"swp.transport"`
	Chain     string `json:"swp.chain"`
	Hints     string `json:"swp.hints"`
}

// trail returns the records of exchanges.
func (r *running) trail() (all []recorded) {
	r.t.Helper()
	for e, err := range audit.Entries(r.t.Context(), filepath.Join(r.dir, "data", "audit"), false) {
		if err != nil {
			r.t.Fatal(err)
		}
		if !e.Exchange() {
			continue
		}
		var got recorded
		if err := json.Unmarshal(e.Line, &got); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, got)
	}
	return all
}

// verified verifies the trail of an organisation that has stopped.
func (o *organisation) verified() {
	o.t.Helper()
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(o.ca())
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		o.t.Fatal(err)
	}
	result, err := audit.Verify(o.t.Context(), audit.Verification{
		Dir: filepath.Join(o.dir, "data", "audit"), Trust: audit.TrustOf(o.identity, roots),
		Found: func(f audit.Finding) { o.t.Errorf("%s: %+v", o.name, f) },
	})
	if err != nil || result.Proven+1 != result.Last {
		o.t.Errorf("%s: %+v, %v", o.name, result, err)
	}
}

func TestEachExchangeIsInTheTrailOfBothEnds(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport,
			"access: {rules: [{identity: 'spiffe://a.example/**', profile: [mcp, rpc], name: ['b/modern/**', 'b/secret']}]}\n",
			"access: {rules: [{identity: 'spiffe://a.example/swpd', profile: mcp, name: 'modern/**'}]}\n"+modernYAML(t))
		a, b := row[0], row[1]
		s := a.mustDial(a.addrs[transport])
		s.mustAsk(t, "b/modern", modernCall)
		if _, err := rpc.Call(t.Context(), s.Session, "b/secret", nil); err == nil {
			t.Error("b allowed what it denies")
		}
		if _, err := rpc.Call(t.Context(), s.Session, "nothing", nil); err == nil {
			t.Error("a allowed what it denies")
		}
		here, there := a.trail(), b.trail()
		for _, r := range here {
			if r.Name == rpc.MethodEcho || r.Name == rpc.MethodInfo || r.Name == rpc.MethodPing || r.Name == rpc.MethodSync {
				t.Errorf("a call of %s is in the trail", r.Name)
			}
		}
		call, far := one(t, here, "mcp", "b/modern/exact"), one(t, there, "mcp", "modern/exact")
		if call.Rule != "access.rules[0]" || call.Outcome != "ok" || call.Partner != "b" || !strings.HasPrefix(call.Identity, "spiffe://a.example/") {
			t.Errorf("at a: %+v", call)
		}
		if far.Identity != a.identity || far.Rule != "access.rules[0]" || far.Request != call.Request || far.Answer != call.Answer || far.Answer == "" {
			t.Errorf("at b: %+v, at a %+v", far, call)
		}
		if denied := one(t, there, "rpc", "secret"); denied.Outcome != "denied" || denied.Rule != "" {
			t.Errorf("at b: %+v", denied)
		}
		if denied := one(t, here, "rpc", "nothing"); denied.Outcome != "denied" || denied.Took < 0 || denied.In == 0 || denied.Out == 0 {
			t.Errorf("at a: %+v", denied)
		}
		if passed := one(t, here, "rpc", "b/secret"); passed.Outcome != "refused_by_partner" || passed.Partner != "b" {
			t.Errorf("at a: %+v", passed)
		}
		for _, o := range row {
			if err := o.end(); err != nil {
				t.Error(err)
			}
			o.verified()
		}
	})
}

// Denials above the share of an identity have a record together, at a stop at the latest.
func TestOP26DenialsAboveTheShareOfAnIdentityHaveOneRecord(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		t.Parallel()
		o := open(t, "a", "audit: {size: 1MiB}\naccess: {rules: [{identity: 'spiffe://a.example/**', profile: mcp}]}\n")
		s := o.mustDial(o.addrs[transport])
		const full, all = 64, 100
		for range all {
			if _, err := rpc.Call(t.Context(), s.Session, "nothing", nil); err == nil {
				t.Fatal("it is allowed")
			}
		}
		if err := o.end(); err != nil {
			t.Fatal(err)
		}
		list := o.trail()
		last := list[len(list)-1]
		if len(list) != full+1 || last.Times != all-full || last.Operation != "call" || last.Name != "" || last.Outcome != "denied" || last.In == 0 {
			t.Errorf("%d records, the last %+v", len(list), last)
		}
		o.verified()
	})
}

// Cancellations of calls that do not exist, and calls of methods that are open to every peer, need
// no rule. Those of a peer without rules leave the trail to the records of others.
func TestOP26ExchangesOfAnIdentityWithoutRulesHaveAShare(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		t.Parallel()
		o := open(t, "a", "audit: {size: 1MiB}\naccess: {rules: [{identity: 'spiffe://nobody.example/x'}]}\n")
		s := o.mustDial(o.addrs[transport])
		const full, calls, cancelled = 64, 30, 100
		for range calls {
			if _, err := rpc.Call(t.Context(), s.Session, artifact.MethodList, nil); err != nil {
				t.Fatal(err)
			}
		}
		lane, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range cancelled {
			cancel := rpc.Cancel{RPCID: fmt.Append(nil, "nothing ", i)}
			if err := lane.Send(t.Context(), e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeCancel, Payload: cancel.Append(nil)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := rpc.Sync(t.Context(), lane); err != nil {
			t.Fatal(err)
		}
		if err := o.end(); err != nil {
			t.Fatal(err)
		}
		list := o.trail()
		last := list[len(list)-1]
		if len(list) != full+1 || last.Times != calls+cancelled-full || last.Operation != "cancel" || last.Outcome != "ok" || last.In == 0 {
			t.Errorf("%d records, the last %+v", len(list), last)
		}
		o.verified()
	})
}

// one returns the only record of a name.
func one(t *testing.T, list []recorded, profile, name string) (found recorded) {
	t.Helper()
	n := 0
	for _, r := range list {
		if r.Profile == profile && r.Name == name {
			found = r
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d records of %s %s, want 1, among %d", n, profile, name, len(list))
	}
	return found
}

func TestAReloadChangesWhatIsRecorded(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	r := startIn(t, dir, "access: {rules: []}\naudit: {exchanges: denials}\n")
	s := r.mustDial(r.addrs[0])
	calls := func() (ok, denied int) {
		if _, err := rpc.Call(t.Context(), s.Session, "swp.agents.list", nil); err != nil {
			t.Error(err)
		}
		if _, err := rpc.Call(t.Context(), s.Session, "nothing", nil); err == nil {
			t.Error("a call was allowed")
		}
		for _, e := range r.trail() {
			switch e.Outcome {
			case "ok":
				ok++
			case "denied":
				denied++
			}
		}
		return ok, denied
	}
	for i, row := range []struct {
		to         string
		ok, denied int
	}{{"denials", 0, 1}, {"all", 1, 2}, {"off", 1, 2}, {"all", 2, 3}} {
		if i > 0 {
			text, err := os.ReadFile(filepath.Join(dir, "swpd.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(text, []byte("exchanges: "))
			text = append(text[:at:at], "exchanges: "+row.to+"}\n"...)
			if err := os.WriteFile(filepath.Join(dir, "swpd.yaml"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			r.reloaded()
		}
		if ok, denied := calls(); ok != row.ok || denied != row.denied {
			t.Errorf("%s: %d allowed and %d denied calls in the trail, want %d and %d", row.to, ok, denied, row.ok, row.denied)
		}
	}
}

func TestASecondDaemonLeavesTheTrailAlone(t *testing.T) {
	o := open(t, "a", "")
	before, err := os.ReadFile(filepath.Join(o.dir, "data", "audit", "00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(o.dir, "swpd.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Options{Config: c, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second daemon: %v", err)
	}
	after, err := os.ReadFile(filepath.Join(o.dir, "data", "audit", "00000001.jsonl"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the trail was written by a daemon that could not start: %v", err)
	}
	if err := o.end(); err != nil {
		t.Error(err)
	}
	o.verified()
}

// Of the accepted chunks of an upload the last one has a record, wherever the artifact is.
func TestAnUploadToAPartnerHasARecordOfItsLastChunkAtBothEnds(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		octets, sum := octetsOf(100_000)
		up := artifact.Upload{ArtifactID: "b/x", Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Chunk: 40_000, Sync: rpc.Sync}
		if err := up.Send(t.Context(), s.Session); err != nil {
			t.Fatal(err)
		}
		for _, o := range []*organisation{a, b} {
			n := 0
			for _, r := range o.trail() {
				if r.Profile == artifact.Name && r.Operation == "chunk" && r.Outcome == "ok" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s: %d records of chunks, want 1", o.name, n)
			}
		}
	})
}
