package receipts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end is one end of a link.
type end struct {
	t        testing.TB
	name     string
	identity string
	cert     *tls.Certificate
	pool     *x509.CertPool
	book     *Book
	other    *end
	offer    Offer
	stop     func()

	mu     sync.Mutex
	kept   []*audit.Receipt
	found  []audit.PartnerFinding
	events []Event
	calls  []time.Time                // of receipts that were sent
	away   bool                       // nothing arrives at the other end
	change func(octets []byte) []byte // of the answers that this end receives; may be nil
	lost   func() bool                // an answer is lost on its way here; may be nil
	full   bool                       // the trail takes nothing
	gone   bool                       // there is no session
}

func newEnd(t testing.TB, name string) *end {
	t.Helper()
	e := &end{t: t, name: name, identity: "spiffe://" + name + ".example/swpd", offer: Listed}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(e.identity)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		URIs: []*url.URL{u},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	e.cert, e.pool = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, x509.NewCertPool()
	e.pool.AddCert(leaf)
	e.open()
	return e
}

// open makes the book of an end, which has forgotten everything.
func (e *end) open() {
	e.book = New(Options{
		Self: func() string { return e.identity }, Certificate: func() *tls.Certificate { return e.cert },
		Roots:    func(string) *x509.CertPool { return e.other.pool },
		Partners: e.partners,
		Keep:     e.keep, Find: e.find, Call: e.call, Observe: e.observe,
	})
	e.book.Enable(true)
}

var errFull = errors.New("the disk is full")

func (e *end) keep(_ string, r *audit.Receipt) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.full {
		return 0, errFull
	}
	e.kept = append(e.kept, r)
	return uint64(len(e.kept)), nil
}

func (e *end) find(f *audit.PartnerFinding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found = append(e.found, *f)
}

func (e *end) observe(v Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, v)
}

var errAway = errors.New("the link is down")

func (e *end) call(ctx context.Context, _ profiles.Session, params []byte) ([]byte, error) {
	e.mu.Lock()
	away, change, lost := e.away, e.change, e.lost
	e.calls = append(e.calls, time.Now())
	e.mu.Unlock()
	if away {
		return nil, errAway
	}
	result, err := e.other.book.Receive(ctx, &profiles.Peer{Identity: e.identity}, params)
	if err == nil && change != nil {
		result = change(result)
	}
	if lost != nil && lost() {
		return nil, errAway
	}
	return result, err
}

// link is that the other end is a session of.
type link struct{ profiles.Session }

func (e *end) partners() []Partner {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return []Partner{{Name: e.other.name, Identity: e.other.identity}}
	}
	return []Partner{{Name: e.other.name, Identity: e.other.identity, Session: link{}, Offer: e.offer}}
}

// run has an end send its receipts.
func (e *end) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.book.Run(ctx)
	}()
	e.stop = func() {
		cancel()
		<-done
	}
}

// meet makes two ends partners.
func meet(t testing.TB) (a, b *end) {
	t.Helper()
	a, b = newEnd(t, "a"), newEnd(t, "b")
	a.other, b.other = b, a
	for _, e := range []*end{a, b} {
		e.acquaint()
	}
	return a, b
}

func (e *end) acquaint() {
	e.book.look()
	if !e.book.Tell(e.other.identity) {
		e.t.Error("the method is not listed")
	}
}

// exchange is what one end says of exchange n.
func exchange(n int, asked bool) audit.Exchange {
	return audit.Exchange{
		Asked: asked, Complete: true, MsgID: fmt.Appendf(nil, "msg-%012d", n), ProfileID: 12, MsgType: 1, Request: audit.Sum{1, byte(n)},
		AnswerType: 2, Answer: audit.Sum{2, byte(n)}, Began: time.Now(), Ended: time.Now(),
	}
}

// asks has a ask b, n times from first on.
func asks(a, b *end, first, n int) {
	for i := first; i < first+n; i++ {
		b.book.Answers(a.identity).Answered(new(exchange(i, false)), uint64(i))
		a.book.Asks(b.identity).Asked(new(exchange(i, true)), uint64(i))
	}
}

func (e *end) status() Status {
	e.t.Helper()
	list := e.book.Status()
	if len(list) != 1 {
		e.t.Fatalf("%d partners", len(list))
	}
	return list[0]
}

func (e *end) receipts() []*audit.Receipt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kept
}

func (e *end) findings() []audit.PartnerFinding {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.found
}

