package daemon

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/internal/receipts"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

const withReceipts = "audit: {receipts: true}\n"

// receipts returns the state of the receipts with a partner.
func (o *organisation) receipts(partner string) receipts.Status {
	o.t.Helper()
	_, body := o.get("/status")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		o.t.Fatal(err)
	}
	for _, r := range s.Receipts {
		if r.Partner == partner {
			return r
		}
	}
	return receipts.Status{}
}

// receipted waits until both ends of a link exchange receipts.
func receipted(a, b *organisation) {
	a.t.Helper()
	a.until("receipts of "+b.name, func() bool { return a.receipts(b.name).Used })
	b.until("receipts of "+a.name, func() bool { return b.receipts(a.name).Used })
}

// agreed waits until n exchanges between two ends have receipts at both. One that was given up
// may wait: over QUIC its request need not have arrived.
func agreed(a, b *organisation, n uint64) {
	a.t.Helper()
	for _, row := range []struct{ at, of *organisation }{{a, b}, {b, a}} {
		row.at.until("receipts", func() bool { s := row.at.receipts(row.of.name); return s.Confirmed >= n })
		if s := row.at.receipts(row.of.name); s.Differing+s.Unknown+s.Skipped+s.Refused > 0 {
			row.at.t.Errorf("%s: %+v\n%s", row.at.name, s, row.at.log)
		}
	}
}

// proof writes the proof of the record of an organisation that suits, and has somebody
// check the file who has nothing but the authority of the other end.
func (o *organisation) proof(of *organisation, suits func(r *recorded) bool) *audit.Proof {
	o.t.Helper()
	var at uint64
	for _, r := range o.trail() {
		if suits(&r) {
			at = r.Sequence
		}
	}
	if at == 0 {
		o.t.Fatalf("%s has no such record", o.name)
	}
	var p *audit.Proof
	o.until("the receipt of "+of.name, func() (ok bool) {
		var err error
		p, err = audit.Prove(o.t.Context(), filepath.Join(o.dir, "data", "audit"), at)
		return err == nil
	})
	octets, err := p.Octets()
	if err != nil {
		o.t.Fatal(err)
	}
	trust := audit.TrustHolders(rootsOf(o.t, of.ca()))
	got, err := audit.CheckProof(octets, trust)
	if err != nil {
		o.t.Fatalf("%s: %v", o.name, err)
	}
	if got.Signer != of.identity || got.Partner != o.identity {
		o.t.Errorf("%s: of %s for %s", o.name, got.Signer, got.Partner)
	}
	for i := 0; i < len(octets); i += 7 {
		changed := bytes.Clone(octets)
		changed[i] ^= 1
		if _, err := audit.CheckProof(changed, trust); err == nil {
			o.t.Errorf("octet %d changed: it proves the same", i)
		}
	}
	if _, err := audit.CheckProof(octets, audit.TrustHolders(rootsOf(o.t, o.ca()))); err == nil {
		o.t.Error("the authority of the other side vouches for it")
	}
	return got
}

func rootsOf(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	return pool
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAThirdPartyChecksWhatWasAskedAndAnsweredBetweenPartners(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, withReceipts, withReceipts+modernYAML(t))
		a, b := row[0], row[1]
		receipted(a, b)
		s := a.mustDial(a.addrs[transport])
		answer := s.mustAsk(t, "b/modern", modernCall)
		if _, err := rpc.Call(t.Context(), s.Session, "b/nothing", nil); err == nil {
			t.Error("b knows the method")
		}
		if _, err := rpc.Call(t.Context(), profiles.Toward(b.mustDial(b.addrs[transport]).Session, "a"), "swp.agents.list", nil); err != nil {
			t.Error(err)
		}
		agreed(a, b, 3)
		request := func(r *recorded) bool { return r.Sent() && r.Entry.Profile == "mcp" && r.Request == sumOf(modernCall) }
		for _, r := range a.trail() {
			if request(&r) && r.Outcome != "answered" {
				t.Errorf("a has as %s what b has answered", r.Outcome)
			}
		}
		p := a.proof(b, request)
		if p.Side != "answered" || !p.Complete || p.Request != sumOf(modernCall) || p.Answer != sumOf(answer) || p.Profile != 1 {
			t.Errorf("a has of b: %+v", p)
		}
		q := b.proof(a, func(r *recorded) bool { return !r.Sent() && r.Name == "modern/exact" })
		if q.Side != "asked" || q.Request != p.Request || q.Answer != p.Answer || q.MsgID != p.MsgID {
			t.Errorf("b has of a: %+v", q)
		}
		if refused := a.proof(b, func(r *recorded) bool { return r.Sent() && r.Entry.Profile == "rpc" && r.AnswerType == rpc.TypeErr }); !refused.Complete {
			t.Errorf("%+v", refused)
		}
		a.proof(b, func(r *recorded) bool { return !r.Sent() && r.Name == "swp.agents.list" })
		for _, o := range row {
			if f := findings(o); len(f) > 0 {
				t.Errorf("%s: %v", o.name, f)
			}
			if err := o.end(); err != nil {
				t.Error(err)
			}
			o.verified()
		}
	})
}

