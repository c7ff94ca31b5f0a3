package audit

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

const far = "spiffe://other.example/swpd"

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, key, cert}
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue returns a certificate of an identity. Its chain has the authority, too.
func (a *authority) issue(identity string, public, private any) *tls.Certificate {
	a.t.Helper()
	u, err := url.Parse(identity)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{u}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: private}
}

func (a *authority) endpoint(identity string) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.issue(identity, key.Public(), key)
}

// crossings returns statements about n exchanges.
func crossings(n int) (list []Exchange) {
	at := time.UnixMilli(1_790_000_000_123).UTC()
	for i := range n {
		x := Exchange{
			Asked: i%2 == 0, Complete: i%3 != 0, MsgID: fmt.Appendf(nil, "msg-%08d", i), ProfileID: uint64(i), MsgType: 1,
			Request: sha256.Sum256(fmt.Append(nil, "request", i)), Began: at, Ended: at.Add(time.Duration(i) * time.Millisecond),
		}
		if i%4 != 3 {
			x.AnswerType, x.Answer = 2, sha256.Sum256(fmt.Append(nil, "answer", i))
		}
		if i%5 == 0 {
			x.Caller = Sum{1}
		}
		if i%7 == 0 {
			x.Target = Sum{2}
		}
		list = append(list, x)
	}
	return list
}