// virtually runs a test in virtual time, with two ends that send their receipts.
func virtually(t *testing.T, test func(t *testing.T, a, b *end)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := meet(t)
		a.run()
		b.run()
		defer func() {
			a.stop()
			b.stop()
		}()
		synctest.Wait()
		test(t, a, b)
	})
}

func TestBothEndsKeepWhatTheOtherSigned(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 0, 10)
		asks(b, a, 100, 5)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, row := range []struct {
			at            *end
			asked, served int
		}{{a, 10, 5}, {b, 5, 10}} {
			if got := row.at.status(); got.Sent != 1 || got.Received != 1 || got.Confirmed != 15 || got.Differing+got.Unknown+got.Skipped+got.Refused != 0 || got.Waiting != 0 {
				t.Errorf("%s: %+v", row.at.name, got)
			}
			total := map[bool]int{}
			for _, r := range row.at.receipts() {
				if err := r.Verify(audit.TrustOf(row.at.other.identity, row.at.other.pool)); err != nil || r.Partner != row.at.identity {
					t.Errorf("%s: %v", row.at.name, err)
				}
				for _, x := range r.Exchanges {
					total[x.Asked]++
				}
			}
			if total[false] != row.asked || total[true] != row.served {
				t.Errorf("%s keeps receipts of %v", row.at.name, total)
			}
			if f := row.at.findings(); len(f) > 0 {
				t.Errorf("%s: %+v", row.at.name, f)
			}
		}
	})
}

func TestAReceiptHasAThousandExchangesAtMostAndOneIsSentASecond(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 0, 2*audit.MaxExchanges+1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var sizes []int
		for _, r := range b.receipts() {
			sizes = append(sizes, len(r.Exchanges))
		}
		if fmt.Sprint(sizes) != "[1000 1000 1]" {
			t.Errorf("receipts of %v", sizes)
		}
		for i := 1; i < len(a.calls); i++ {
			if d := a.calls[i].Sub(a.calls[i-1]); d < time.Second {
				t.Errorf("receipt %d is sent %v after that before", i, d)
			}
		}
	})
}

func TestADifferenceIsFoundAtBothEnds(t *testing.T) {
	for _, row := range []struct {
		what string
		edit func(x *audit.Exchange)
		in   string // empty: none
	}{
		{"request", func(x *audit.Exchange) { x.Request[9]++ }, "request"},
		{"answer", func(x *audit.Exchange) { x.Answer[9]++ }, "answer"},
		{"answer type", func(x *audit.Exchange) { x.AnswerType++ }, "answer"},
		{"caller", func(x *audit.Exchange) { x.Caller[9]++ }, "caller"},
		{"target", func(x *audit.Exchange) { x.Target[9]++ }, "target"},
		{"profile", func(x *audit.Exchange) { x.ProfileID++ }, "profile_id"},
		{"type", func(x *audit.Exchange) { x.MsgType++ }, "msg_type"},
		{"nothing but the times", func(x *audit.Exchange) { x.Ended = x.Ended.Add(time.Hour) }, ""},
		{"an answer that was not waited for", func(x *audit.Exchange) { x.Complete, x.AnswerType, x.Answer = false, 0, audit.Sum{} }, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			virtually(t, func(t *testing.T, a, b *end) {
				asks(a, b, 1, 1)
				b.book.Answers(a.identity).Answered(new(exchange(2, false)), 2)
				x := exchange(2, true)
				row.edit(&x)
				a.book.Asks(b.identity).Asked(&x, 3)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for of, e := range map[uint64]*end{3: a, 2: b} {
					found := e.findings()
					if row.in == "" {
						if len(found) > 0 || e.status().Confirmed != 2 {
							t.Errorf("%s: %+v, %+v", e.name, found, e.status())
						}
						continue
					}
					if len(found) != 1 || found[0].What != differs || found[0].Of != of || !strings.Contains(found[0].Text, "differ in the "+row.in) || string(found[0].MsgID) != string(x.MsgID) {
						t.Errorf("%s: %+v", e.name, found)
					}
					if s := e.status(); s.Differing != 1 || s.Confirmed != 1 || len(e.events) != 1 || e.events[0].Exchanges != 1 {
						t.Errorf("%s: %+v, %+v", e.name, s, e.events)
					}
				}
			})
		})
	}
}

// The other end learns of some exchanges later than this one: those of one way, and over
// several streams.
func TestAnExchangeThatTheOtherEndKnowsLaterGetsItsReceiptLater(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 0, 5)
		a.book.Asks(b.identity).Asked(new(exchange(7, true)), 7)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if s := a.status(); s.Confirmed != 5 || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		b.book.Answers(a.identity).Answered(new(exchange(7, false)), 7)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := a.status(); s.Confirmed != 6 || s.Waiting != 0 || s.Unknown != 0 || len(a.findings()) > 0 {
			t.Errorf("%+v, %+v", s, a.findings())
		}
	})
}

