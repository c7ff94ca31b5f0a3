package audit

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const node = "spiffe://acme.example/swpd"

func newCertificate(t *testing.T) *tls.Certificate {
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
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// kept is a trail of a test, and the certificate it is signed with.
type kept struct {
	*Trail
	dir  string
	cert *tls.Certificate
}

func open(t *testing.T, dir string, cert *tls.Certificate, size int64) *kept {
	t.Helper()
	trail, err := Open(Options{Dir: dir, Size: size, Identity: func() string { return node }, Certificate: func() *tls.Certificate { return cert }})
	if err != nil {
		t.Fatal(err)
	}
	return &kept{trail, dir, cert}
}

func (k *kept) trust(identity string, chain []*x509.Certificate, _ time.Time) error {
	if identity != node || !bytes.Equal(chain[0].Raw, k.cert.Certificate[0]) {
		return errors.New("not the endpoint")
	}
	return nil
}

func (k *kept) close(t *testing.T) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// append adds n exchanges.
func (k *kept) append(n int) {
	for i := range n {
		k.Append(&Record{Time: time.Now(), Took: time.Millisecond, Identity: "spiffe://acme.example/alice", Profile: "rpc", Operation: "call",
			Name: fmt.Sprintf("method-%d", i), Rule: "access.rules[0]", Outcome: "ok", OK: true, In: 64, Out: uint64(i), Request: Sum{1}, Answer: Sum{2}, Transport: "tls", Session: 7})
		if i%10 == 0 {
			k.Commit()
		}
	}
	k.Commit()
}

func (k *kept) verify(t *testing.T) (Result, []Finding) {
	t.Helper()
	var all []Finding
	r, err := Verify(t.Context(), Verification{Dir: k.dir, Trust: k.trust, Found: func(f Finding) { all = append(all, f) }})
	if err != nil {
		t.Fatal(err)
	}
	return r, all
}

// lines returns the lines of a segment.
func (k *kept) lines(t *testing.T, number int) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, segmentName(number)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

func (k *kept) write(t *testing.T, number int, lines []string) {
	t.Helper()
	text := strings.Join(lines, "")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := os.WriteFile(filepath.Join(k.dir, segmentName(number)), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestATrailThatNobodyTouchedVerifies(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	k.append(1000)
	k.close(t)
	r, faults := k.verify(t)
	// start, certificate, checkpoint, the exchanges, checkpoint
	if len(faults) > 0 || r.Records != 1004 || r.First != 1 || r.Last != 1004 || r.Proven != 1003 {
		t.Errorf("%+v with %v", r, faults)
	}
}

func TestRecordsAreJSONWithTheirOctetsEscaped(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	name := "a\"b\\c\n\x00\xff é\u2028"
	k.Append(&Record{Time: time.Unix(0, 0), Identity: "x", Name: name, Hints: "region=eu", Outcome: "denied"})
	k.close(t)
	var got map[string]any
	if err := json.Unmarshal([]byte(k.lines(t, 1)[3]), &got); err != nil {
		t.Fatal(err)
	}
	want := strings.ToValidUTF8(name, "\ufffd")
	if got["swp.name"] != want || got["event.outcome"] != "failure" || got["@timestamp"] != "1970-01-01T00:00:00.000000000Z" || got["swp.hints"] != "region=eu" {
		t.Errorf("%v", got)
	}
}

func TestATrailGoesOnAfterAKill(t *testing.T) {
	cert := newCertificate(t)
	k := open(t, t.TempDir(), cert, 0)
	k.append(10)
	// What a kill leaves: no last checkpoint, and half a line.
	path := filepath.Join(k.dir, segmentName(1))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k.close(t)
	if err := os.WriteFile(path, append(before, `{"@timestamp":"2026`...), 0o600); err != nil {
		t.Fatal(err)
	}
	k = open(t, k.dir, cert, 0)
	k.append(10)
	k.close(t)
	if r, faults := k.verify(t); len(faults) > 0 || r.Proven != r.Last-1 || r.Records != 3+10+3+10+1 {
		t.Errorf("%+v with %v", r, faults)
	}
}

func TestADamagedLastRecordIsFoundAfterARestart(t *testing.T) {
	cert := newCertificate(t)
	for name, junk := range map[string]string{"one line": "no record\n", "lines and half a line": "no record\n{}\n{\"@time"} {
		t.Run(name, func(t *testing.T) {
			k := open(t, t.TempDir(), cert, 0)
			k.append(10)
			k.close(t)
			lines := k.lines(t, 1)
			path := filepath.Join(k.dir, segmentName(1))
			if err := os.WriteFile(path, []byte(strings.Join(lines[:len(lines)-1], "")+junk), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				k = open(t, k.dir, cert, 0)
				k.append(10)
				k.close(t)
			}
			want := strings.Count(junk, "\n")
			if _, faults := k.verify(t); len(faults) != want || faults[0].Segment != 1 || faults[0].Line != len(lines) {
				t.Errorf("%v, want %d faults from line %d of segment 1 on", faults, want, len(lines))
			}
		})
	}
}

func TestTheOldestSegmentsGoWithARecordOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 256 << 10
		k := open(t, t.TempDir(), newCertificate(t), size)
		for range 60 {
			k.append(50)
			time.Sleep(flushEvery)
		}
		k.close(t)
		r, faults := k.verify(t)
		if len(faults) > 0 || r.First == 1 || r.Last-r.Proven != 1 {
			t.Errorf("%+v with %v", r, faults)
		}
		list, err := segments(k.dir)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, s := range list {
			sum += s.size
		}
		if sum > size+2*size/fewest {
			t.Errorf("%d octets in %d segments, want about %d", sum, len(list), size)
		}
		if err := os.Remove(filepath.Join(k.dir, segmentName(list[0].number))); err != nil {
			t.Fatal(err)
		}
		if _, faults := k.verify(t); len(faults) != 1 || !strings.Contains(faults[0].Text, "removed for room") {
			t.Errorf("one segment more is missing: %v", faults)
		}
	})
}

func TestACheckpointIsMadeEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, t.TempDir(), newCertificate(t), 0)
		k.append(1)
		time.Sleep(checkpointEvery + flushEvery)
		synctest.Wait()
		if r, _ := k.verify(t); r.Proven != 4 {
			t.Errorf("%+v, want 4 records proven", r)
		}
		time.Sleep(10 * checkpointEvery)
		synctest.Wait()
		if r, _ := k.verify(t); r.Last != 5 {
			t.Errorf("%+v, want no checkpoint of nothing", r)
		}
		k.close(t)
	})
}

func TestATrailIsWrittenByOne(t *testing.T) {
	cert := newCertificate(t)
	k := open(t, t.TempDir(), cert, 0)
	o := Options{Dir: k.dir, Identity: func() string { return node }, Certificate: func() *tls.Certificate { return cert }}
	if _, err := Open(o); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	k.close(t)
	if r, faults := k.verify(t); len(faults) > 0 || r.Records != 4 {
		t.Errorf("%+v with %v", r, faults)
	}
	open(t, k.dir, cert, 0).close(t)
}

func TestAnotherKeyProvesNothing(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	k.append(1)
	k.close(t)
	k.cert = newCertificate(t)
	if r, faults := k.verify(t); r.Proven != 0 || len(faults) != 2 {
		t.Errorf("%+v with %v", r, faults)
	}
}

// Whoever changes a record and makes the chain anew has no key.
func TestAChainMadeAnewIsFoundByItsCheckpoint(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	k.append(100)
	k.close(t)
	lines := k.lines(t, 1)
	lines[50] = strings.Replace(lines[50], "alice", "mallo", 1)
	var c chain
	for i, text := range lines {
		s, ok := parse([]byte(strings.TrimSuffix(text, "\n")))
		if !ok {
			t.Fatal(text)
		}
		body, _, _ := bytes.Cut(s.body, []byte(sequenceMember))
		lines[i] = string(c.seal(bytes.Clone(body), 0))
	}
	k.write(t, 1, lines)
	if r, faults := k.verify(t); r.Proven != 2 || len(faults) != 1 || !strings.Contains(faults[0].Text, "proves nothing") {
		t.Errorf("%+v with %v", r, faults)
	}
}

func TestRecordsThatCannotBeWrittenAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		cert := newCertificate(t)
		dir := t.TempDir()
		trail, err := Open(Options{
			Dir: dir, Identity: func() string { return node }, Certificate: func() *tls.Certificate { return cert },
			Failed: func(err error) { told = append(told, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		k := &kept{trail, dir, cert}
		trail.file.Lock()
		good := trail.f
		trail.f, err = os.Open(filepath.Join(dir, segmentName(1))) // for reading
		trail.file.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		k.append(3)
		if trail.Err() == nil {
			t.Error("records that cannot be written are no failure")
		}
		trail.file.Lock()
		err = trail.f.Close()
		trail.f = good
		trail.file.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * flushEvery)
		synctest.Wait()
		if err := trail.Err(); err != nil || len(told) != 2 || told[0] == nil || told[1] != nil {
			t.Errorf("error %v, told %v", err, told)
		}
		k.close(t)
		if r, faults := k.verify(t); len(faults) > 0 || r.Records != 7 {
			t.Errorf("%+v with %v", r, faults)
		}
	})
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	k.close(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, Verification{Dir: k.dir, Trust: k.trust, Found: func(Finding) {}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