// findings returns what is said to be wrong with receipts.
func findings(o *organisation) (list []string) {
	for _, r := range o.trail() {
		if r.Finding() {
			list = append(list, r.Outcome+": "+r.Reason)
		}
	}
	return list
}

// alike wants the exchanges that either end has opened in both trails: each is listed by its opener, and expected by the other end.
func alike(a, b *organisation) {
	a.t.Helper()
	for _, row := range []struct{ opener, other *organisation }{{a, b}, {b, a}} {
		of := func() map[string]string {
			only := make(map[string]string)
			for _, r := range row.opener.trail() {
				if r.Sent() && r.Partner == row.other.name {
					only[r.MsgID] = row.opener.name + " lists " + r.Entry.Profile + " " + r.Operation
				}
			}
			for _, r := range row.other.trail() {
				if r.Sent() || r.MsgID == "" || r.Identity != row.opener.identity || r.Finding() {
					continue
				}
				if _, listed := only[r.MsgID]; listed {
					delete(only, r.MsgID)
				} else {
					only[r.MsgID] = row.other.name + " expects " + r.Entry.Profile + " " + r.Operation
				}
			}
			return only
		}
		for deadline := time.Now().Add(patience); len(of()) > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		}
		for _, what := range of() {
			a.t.Error("only " + what)
		}
	}
}

// A message of the answering end about an exchange of the other is no exchange of its own, to either end.
func TestBothEndsExpectTheSameReceiptsOfNotificationsAndViolations(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, withReceipts, withReceipts+modernYAML(t))
		a, b := row[0], row[1]
		receipted(a, b)
		s := a.mustDial(a.addrs[transport])
		progress := make(chan string, 10)
		call := &mcpmap.Call{
			Target: "b/modern", Octets: []byte(strings.Replace(strings.Replace(modernCall, `\u0065xact`, "slow", 1), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)),
			Events: mcpmap.Events{Notification: func(octets []byte) { progress <- string(octets) }},
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.mapping.Client(s.Session).Do(t.Context(), call)
			done <- err
		}()
		<-progress
		if err := s.mapping.Client(s.Session).Notify(t.Context(), "b/modern", "", []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": 9007199254740993.0 }}`)); err != nil {
			t.Fatal(err)
		}
		<-done
		a.rewrite("  b: {", "  b: {hints: {region: eu}, ")
		a.reloaded()
		a.connected("b")
		receipted(a, b)
		s = a.mustDial(a.addrs[transport])
		s.put(t, s.Session, "MUST region=eu")
		if result, err := s.ask(t, mcpmap.Call{Target: "b/modern", Octets: []byte(modernCall)}); err != nil || !bytes.Contains(result.Error(), []byte("region")) {
			t.Errorf("b has declared no region: %s, %v", result.Octets, err)
		}
		alike(a, b)
		for _, r := range a.trail() {
			if r.Operation == "notifications/progress" {
				t.Errorf("the notification of a call has a record: %+v", r)
			}
		}
	})
}