func TestExchangesThatTheOtherEndNeverKnowsAreFindings(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 0, 5)
		a.book.Asks(b.identity).Asked(new(exchange(7, true)), 7)
		unfinished := exchange(8, true)
		unfinished.Complete = false
		a.book.Asks(b.identity).Asked(&unfinished, 8)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := a.findings(); len(f) != 1 || f[0].What != unknown || f[0].Of != 7 {
			t.Errorf("%+v", f)
		}
		if s := a.status(); s.Confirmed != 5 || s.Unknown != 1 || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(mayLast)
		synctest.Wait()
		if s := a.status(); s.Unknown != 1 || s.Skipped != 1 || s.Waiting != 0 || len(a.findings()) != 1 {
			t.Errorf("%+v", s)
		}
		for _, r := range b.receipts() {
			if len(r.Exchanges) != 5 {
				t.Errorf("b keeps a receipt about %d exchanges", len(r.Exchanges))
			}
		}
	})
}

func TestWhatIsDueWhileTheLinkIsDownIsSentLater(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		a.mu.Lock()
		a.away = true
		a.mu.Unlock()
		asks(a, b, 0, 1500)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := a.status(); s.Waiting != 1500 || s.Skipped != 0 {
			t.Errorf("%+v", s)
		}
		a.mu.Lock()
		a.away = false
		a.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := a.status(); s.Waiting != 0 || s.Confirmed != 1500 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWhatWaitsIsBounded(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		a.mu.Lock()
		a.away = true
		a.mu.Unlock()
		asks(a, b, 0, maxDue)
		if s := a.status(); s.Waiting != maxDue || s.Skipped != 0 {
			t.Errorf("%+v", s)
		}
		asks(a, b, maxDue, maxKnown)
		if s := a.status(); s.Waiting != maxDue || s.Skipped != maxKnown {
			t.Errorf("%+v", s)
		}
		l := b.book.of(a.identity)
		if l.known.n != maxKnown || len(l.index) != maxKnown {
			t.Errorf("b knows %d exchanges, in an order of %d", l.known.n, len(l.index))
		}
		a.mu.Lock()
		a.away = false
		a.mu.Unlock()
		time.Sleep(20 * time.Second) // the newest ones have receipts
		synctest.Wait()
		if s := a.status(); s.Waiting != 0 || s.Confirmed != maxDue || s.Unknown != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The answer to a receipt is lost: the other end has kept the receipt, and answers it again
// without keeping another.
func TestAnAnswerThatIsLostIsGivenAgain(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		n := 0
		a.mu.Lock()
		a.lost = func() bool { n++; return n == 1 }
		a.mu.Unlock()
		asks(a, b, 0, 3)
		time.Sleep(1500 * time.Millisecond)
		asks(a, b, 10, 2) // beside those that are repeated
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := a.status(); s.Confirmed != 5 || s.Waiting != 0 || s.Skipped != 0 {
			t.Errorf("%+v", s)
		}
		total := 0
		for _, r := range b.receipts() {
			total += len(r.Exchanges)
		}
		if s := b.status(); total != 5 || s.Confirmed != 5 || s.Refused != 0 {
			t.Errorf("b keeps statements about %d exchanges: %+v", total, s)
		}
	})
}

func TestATrailThatCannotBeWrittenKeepsReceiptsWaiting(t *testing.T) {
	for _, at := range []string{"a", "b"} {
		virtually(t, func(t *testing.T, a, b *end) {
			full := map[string]*end{"a": a, "b": b}[at]
			full.mu.Lock()
			full.full = true
			full.mu.Unlock()
			asks(a, b, 0, 3)
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := a.status(); s.Waiting != 3 || s.Skipped != 0 || s.Unknown != 0 {
				t.Errorf("%+v", s)
			}
			full.mu.Lock()
			full.full = false
			full.mu.Unlock()
			time.Sleep(longPause + 5*time.Second)
			synctest.Wait()
			if s := a.status(); s.Waiting != 0 || s.Confirmed != 3 {
				t.Errorf("%+v", s)
			}
			if len(b.receipts()) != 1 || len(a.receipts()) != 1 {
				t.Errorf("a keeps %d, b %d", len(a.receipts()), len(b.receipts()))
			}
		})
	}
}

