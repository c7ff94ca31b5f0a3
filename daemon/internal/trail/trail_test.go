package trail

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/internal/receipts"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withReceipts is a mode: all exchanges, with receipts.
const withReceipts = "receipts"

// The identities of the two ends.
const (
	near = "spiffe://near.example/swpd"
	far  = "spiffe://far.example/swpd"
)

// keeping returns a Trail that records as a mode says. Its partners are both ends.
func keeping(t testing.TB, mode string) *Trail {
	t.Helper()
	kept := keepingIn(t, t.TempDir(), mode)
	t.Cleanup(func() {
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	return kept
}

// keepingIn is keeping in a directory, which the caller closes.
func keepingIn(t testing.TB, dir, mode string) *Trail {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Data, c.Audit.Exchanges = dir, mode
	if c.Audit.Receipts = mode == withReceipts; c.Audit.Receipts {
		c.Audit.Exchanges = config.AuditAll
	}
	kept, err := New(Options{
		Config: c, Log: zap.NewNop(), Identity: func() string { return "here" },
		Certificate: func() *tls.Certificate { return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key} },
		Rule:        func(_, _, _, _ string) string { return "access.rules[0]" },
		Ruled:       func(string) bool { return true },
		PartnerOf:   func(*profiles.Subject) string { return "" },
		RecordLong:  func(time.Time) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	kept.SetPartners(func() []receipts.Partner {
		return []receipts.Partner{{Name: "near", Identity: near, Offer: receipts.Listed}, {Name: "far", Identity: far, Offer: receipts.Listed}}
	})
	for _, identity := range []string{near, far} {
		kept.book.Tell(identity)
	}
	return kept
}

// While a link is down, others go on: after a restart, what waits is far from the end.
func TestWhatWaitsForAReceiptIsFoundBehindManyOtherRecords(t *testing.T) {
	dir := t.TempDir()
	before := keepingIn(t, dir, withReceipts)
	file := before.file.Load()
	file.Append(&audit.Record{Time: time.Now(), Identity: far, Sent: true, Crossing: audit.Crossing{MsgID: []byte("12345678"), Complete: true}})
	for range 20_000 {
		file.Append(&audit.Record{Time: time.Now(), Identity: strings.Repeat("i", most), Name: strings.Repeat("n", most)})
		file.Commit()
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	after := keepingIn(t, dir, withReceipts)
	defer func() {
		if err := after.Close(); err != nil {
			t.Error(err)
		}
	}()
	waiting := 0
	for _, s := range after.Receipts() {
		waiting += s.Waiting
	}
	if waiting != 1 {
		t.Errorf("%d exchanges wait for a receipt, want 1", waiting)
	}
}

// calling returns a session with an endpoint that records, of one that records its calls
// with own; nil: it does not.
func calling(t testing.TB, recorder, own endpoint.Recorder) *endpoint.Session {
	t.Helper()
	attach := func(conn transport.Conn, o endpoint.Options, methods map[string]rpc.Method) *endpoint.Session {
		profile, err := rpc.New(rpc.Options{Methods: methods})
		if err != nil {
			t.Fatal(err)
		}
		if o.Registry, err = profiles.NewRegistry(profile); err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ep.Close() })
		return ep.Attach(conn)
	}
	a, b := transport.NewPipe(transport.PipeOptions{A: near, B: far})
	attach(b, endpoint.Options{Recorder: recorder}, map[string]rpc.Method{
		"same": {Inline: func(_ *profiles.Request, params []byte) ([]byte, error) { return params, nil }},
	})
	return attach(a, endpoint.Options{Recorder: own}, nil)
}

func TestCallsThatOnlyLookForThePeerLeaveNoRecord(t *testing.T) {
	kept := keeping(t, config.AuditAll)
	s := calling(t, kept, nil)
	for i, method := range []string{rpc.MethodPing, rpc.MethodEcho, rpc.MethodSync, "same"} {
		if _, err := rpc.Call(t.Context(), s, method, nil); err != nil {
			t.Fatal(err)
		}
		if n := kept.records.Load(); n != uint64(i/3) {
			t.Errorf("%d records after %s, want %d", n, method, i/3)
		}
	}
}

func TestNothingIsComputedForExchangesWithoutARecord(t *testing.T) {
	call := func(method string) *e1.Envelope {
		req := rpc.Req{RPCID: []byte("id"), Method: []byte(method)}
		return &e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: req.Append(nil)}
	}
	for _, row := range []struct {
		mode, method string
		want         bool
	}{
		{config.AuditOff, "same", false},
		{config.AuditDenials, "same", true},
		{config.AuditAll, "same", true},
		{config.AuditAll, rpc.MethodEcho, false},
		{config.AuditAll, rpc.MethodSync, false},
	} {
		if got := keeping(t, row.mode).Keeps(call(row.method)); got != row.want {
			t.Errorf("audit.exchanges %s, method %s: kept %v, want %v", row.mode, row.method, got, row.want)
		}
	}
}

// BenchmarkCall is a call of 64 octets over a pipe, with what the trail adds at both its
// sides: the record and its octets in the file. With receipts both sides have a trail; the
// receipts themselves are not exchanged.
func BenchmarkCall(b *testing.B) {
	for _, mode := range []string{config.AuditOff, config.AuditDenials, config.AuditAll, withReceipts} {
		for _, inFlight := range []int{1, 64} {
			b.Run(mode+map[int]string{1: "/1", 64: "/64"}[inFlight], func(b *testing.B) {
				var own endpoint.Recorder
				if mode == withReceipts {
					own = keeping(b, mode)
				}
				s := calling(b, keeping(b, mode), own)
				payload := make([]byte, 64)
				calls := make(chan struct{}, inFlight)
				var all sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for range inFlight {
					all.Go(func() {
						for range calls {
							if _, err := rpc.Call(context.Background(), s, "same", payload); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for range b.N {
					calls <- struct{}{}
				}
				close(calls)
				all.Wait()
			})
		}
	}
}