// Whatever crosses, in every profile, both ends of each link say the same of it.
func TestBothEndsOfEachLinkAgreeOnEachErrand(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, withReceipts, withReceipts, withReceipts+servingErrands(t))
		receipted(row[0], row[1])
		receipted(row[1], row[2])
		s := row[0].mustDial(row[0].addrs[transport])
		gets := []string{"state get", "artifact get"} // of what the others put
		each(t, s, "b/c", func(string, error) {}, append(gets, "mcp, modern")...)
		for _, name := range gets {
			if err := errands[name](t, t.Context(), s, "b/c"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i := range 2 {
			agreed(row[i], row[i+1], uint64(len(errands)-1))
			alike(row[i], row[i+1])
		}
		open := []string{"a2a TASK 0", "a2a EVENT 0", "a2a RESULT 0", "events EVT_UNSUBSCRIBE 0", "rpc RPC_CANCEL 0"} // nobody waits for an answer
		ended := []string{fmt.Sprintf("events EVT_SUBSCRIBE %d", events.TypeBatch), fmt.Sprintf("rpc RPC_REQ %d", rpc.TypeStreamItem)}
		for _, o := range row {
			for _, r := range o.trail() {
				what := fmt.Sprintf("%s %s %d", r.Entry.Profile, r.Operation, r.AnswerType)
				if r.Sent() && r.Outcome == "unanswered" != slices.Contains(append(open, ended...), what) {
					t.Errorf("%s: %s is %s", o.name, what, r.Outcome)
				}
			}
		}
		for _, o := range row {
			if f := findings(o); len(f) > 0 {
				t.Errorf("%s: %v", o.name, f)
			}
		}
	})
}

func TestReceiptsGoOnAfterARestartOfEitherEnd(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, withReceipts, withReceipts)
		a, b := row[0], row[1]
		receipted(a, b)
		call := func() {
			t.Helper()
			if _, err := rpc.Call(t.Context(), profiles.Toward(a.mustDial(a.addrs[transport]).Session, "b"), "swp.agents.list", nil); err != nil {
				t.Error(err)
			}
		}
		call()
		if err := a.end(); err != nil { // before the receipt, most of the time
			t.Fatal(err)
		}
		a.again()
		a.connected("b")
		receipted(a, b)
		call()
		sent := func() (n int) {
			for _, r := range a.trail() {
				if r.Sent() {
					n++
				}
			}
			return n
		}
		for i := range sent() {
			n := 0
			a.proof(b, func(r *recorded) bool {
				if !r.Sent() {
					return false
				}
				n++
				return n == i+1
			})
		}
		if n := sent(); n < 2 {
			t.Errorf("%d exchanges, want 2 at least", n)
		}
		if f := append(findings(a), findings(b)...); len(f) > 0 {
			t.Error(f)
		}
	})
}

func TestAPartnerWithoutReceiptsIsSentNone(t *testing.T) {
	row := inARow(t, 0, withReceipts, "")
	a, b := row[0], row[1]
	s := a.mustDial(a.addrs[0])
	for range 3 {
		if _, err := rpc.Call(t.Context(), profiles.Toward(s.Session, "b"), "swp.agents.list", nil); err != nil {
			t.Error(err)
		}
	}
	if got := a.receipts("b"); got.Used || got.Waiting != 0 || got.Sent != 0 {
		t.Errorf("%+v", got)
	}
	for _, r := range a.trail() {
		if r.Sent() {
			t.Errorf("recorded for receipts: %+v", r)
		}
	}
	if got := b.trail(); len(got) == 0 {
		t.Error("b has no trail")
	}
	if _, err := rpc.Call(t.Context(), b.mustDial(b.addrs[0]).Session, rpc.MethodReceipt, nil); err == nil || !strings.Contains(err.Error(), rpc.CodeUnauthorized) {
		t.Errorf("a receipt for an endpoint that wants none: %v", err)
	}
}

func TestTheReceiptOfACallerThatIsNoPartnerIsRefused(t *testing.T) {
	r := start(t, withReceipts)
	s := r.mustDial(r.addrs[0])
	if _, err := rpc.Call(t.Context(), s.Session, rpc.MethodReceipt, []byte("x")); err == nil || !strings.Contains(err.Error(), rpc.CodeUnauthorized) {
		t.Errorf("%v", err)
	}
	info, err := rpc.Call(t.Context(), s.Session, rpc.MethodInfo, nil)
	if err != nil || strings.Contains(string(info), rpc.MethodReceipt) {
		t.Errorf("%s, %v", info, err)
	}
	if got := r.trail(); len(got) > 0 {
		t.Errorf("it left a record: %+v", got)
	}
}