// After a restart the entries of the trail say what has no receipt.
func TestARestartLosesNoReceipt(t *testing.T) {
	for _, row := range []struct {
		what   string
		of     string
		before func(a *end)
	}{
		{"of the asking end, before it sends", "a", func(a *end) { a.away = true }},
		{"of the asking end, before the answer", "a", func(a *end) { a.lost = func() bool { return true } }},
		{"of the answering end, before it receives", "b", func(a *end) { a.away = true }},
		{"of the answering end, after its answer", "b", func(a *end) { a.lost = func() bool { return true } }},
	} {
		t.Run(row.what, func(t *testing.T) {
			virtually(t, func(t *testing.T, a, b *end) {
				a.mu.Lock()
				row.before(a)
				a.mu.Unlock()
				asks(a, b, 0, 3)
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
				one := map[string]*end{"a": a, "b": b}[row.of]
				one.stop()
				one.again(t, 3)
				a.mu.Lock()
				a.away, a.lost = false, nil
				a.mu.Unlock()
				one.run()
				asks(a, b, 10, 2)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if s := a.status(); s.Confirmed != 5 || s.Waiting != 0 || s.Unknown+s.Skipped+s.Differing != 0 {
					t.Errorf("%+v, %v, %v", s, a.findings(), b.findings())
				}
				total := 0
				for _, r := range b.receipts() {
					total += len(r.Exchanges)
				}
				if total != 5 {
					t.Errorf("b keeps statements about %d exchanges", total)
				}
			})
		})
	}
}

// again opens the book of an end with what its trail has: n exchanges and the receipts that
// were kept.
func (e *end) again(t *testing.T, n int) {
	t.Helper()
	asked := (*e.book.ledgers.Load())[e.other.identity].known.n == 0
	dir := t.TempDir()
	trail, err := audit.Open(audit.Options{Dir: dir, Identity: func() string { return e.identity }, Certificate: func() *tls.Certificate { return e.cert }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		x := exchange(i, asked)
		trail.Append(&audit.Record{
			Time: time.Now(), Identity: e.other.identity, Partner: e.other.name, Sent: asked, Profile: "rpc", Request: x.Request, Answer: x.Answer, OK: true,
			Crossing: audit.Crossing{MsgID: x.MsgID, ProfileID: x.ProfileID, MsgType: x.MsgType, AnswerType: x.AnswerType, Complete: true},
		})
	}
	for _, r := range e.receipts() {
		if _, err := trail.Receipt(e.other.name, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	e.open()
	e.book.Recover(audit.Exchanged(t.Context(), dir, 1<<20))
	e.acquaint()
}

// A partner that was not reached, or that refuses every session, has not said that it offers no receipts.
func TestOnlyAnAnswerSaysWhetherAPartnerOffersReceipts(t *testing.T) {
	for offer, want := range map[Offer]Status{Unknown: {}, Silent: {}, Absent: {Known: true}, Listed: {Known: true, Used: true}} {
		b := New(Options{Partners: func() []Partner { return []Partner{{Name: "b", Identity: "spiffe://b.example/swpd", Offer: offer}} }})
		b.Enable(true)
		b.look()
		if got := b.Status()[0]; got.Known != want.Known || got.Used != want.Used {
			t.Errorf("%d: %+v", offer, got)
		}
	}
}

// What waits for a partner is sent as soon as there is a link, before Run looks at it.
func TestTheFirstExchangeOfALinkHasAReceipt(t *testing.T) {
	offer := Unknown
	const identity = "spiffe://b.example/swpd"
	b := New(Options{Partners: func() []Partner { return []Partner{{Name: "b", Identity: identity, Offer: offer}} }})
	if b.Asks(identity) != nil {
		t.Error("there are receipts, and they are off")
	}
	b.Enable(true)
	if b.Asks(identity) == nil {
		t.Error("there are no receipts for what comes before the partner was asked")
	}
	offer = Listed
	if b.Asks(identity) == nil {
		t.Error("there are no receipts for a partner that lists the method")
	}
	if b.Asks("spiffe://c.example/swpd") != nil {
		t.Error("there are receipts for somebody else")
	}
}

// What waited in the store is sent on a new connection at once, before the partner has said what it
// offers. If it knows nothing of receipts yet, that is no finding.
func TestWhatIsSentBeforeAPartnerWasAskedWaitsForAReceipt(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		a.mu.Lock()
		a.offer = Unknown
		a.mu.Unlock()
		a.book.look()
		b.book.Answers(a.identity).Answered(new(exchange(1, false)), 1)
		l := a.book.Asks(b.identity)
		l.offer.Store(uint32(Unknown)) // as at a start
		l.Asked(new(exchange(1, true)), 1)
		l.Asked(new(exchange(2, true)), 2) // b has no record of it
		a.mu.Lock()
		a.offer = Listed
		a.mu.Unlock()
		time.Sleep(2*mayLast + time.Minute)
		synctest.Wait()
		if s := a.status(); s.Confirmed != 1 || s.Skipped != 1 || s.Unknown != 0 || s.Waiting != 0 || len(a.findings()) > 0 {
			t.Errorf("%+v, %+v", s, a.findings())
		}
	})
}

func TestAPartnerThatDoesNotListTheMethodGetsNothing(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 0, 3)
		a.book.Enable(true)
		a.mu.Lock()
		a.offer = Absent
		a.mu.Unlock()
		a.book.look()
		if a.book.Asks(b.identity) != nil || a.book.Answers(b.identity) != nil {
			t.Error("exchanges are recorded for receipts")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := a.status(); len(a.calls) > 1 || s.Used || s.Waiting != 0 {
			t.Errorf("%d calls, %+v", len(a.calls), s)
		}
	})
}