func signedBy(t *testing.T, cert *tls.Certificate, n int) *Receipt {
	t.Helper()
	r := &Receipt{Signer: far, Partner: node, Number: 7, Time: time.Now().Truncate(time.Millisecond).UTC(), Exchanges: crossings(n)}
	if err := r.Sign(cert); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAReceiptIsReadAsItWasSigned(t *testing.T) {
	ca := newAuthority(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, cert := range []*tls.Certificate{ca.endpoint(far), ca.issue(far, ed.Public(), ed), ca.issue(far, rs.Public(), rs)} {
		for _, n := range []int{1, 2, 3, 64, MaxExchanges} {
			want := signedBy(t, cert, n)
			octets := want.Append(nil)
			got, err := ParseReceipt(octets)
			if err != nil {
				t.Fatalf("%d exchanges: %v", n, err)
			}
			if err := got.Verify(TrustOf(far, ca.roots())); err != nil {
				t.Errorf("%d exchanges: %v", n, err)
			}
			if !bytes.Equal(got.Append(nil), octets) || got.Number != 7 || !got.Time.Equal(want.Time) || len(got.Exchanges) != n {
				t.Errorf("%d exchanges: read another receipt", n)
			}
			for i := range got.Exchanges {
				a, b := fmt.Sprint(got.Exchanges[i]), fmt.Sprint(want.Exchanges[i])
				if a != b {
					t.Fatalf("exchange %d of %d: %s, want %s", i, n, a, b)
				}
			}
		}
	}
}

func TestAReceiptHasBounds(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.endpoint(far)
	for _, row := range []struct {
		what string
		edit func(r *Receipt)
		ok   bool
	}{
		{"the most exchanges", func(r *Receipt) { r.Exchanges = crossings(MaxExchanges) }, true},
		{"one more", func(r *Receipt) { r.Exchanges = crossings(MaxExchanges + 1) }, false},
		{"the longest name", func(r *Receipt) { r.Signer = strings.Repeat("a", maxName) }, true},
		{"one octet more", func(r *Receipt) { r.Signer = strings.Repeat("a", maxName+1) }, false},
		{"the longest msg_id", func(r *Receipt) { r.Exchanges[0].MsgID = make([]byte, 64) }, true},
		{"a longer one", func(r *Receipt) { r.Exchanges[0].MsgID = make([]byte, 65) }, false},
		{"the shortest msg_id", func(r *Receipt) { r.Exchanges[0].MsgID = make([]byte, 8) }, true},
		{"a shorter one", func(r *Receipt) { r.Exchanges[0].MsgID = make([]byte, 7) }, false},
		{"the most certificates", func(r *Receipt) { r.Chain = make([][]byte, maxChain) }, true},
		{"one certificate more", func(r *Receipt) { r.Chain = make([][]byte, maxChain+1) }, false},
		{"the largest chain", func(r *Receipt) { r.Chain = [][]byte{make([]byte, maxChainSize/2), make([]byte, maxChainSize/2)} }, true},
		{"a larger one", func(r *Receipt) { r.Chain = [][]byte{make([]byte, maxChainSize/2), make([]byte, maxChainSize/2+1)} }, false},
		{"the longest signature", func(r *Receipt) { r.Signature = make([]byte, maxSignature) }, true},
		{"a longer signature", func(r *Receipt) { r.Signature = make([]byte, maxSignature+1) }, false},
	} {
		r := signedBy(t, cert, 3)
		row.edit(r)
		if _, err := ParseReceipt(r.Append(nil)); (err == nil) != row.ok {
			t.Errorf("%s: %v", row.what, err)
		}
	}
	none := append(appendBytes(nil, appendHead(nil, &Receipt{Signer: far, Partner: node}, 0, Sum{})), 0, 0)
	if _, err := ParseReceipt(none); err == nil || !strings.Contains(err.Error(), "0 exchanges") {
		t.Error("a receipt without exchanges was read")
	}
}

// The line of the largest receipt is one that every reader of a trail takes.
func TestTheLargestReceiptFitsIntoALine(t *testing.T) {
	r := signedBy(t, newAuthority(t).endpoint(far), MaxExchanges)
	const most = 1<<64 - 1
	for i := range r.Exchanges {
		r.Exchanges[i] = Exchange{
			Asked: true, Complete: true, MsgID: make([]byte, maxMsgID), ProfileID: most, MsgType: most, Caller: Sum{1}, Target: Sum{1}, Request: Sum{1},
			AnswerType: most, Answer: Sum{1}, Began: time.UnixMilli(1 << 45), Ended: time.UnixMilli(1 << 45),
		}
	}
	r.Signature = make([]byte, maxSignature)
	r.Signer, r.Partner = strings.Repeat("s", maxName), strings.Repeat("p", maxName)
	k := open(t, t.TempDir(), newCertificate(t), 0)
	before := k.written
	if _, err := k.Receipt(strings.Repeat("p", 256), r); err != nil {
		t.Fatal(err)
	}
	if n := k.written - before; n > maxLine-4096 {
		t.Errorf("%d octets", n)
	}
	k.close(t)
}

func TestEveryPrefixOfAReceiptAndEveryChangedOctetIsRefused(t *testing.T) {
	ca := newAuthority(t)
	octets := signedBy(t, ca.endpoint(far), 5).Append(nil)
	trust := TrustOf(far, ca.roots())
	for i := range octets {
		if _, err := ParseReceipt(octets[:i]); err == nil {
			t.Fatalf("the first %d octets of %d are a receipt", i, len(octets))
		}
		changed := bytes.Clone(octets)
		changed[i] ^= 1
		r, err := ParseReceipt(changed)
		if err == nil {
			err = r.Verify(trust)
		}
		// The second certificate is the root itself, which is not needed.
		if err == nil && bytes.Index(octets, ca.cert.Raw) > i {
			t.Errorf("octet %d changed: the receipt is valid", i)
		}
	}
	if _, err := ParseReceipt(append(bytes.Clone(octets), 0)); err == nil {
		t.Error("an octet behind a receipt was taken")
	}
}

func TestAReceiptOfAnotherCountsNothing(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	trust := TrustOf(far, ca.roots())
	for what, cert := range map[string]*tls.Certificate{
		"of a foreign authority": foreign.endpoint(far), "of another identity": ca.endpoint("spiffe://mallory.example/swpd"),
	} {
		if err := signedBy(t, cert, 1).Verify(trust); err == nil {
			t.Errorf("a certificate %s counts", what)
		}
	}
	r := signedBy(t, ca.endpoint(far), 1)
	r.Chain = ca.endpoint(far).Certificate
	if err := r.Verify(trust); err == nil {
		t.Error("the signature of another key counts")
	}
	r.Chain = nil
	if err := r.Verify(trust); err == nil {
		t.Error("a receipt without a certificate counts")
	}
}

func TestEveryLeafOfEveryTreeHasOnePath(t *testing.T) {
	for n := 1; n <= 40; n++ {
		leaves := make([]Sum, n)
		for i := range leaves {
			leaves[i] = leafOf([]byte{byte(i)})
		}
		root := rootOf(leaves)
		for i, leaf := range leaves {
			path := pathOf(leaves, i)
			if got, ok := follow(leaf, i, n, path); !ok || got != root {
				t.Errorf("leaf %d of %d: its path leads elsewhere", i, n)
			}
			for j := range leaves {
				if got, ok := follow(leaf, j, n, path); ok && got == root && j != i {
					t.Errorf("leaf %d of %d is leaf %d, too", i, n, j)
				}
			}
			if _, ok := follow(leaf, i, n, append(path, Sum{})); ok {
				t.Errorf("leaf %d of %d: a longer path is one", i, n)
			}
		}
	}
	// RFC 6962 §2.1: the hash of one leaf is that of its octets behind a zero.
	if rootOf([]Sum{leafOf([]byte("x"))}) != sha256.Sum256([]byte("\x00x")) {
		t.Error("not the hash of a leaf")
	}
}

// crossed adds an exchange with a partner, and returns its sequence.
func (k *kept) crossed(x Exchange) uint64 {
	return k.Append(&Record{
		Time: x.Ended, Took: x.Ended.Sub(x.Began), Identity: far, Partner: "other", Sent: x.Asked, Profile: "rpc", Operation: "call", Outcome: "ok", OK: true,
		Request: x.Request, Answer: x.Answer,
		Crossing: Crossing{
			MsgID: x.MsgID, ProfileID: x.ProfileID, MsgType: x.MsgType, AnswerType: x.AnswerType, Caller: x.Caller, Target: x.Target, Complete: x.Complete,
		},
	})
}

// mirrored returns the statements of the other end.
func mirrored(list []Exchange) (others []Exchange) {
	for _, x := range list {
		x.Asked = !x.Asked
		x.Began, x.Ended = x.Began.Add(time.Millisecond), x.Ended.Add(-time.Millisecond) // by its clock
		others = append(others, x)
	}
	return others
}

func TestAnExchangeIsProvenByTheReceiptOfTheOtherEnd(t *testing.T) {
	ca := newAuthority(t)
	k := open(t, t.TempDir(), newCertificate(t), 0)
	list := crossings(9)
	var sequences []uint64
	for _, x := range list {
		sequences = append(sequences, k.crossed(x))
	}
	lone := k.crossed(crossings(10)[9])
	k.append(1)
	r := &Receipt{Signer: far, Partner: node, Number: 1, Time: time.Now(), Exchanges: mirrored(list)}
	r.Exchanges[4].Request = Sum{9}
	if err := r.Sign(ca.endpoint(far)); err != nil {
		t.Fatal(err)
	}
	at, err := k.Receipt("other", r)
	if err != nil {
		t.Fatal(err)
	}
	for i, sequence := range sequences {
		p, err := Prove(t.Context(), k.dir, sequence)
		if i == 4 {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in record %d differs from record %d in its request", at, sequence)) {
				t.Errorf("an exchange that the other end tells otherwise: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		octets, err := p.Octets()
		if err != nil {
			t.Fatal(err)
		}
		got, err := CheckProof(octets, TrustHolders(ca.roots()))
		if err != nil {
			t.Fatalf("exchange %d: %v", i, err)
		}
		x := &list[i]
		if got.Signer != far || got.Partner != node || got.Request != text(x.Request) || got.Answer != text(x.Answer) || got.MsgID != fmt.Sprintf("%x", x.MsgID) ||
			(got.Side == "asked") == x.Asked || got.Complete != x.Complete || got.Caller != text(x.Caller) || got.Target != text(x.Target) {
			t.Errorf("exchange %d: %+v", i, got)
		}
	}
	for sequence, want := range map[uint64]string{
		lone: "no receipt of " + far, lone + 1: "not an exchange with a partner", 1: "is not an exchange", 10_000: "no record 10000", at: "is not an exchange",
	} {
		if _, err := Prove(t.Context(), k.dir, sequence); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("record %d: %v, want %q", sequence, err, want)
		}
	}
	k.close(t)
	if _, faults := k.verify(t); len(faults) > 0 {
		t.Error(faults)
	}
}

// proofOf returns the file of a proof.
func proofOf(t *testing.T, ca *authority) []byte {
	t.Helper()
	p, err := NewProof(signedBy(t, ca.endpoint(far), 11), 6)
	if err != nil {
		t.Fatal(err)
	}
	octets, err := p.Octets()
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

func TestAProofWithOneChangedOctetFails(t *testing.T) {
	ca := newAuthority(t)
	octets := proofOf(t, ca)
	trust := TrustHolders(ca.roots())
	if _, err := CheckProof(octets, trust); err != nil {
		t.Fatal(err)
	}
	for i := range octets {
		for _, with := range []byte{octets[i] ^ 1, octets[i] ^ 0x20, ' '} {
			if with == octets[i] {
				continue
			}
			changed := bytes.Clone(octets)
			changed[i] = with
			if _, err := CheckProof(changed, trust); err == nil {
				t.Fatalf("octet %d is %q in place of %q: the proof counts", i, with, octets[i])
			}
		}
		if _, err := CheckProof(octets[:i], trust); err == nil {
			t.Fatalf("the first %d octets of %d are a proof", i, len(octets))
		}
		if _, err := CheckProof(append(bytes.Clone(octets[:i]), octets[i+1:]...), trust); err == nil {
			t.Fatalf("without octet %d it is a proof", i)
		}
	}
	if _, err := CheckProof(append(octets, '\n'), trust); err == nil {
		t.Error("a line feed was added")
	}
}

// Whoever writes a file of his own, with a sum that fits, proves nothing that was not signed.
func TestAProofThatWasMadeUpFails(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	octets := proofOf(t, ca)
	trust := TrustHolders(ca.roots())
	another := signedBy(t, ca.endpoint(far), 11)
	another.Number++
	other, err := NewProof(another, 5)
	if err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(p *Proof){
		"another exchange":      func(p *Proof) { p.Exchange = other.Exchange },
		"another index":         func(p *Proof) { p.Index = 5 },
		"an index below":        func(p *Proof) { p.Index = -1 },
		"an index above":        func(p *Proof) { p.Index = 11 },
		"another receipt":       func(p *Proof) { p.Receipt = other.Receipt },
		"another signature":     func(p *Proof) { p.Signature = other.Signature },
		"no certificate":        func(p *Proof) { p.Certificates = nil },
		"another certificate":   func(p *Proof) { p.Certificates = foreign.endpoint(far).Certificate },
		"a shorter path":        func(p *Proof) { p.Path = p.Path[1:] },
		"no path":               func(p *Proof) { p.Path = nil },
		"a hash that is none":   func(p *Proof) { p.Path[0] = p.Path[0][:62] },
		"a longer hash":         func(p *Proof) { p.Path[0] += "00" },
		"another text":          func(p *Proof) { p.Request = p.MsgID },
		"another signer":        func(p *Proof) { p.Signer = "spiffe://mallory.example/swpd" },
		"octets behind":         func(p *Proof) { p.Exchange = append(p.Exchange, 0) },
		"another of its kind":   func(p *Proof) { p.Version = 2 },
		"the side of the other": func(p *Proof) { p.Side = "answered"; p.Complete = !p.Complete },
	} {
		p := new(Proof)
		if err := json.Unmarshal(octets, p); err != nil {
			t.Fatal(err)
		}
		edit(p)
		changed, err := p.Octets()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CheckProof(changed, trust); err == nil {
			t.Errorf("with %s it is a proof", what)
		}
	}
	if _, err := CheckProof(octets, TrustHolders(foreign.roots())); err == nil {
		t.Error("an authority that is not named counts")
	}
	if _, err := CheckProof(octets, TrustOf(node, ca.roots())); err == nil {
		t.Error("another signer counts")
	}
	late := func(signer string, chain []*x509.Certificate, at time.Time) error {
		return TrustHolders(ca.roots())(signer, chain, at.Add(2*time.Hour))
	}
	if _, err := CheckProof(octets, late); !errors.As(err, new(x509.CertificateInvalidError)) {
		t.Errorf("a certificate that has expired: %v", err)
	}
	large := append(bytes.Repeat([]byte{' '}, MaxProof), octets...)
	if _, err := CheckProof(large, trust); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("a file of %d octets: %v", len(large), err)
	}
}

// The certificates of a receipt are in its segment, and a receipt whose signature does not
// fit is a fault.
func TestReceiptsAreVerifiedWithTheTrail(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.endpoint(far)
	k := open(t, t.TempDir(), newCertificate(t), 0)
	for i := range 3 {
		k.append(2)
		for range 2 {
			if _, err := k.Receipt("other", signedBy(t, cert, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if i == 2 {
			break
		}
		k.file.Lock()
		err := k.rotate()
		k.file.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	forged := signedBy(t, cert, 3)
	forged.Signature[5] ^= 1
	at, err := k.Receipt("other", forged)
	if err != nil {
		t.Fatal(err)
	}
	k.close(t)
	r, faults := k.verify(t)
	if len(faults) != 1 || faults[0].Sequence != at || r.Segments != 3 {
		t.Errorf("%+v with %v, want a fault at %d", r, faults, at)
	}
	for n := 1; n <= 3; n++ {
		if got := strings.Count(strings.Join(k.lines(t, n), ""), actionCertificate+`"`); got != 2 {
			t.Errorf("segment %d has %d records of certificates, want 2", n, got)
		}
	}
}

func TestWhatReceiptsAreAboutIsReadFromTheEndOfATrail(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	for i := range 3 {
		for n := range 100 {
			r := Record{Time: time.Now(), Identity: "client", Name: `,"swp.msg_id":"`}
			if n%10 == i {
				r.Crossing = Crossing{MsgID: []byte("12345678"), ProfileID: 12, MsgType: 1}
			}
			k.Append(&r)
		}
		k.file.Lock()
		err := k.rotate()
		k.file.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.close(t)
	list, err := segments(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	var all int64
	for _, s := range list {
		all += s.size
	}
	read := func(octets int64) (sequences []uint64) {
		for e := range Exchanged(t.Context(), k.dir, octets) {
			if _, ok := e.Crossed(); !ok {
				t.Errorf("entry %d is not about an exchange between partners", e.Sequence)
			}
			sequences = append(sequences, e.Sequence)
		}
		return sequences
	}
	whole := read(1 << 40)
	if len(whole) != 30 || !slices.IsSorted(whole) {
		t.Fatalf("the whole trail: %d entries", len(whole))
	}
	if got := read(all); !slices.Equal(got, whole) {
		t.Errorf("all octets: %d entries", len(got))
	}
	if got := read(0); len(got) != 0 {
		t.Errorf("no octets: %d entries", len(got))
	}
	for octets := all; octets > 0; octets -= 997 {
		if got := read(octets); !slices.Equal(got, whole[len(whole)-len(got):]) {
			t.Fatalf("%d octets: entries %v", octets, got)
		}
	}
}