// Of what crosses in several messages both ends have the same digests, and either end can prove
// it. The end of a subscription is told by one end, while Events may be on their way: its answers
// are not compared.
func TestBothEndsAgreeOnUploadsDownloadsAndSubscriptions(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, withReceipts, withReceipts+"limits: {error_budget: 1000}\n")
		a, b := row[0], row[1]
		receipted(a, b)
		s := a.mustDial(a.addrs[transport])
		octets, sum := octetsOf(5 << 20)
		up := artifact.Upload{ArtifactID: "b/x", Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Chunk: 100_000, Sync: rpc.Sync}
		for range 2 { // the second time it is there
			if err := up.Send(t.Context(), s.Session); err != nil {
				t.Fatal(err)
			}
		}
		up.Octets, up.Hash = bytes.NewReader(octets[:10]), sha256.Sum256(nil)
		if up.Size = 10; up.Send(t.Context(), s.Session) == nil {
			t.Error("an upload was accepted that is not what was offered")
		}
		for _, down := range []artifact.Download{{}, {Size: uint64(len(octets))}, {Start: 10, End: 3 << 20}, {End: 50 << 20}, {Start: uint64(len(octets))}} {
			got := bytes.NewBuffer(nil)
			down.ArtifactID, down.Sink = "b/x", func(c *artifact.Chunk) error {
				_, err := got.Write(c.Data)
				return err
			}
			end, err := down.Receive(t.Context(), s.Session)
			if err != nil || !bytes.Equal(got.Bytes(), octets[down.Start:end]) || end != min(cmp.Or(down.End, uint64(len(octets))), uint64(len(octets))) {
				t.Errorf("%+v: %d octets, %v", down, got.Len(), err)
			}
		}
		sub, err := events.Open(t.Context(), s.Session, events.SubscribeOptions{Filter: "type:b/k"})
		if err != nil {
			t.Fatal(err)
		}
		p := events.NewPublisher(opened(t, s.Session), rpc.Sync)
		defer p.Close()
		if err := errors.Join(p.Publish(t.Context(), record("1", "b/k", "x")), p.Sync(t.Context())); err != nil {
			t.Fatal(err)
		}
		for d := (events.Delivery{}); len(d.Events) == 0 && err == nil; {
			d, err = sub.Recv(t.Context())
		}
		sub.Close()
		if err != nil {
			t.Fatal(err)
		}
		if denied, err := events.Open(t.Context(), s.Session, events.SubscribeOptions{Filter: "type:b/k", Name: strings.Repeat("n", 65)}); err == nil {
			denied.Close()
			t.Error("a name is too long, and subscribes")
		}
		sent := func() (list []recorded) {
			for _, r := range a.trail() {
				if r.Sent() {
					list = append(list, r)
				}
			}
			return list
		}
		a.until("the end of the subscription", func() bool {
			return slices.ContainsFunc(sent(), func(r recorded) bool { return r.Operation == "EVT_SUBSCRIBE" })
		})
		agreed(a, b, uint64(len(sent())))
		kinds := make(map[string]int)
		for _, r := range sent() {
			kinds[r.Operation]++
			incomplete := r.Operation == "EVT_SUBSCRIBE" || r.Operation == "EVT_UNSUBSCRIBE"
			want := "answered"
			switch {
			case incomplete:
				want = "unanswered"
			case r.AnswerType == 0:
				want = "accepted"
			}
			if r.Incomplete != incomplete || r.Outcome != want {
				t.Errorf("%s has the outcome %s, incomplete %v", r.Operation, r.Outcome, r.Incomplete)
			}
			if kinds[r.Operation] > 1 {
				continue
			}
			of := r.MsgID
			if p := a.proof(b, func(r *recorded) bool { return r.Sent() && r.MsgID == of }); p.Side != "answered" || p.Request != r.Request || !r.Incomplete && p.Answer != r.Answer {
				t.Errorf("a has of b: %+v, and recorded %+v", p, r)
			}
			if p := b.proof(a, func(r *recorded) bool { return !r.Sent() && r.MsgID == of }); p.Side != "asked" || p.Complete == incomplete {
				t.Errorf("b has of a: %+v", p)
			}
		}
		for _, what := range []string{"ART_OFFER", "ART_CHUNK", "ART_GET", "EVT_PUBLISH", "EVT_SUBSCRIBE", "EVT_UNSUBSCRIBE"} {
			if kinds[what] == 0 {
				t.Errorf("nothing of %s in %v", what, kinds)
			}
		}
		for _, r := range b.trail() {
			if r.Operation == "get" && r.Outcome != "ok" {
				t.Errorf("a GET has the outcome %s", r.Outcome)
			}
		}
		for _, o := range row {
			if f := findings(o); len(f) > 0 {
				t.Errorf("%s: %v", o.name, f)
			}
		}
	})
}