// After a restart on a bad link a partner may not be asked for a while. It knows this endpoint.
func TestWhatWaitsIsKeptWhileThePartnerIsNotAsked(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 0, 3)
		b.mu.Lock()
		b.offer = Silent
		b.mu.Unlock()
		b.book.look()
		if b.book.Asks(a.identity) != nil {
			t.Error("a partner that was not asked is sent receipts")
		}
		asks(a, b, 3, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := a.status(); s.Confirmed != 6 || s.Waiting != 0 || len(a.findings()) > 0 {
			t.Errorf("%+v, %v", s, a.findings())
		}
	})
}

func TestReceiptsThatAreOffAreRefused(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		b.book.Enable(false)
		if b.book.Tell(a.identity) || b.book.Asks(a.identity) != nil || b.book.Answers(a.identity) != nil {
			t.Error("they are off")
		}
		_, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, nil)
		if fault, ok := errors.AsType[*rpc.Error](err); !ok || fault.Code != rpc.CodeUnauthorized {
			t.Errorf("%v", err)
		}
		a.book.Asks(b.identity).Asked(new(exchange(1, true)), 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if f := a.findings(); len(f) != 1 || f[0].What != unconfirmed || a.status().Skipped != 1 {
			t.Errorf("%+v, %+v", f, a.status())
		}
	})
}

func TestHostileReceiptsAreRefused(t *testing.T) {
	stranger := newEnd(t, "mallory")
	for _, row := range []struct {
		what string
		make func(a, b *end) []byte
		want string
	}{
		{"octets", func(_, _ *end) []byte { return []byte("nothing") }, "receipt"},
		{"none", func(_, _ *end) []byte { return nil }, "receipt"},
		{"too many exchanges", func(a, b *end) []byte {
			return a.made(func(r *audit.Receipt) { r.Exchanges = many(audit.MaxExchanges + 1) })
		}, "1001 exchanges, want 1 to 1000"},
		{"a wrong signature", func(a, b *end) []byte {
			return a.made(nil, func(r *audit.Receipt) { r.Signature[9] ^= 1 })
		}, "signature"},
		{"the certificate of another", func(a, b *end) []byte {
			return a.made(nil, func(r *audit.Receipt) { r.Chain = stranger.cert.Certificate })
		}, "signature"},
		{"signed by another", func(a, b *end) []byte {
			stranger.other = b
			return stranger.made(func(r *audit.Receipt) { r.Signer = a.identity })
		}, "its certificate is of"},
		{"of another", func(a, b *end) []byte { return a.made(func(r *audit.Receipt) { r.Signer = stranger.identity }) }, "it is of"},
		{"for another", func(a, b *end) []byte { return a.made(func(r *audit.Receipt) { r.Partner = stranger.identity }) }, "it is for"},
		{"old", func(a, b *end) []byte {
			return a.made(func(r *audit.Receipt) { r.Time = r.Time.Add(-skew - time.Second) })
		}, "its time is"},
		{"of the future", func(a, b *end) []byte {
			return a.made(func(r *audit.Receipt) { r.Time = r.Time.Add(skew + time.Second) })
		}, "its time is"},
		{"of the other side", func(a, b *end) []byte { return a.made(func(r *audit.Receipt) { r.Exchanges[0].Asked = false }) }, "signer has answered"},
		{"an exchange twice", func(a, b *end) []byte {
			return a.made(func(r *audit.Receipt) { r.Exchanges = append(r.Exchanges, r.Exchanges[0]) })
		}, "twice"},
	} {
		t.Run(row.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := meet(t)
				b.book.Answers(a.identity).Answered(new(exchange(0, false)), 1)
				_, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, row.make(a, b))
				fault, ok := errors.AsType[*rpc.Error](err)
				if !ok || fault.Code != rpc.CodeInvalidRequest || fault.Retryable || !strings.Contains(fault.Message, row.want) {
					t.Errorf("%v, want %q", err, row.want)
				}
				if f := b.findings(); len(f) != 1 || f[0].What != refused || len(b.receipts()) > 0 || b.status().Refused != 1 || len(b.events) != 1 {
					t.Errorf("findings %+v, kept %d, %+v", f, len(b.receipts()), b.status())
				}
			})
		})
	}
}

func many(n int) (list []audit.Exchange) {
	for i := range n {
		list = append(list, exchange(i, true))
	}
	return list
}

// made returns a receipt of an end about exchange 0, changed before and after its signature.
func (e *end) made(edit ...func(r *audit.Receipt)) []byte {
	r := &audit.Receipt{Signer: e.identity, Partner: e.other.identity, Number: 1, Time: time.Now(), Exchanges: many(1)}
	if edit[0] != nil {
		edit[0](r)
	}
	if err := r.Sign(e.cert); err != nil {
		e.t.Error(err)
	}
	for _, f := range edit[1:] {
		f(r)
	}
	return r.Append(nil)
}

func TestAReceiptOfWhoIsNoPartnerIsRefused(t *testing.T) {
	a, b := meet(t)
	stranger := newEnd(t, "mallory")
	stranger.other = b
	_, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: stranger.identity}, stranger.made(nil))
	if fault, ok := errors.AsType[*rpc.Error](err); !ok || fault.Code != rpc.CodeUnauthorized {
		t.Errorf("%v", err)
	}
	// Nor does a partner speak for another one.
	if _, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, stranger.made(nil)); err == nil {
		t.Error("a receipt of another was taken")
	}
	if len(b.receipts()) > 0 {
		t.Error("it was kept")
	}
}

func TestAReceiptAboutUnknownExchangesIsNotKept(t *testing.T) {
	a, b := meet(t)
	b.book.Answers(a.identity).Answered(new(exchange(0, false)), 1)
	got, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, a.made(func(r *audit.Receipt) { r.Exchanges = many(3) }))
	if err != nil || string(got) != "\x01\x00\x01\x01" || len(b.receipts()) > 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAReceiptThatIsSentAgainIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := meet(t)
		b.book.Answers(a.identity).Answered(new(exchange(0, false)), 1)
		octets := a.made(nil)
		for i := range 2 {
			_, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, octets)
			if (err != nil) != (i == 1) || i == 1 && !strings.Contains(err.Error(), "it was sent before") {
				t.Errorf("time %d: %v", i, err)
			}
			time.Sleep(time.Second)
		}
		if len(b.receipts()) != 1 {
			t.Errorf("%d are kept", len(b.receipts()))
		}
	})
}

func TestMoreReceiptsThanOneASecondAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := meet(t)
		send := func() bool {
			_, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, nil)
			fault, _ := errors.AsType[*rpc.Error](err)
			return fault.Code != rpc.CodeUnavailable
		}
		for i := range burst {
			if !send() {
				t.Errorf("receipt %d of a burst is too much", i)
			}
		}
		if send() {
			t.Error("one more was examined")
		}
		time.Sleep(every)
		if !send() || send() {
			t.Error("not one a second")
		}
	})
}

// An answer that is none is worth nothing, and says so in the end.
func TestHostileAnswersAreRefused(t *testing.T) {
	for what, change := range map[string]func(a, b *end, octets []byte) []byte{
		"nothing":         func(_, _ *end, _ []byte) []byte { return nil },
		"an unknown kind": func(_, _ *end, _ []byte) []byte { return []byte{2} },
		"all new":         func(_, _ *end, _ []byte) []byte { return []byte{1, 0} },
		"too few kinds":   func(_, _ *end, _ []byte) []byte { return []byte{1} },
		"too many":        func(_, _ *end, _ []byte) []byte { return []byte{1, 1, 1} },
		"a changed octet": func(_, _ *end, o []byte) []byte { o[40] ^= 1; return o },
		"its own":         func(a, _ *end, _ []byte) []byte { return append([]byte{0}, a.made(nil)...) },
		"about another exchange": func(_, b *end, _ []byte) []byte {
			return append([]byte{0}, b.made(func(r *audit.Receipt) { r.Exchanges[0] = exchange(5, false) })...)
		},
		"about more": func(_, b *end, _ []byte) []byte {
			return append([]byte{0}, b.made(func(r *audit.Receipt) { r.Exchanges = append(r.Exchanges, exchange(5, false)) })...)
		},
		"of the side that asked": func(_, b *end, _ []byte) []byte { return append([]byte{0}, b.made(nil)...) },
	} {
		t.Run(what, func(t *testing.T) {
			virtually(t, func(t *testing.T, a, b *end) {
				a.mu.Lock()
				a.change = func(octets []byte) []byte { return change(a, b, octets) }
				a.mu.Unlock()
				asks(a, b, 0, 1)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if f := a.findings(); len(f) != 1 || f[0].What != unconfirmed || len(a.receipts()) > 0 {
					t.Errorf("%+v, %d kept", f, len(a.receipts()))
				}
				if s := a.status(); s.Waiting != 0 || s.Skipped != 1 || s.Sent != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestWhatIsTurnedOffIsForgotten(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		a.mu.Lock()
		a.away = true
		a.mu.Unlock()
		asks(a, b, 0, 3)
		l := a.book.of(b.identity)
		a.book.Enable(false)
		a.book.Enable(true)
		if a.book.Answers(b.identity) != nil {
			t.Error("the partner does not know that receipts are on again")
		}
		if s := a.status(); s.Waiting != 0 || s.Skipped != 3 || a.book.of(b.identity) != l {
			t.Errorf("%+v", s)
		}
	})
}

// answered has b answer exchanges of a that a does not list.
func answered(a, b *end, first, n int) {
	for i := first; i < first+n; i++ {
		b.book.Answers(a.identity).Answered(new(exchange(i, false)), uint64(i))
	}
}

// unlistedAt returns the findings of an end about what the other end has not confirmed.
func (e *end) unlistedAt() (texts []string) {
	for _, f := range e.findings() {
		if f.What == unlisted {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

func TestWhatThePartnerDoesNotConfirmInTimeIsAFindingHere(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		asks(a, b, 1, 5)
		answered(a, b, 10, 3) // never listed
		asks(a, b, 20, 5)
		time.Sleep(confirmFor - lookEach)
		if got := b.unlistedAt(); len(got) > 0 {
			t.Errorf("before the time is over: %q", got)
		}
		time.Sleep(2 * lookEach)
		if got := b.unlistedAt(); len(got) != 1 || !strings.Contains(got[0], "3 exchanges in records 10 to 12") {
			t.Errorf("%q", got)
		}
		time.Sleep(2 * confirmFor)
		if got := b.unlistedAt(); len(got) != 1 || b.status().Unlisted != 3 || a.status().Unlisted != 0 {
			t.Errorf("later: %q, %d and %d", got, b.status().Unlisted, a.status().Unlisted)
		}
	})
}

func TestAPartnerThatIsAwayHasADayToConfirm(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		answered(a, b, 1, 1)
		b.mu.Lock()
		b.gone = true
		b.mu.Unlock()
		time.Sleep(confirmAway - time.Second)
		if got := b.unlistedAt(); len(got) > 0 {
			t.Errorf("%q", got)
		}
		time.Sleep(2 * time.Second)
		if got := b.unlistedAt(); len(got) != 1 {
			t.Errorf("after a day: %q", got)
		}
	})
}

func TestTwoExchangesUnderOneMsgIDAreAFinding(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		answered(a, b, 7, 1)
		b.book.Answers(a.identity).Answered(new(exchange(7, false)), 8)
		a.book.Asks(b.identity).Asked(new(exchange(7, true)), 7) // lists one of them
		time.Sleep(every + lookEach)
		if got := b.unlistedAt(); len(got) != 1 || !strings.Contains(got[0], "records 7 to 7") || !strings.Contains(got[0], "the same msg_id") {
			t.Errorf("%q", got)
		}
		// After its receipt a msg_id may be used again.
		asks(a, b, 7, 1)
		time.Sleep(2 * confirmFor)
		if got := b.unlistedAt(); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

func TestWhatGivesWayUnconfirmedIsAFinding(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		answered(a, b, 1, maxKnown)
		time.Sleep(2 * lookEach) // the ledgers are looked at in between
		if got := b.unlistedAt(); len(got) > 0 {
			t.Errorf("at the limit: %q", got)
		}
		answered(a, b, maxKnown+1, 2)
		time.Sleep(2 * lookEach) // the ledgers are looked at in between
		if got := b.unlistedAt(); len(got) != 1 || !strings.Contains(got[0], "2 exchanges in records 1 to 2,") {
			t.Errorf("%q", got)
		}
	})
}

func TestAPartnerThatStopsToExchangeReceiptsOwesThoseBefore(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		answered(a, b, 1, 2)
		b.mu.Lock()
		b.offer = Absent
		b.mu.Unlock()
		time.Sleep(2 * lookEach)
		if got := b.unlistedAt(); len(got) != 1 || !strings.Contains(got[0], "2 exchanges in records 1 to 2,") {
			t.Errorf("%q", got)
		}
	})
}

func TestAPartnerWithoutReceiptsOwesNone(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		b.mu.Lock()
		b.offer = Absent
		b.mu.Unlock()
		b.book.ledgers.Store(new(map[string]*Ledger)) // as at the first connection
		b.acquaint()
		time.Sleep(2 * lookEach)
		if l := b.book.Answers(a.identity); l != nil {
			t.Error("exchanges wait for receipts")
		}
		time.Sleep(2 * confirmFor)
		if got := b.unlistedAt(); len(got) > 0 {
			t.Errorf("%q", got)
		}
	})
}

func TestWhatWasReportedIsNotReportedAgainAfterARestart(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		answered(a, b, 1, 2)
		l := (*b.book.ledgers.Load())[a.identity]
		l.reported(1)
		time.Sleep(confirmFor + lookEach)
		if got := b.unlistedAt(); len(got) != 1 || !strings.Contains(got[0], "1 exchanges in records 2 to 2,") {
			t.Errorf("%q", got)
		}
	})
}

// What has given way in the trail and was reported there, is not reported again; what has given way since, is.
func TestWhatGaveWayIsReportedOnceAlsoAfterARestart(t *testing.T) {
	for _, row := range []struct {
		since int
		want  string
	}{{0, ""}, {3, "3 exchanges in records"}} {
		virtually(t, func(t *testing.T, a, b *end) {
			b.stop()
			dir := t.TempDir()
			trail, err := audit.Open(audit.Options{Dir: dir, Size: 1 << 30, Identity: func() string { return b.identity }, Certificate: func() *tls.Certificate { return b.cert }})
			if err != nil {
				t.Fatal(err)
			}
			var of uint64
			append := func(first, n int) {
				for i := first; i < first+n; i++ {
					x := exchange(i, false)
					of = trail.Append(&audit.Record{
						Time: time.Now(), Identity: a.identity, Profile: "rpc", Request: x.Request, Answer: x.Answer, OK: true,
						Crossing: audit.Crossing{MsgID: x.MsgID, ProfileID: x.ProfileID, MsgType: x.MsgType, AnswerType: x.AnswerType, Complete: true},
					})
					if i%500 == 0 {
						trail.Commit()
					}
				}
			}
			r, err := audit.ParseReceipt(a.made(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := trail.Receipt("a", r); err != nil {
				t.Fatal(err)
			}
			append(10, maxKnown+2)
			trail.Find(&audit.PartnerFinding{About: audit.OfReceipt, Partner: "a", Identity: a.identity, What: unlisted, Text: "two gave way", Of: of - maxKnown})
			append(10+maxKnown+2, row.since)
			if err := trail.Close(); err != nil {
				t.Fatal(err)
			}
			b.open()
			b.book.Recover(audit.Exchanged(t.Context(), dir, 64<<20))
			b.acquaint()
			b.run()
			time.Sleep(2 * reportEach)
			got := b.unlistedAt()
			if len(got) != min(row.since, 1) || row.since > 0 && !strings.Contains(got[0], row.want) || b.status().Unlisted != uint64(row.since) {
				t.Errorf("%d since: %q, %d", row.since, got, b.status().Unlisted)
			}
		})
	}
}

// A receipt about nothing that is known here must not keep later ones out, whatever its number is.
func TestAReceiptAboutUnknownExchangesTakesNoNumber(t *testing.T) {
	virtually(t, func(t *testing.T, a, b *end) {
		about := func(r *audit.Receipt) { r.Number, r.Exchanges = math.MaxUint64, []audit.Exchange{exchange(99, true)} }
		answer, err := b.book.Receive(t.Context(), &profiles.Peer{Identity: a.identity}, a.made(about))
		if err != nil || len(answer) != 2 || answer[0] != answerSorted || answer[1] != sortUnknown {
			t.Errorf("%x, %v", answer, err)
		}
		time.Sleep(every)
		asks(a, b, 1, 3)
		time.Sleep(2 * every)
		if s := b.status(); s.Received != 1 || s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}
