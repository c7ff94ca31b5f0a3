package artifact_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestWhatWasUploadedIsDownloaded(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, kind, artifact.Options{Chunk: 64 << 10}, endpoint.Bounds{})
			p := s.dial(alice)
			for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, effort.Rounds(5 << 20)} {
				octets := random(n)
				u := upload(fmt.Sprint(n), octets)
				u.Chunk = 100_000
				var told []uint64
				u.Progress = func(durable uint64) { told = append(told, durable) }
				if err := u.Send(patient(t), p); err != nil {
					t.Fatalf("%d octets: %v", n, err)
				}
				for i, durable := range told {
					if durable > uint64(n) || i > 0 && durable <= told[i-1] {
						t.Errorf("%d octets: progress %v", n, told)
						break
					}
				}
				p.wantOctets(t, fmt.Sprint(n), octets)
				got, err := p.get(t, artifact.Download{ArtifactID: fmt.Sprint(n), Size: uint64(n), Range: 1 << 20})
				if err != nil || !bytes.Equal(got, octets) {
					t.Errorf("%d octets, their number known: %d, %v", n, len(got), err)
				}
				// Again there is nothing to be sent.
				told = nil
				if err := u.Send(patient(t), p); err != nil || len(told) != 1 {
					t.Errorf("%d octets again: %v, progress %v", n, err, told)
				}
			}
		})
	}
}

func TestChunksComeInOrder(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	octets := []byte("abcdefghi")
	wantErr(t, "CHUNK without an OFFER", ask(t, l, piece("a", 0, 0, octets, true)), artifact.CodeNotFound)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", octets)))
	for range 20 { // it costs nothing
		answer := ask(t, l, piece("a", 1, 3, octets[3:6], false))
		wantErr(t, "chunk 1 first", answer, artifact.CodeOrdering)
		if v := s.on(answer); v.Code != profiles.InvalidProfilePayload || v.Detail != artifact.DetailOrdering || v.Reject {
			t.Errorf("verdict %v, %q, reject %v", v.Code, v.Detail, v.Reject)
		}
	}
	wantSilence(t, "OFFER again", offer(t, l, offerOf("a", octets)))
	wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, octets[:3], false)), 0, 0)
	wantErr(t, "chunk 0 again", ask(t, l, piece("a", 0, 0, octets[:3], false)), artifact.CodeOrdering)
	wantErr(t, "chunk 2", ask(t, l, piece("a", 2, 6, octets[6:], true)), artifact.CodeOrdering)
	p.wantNone(t)
	// The rest without waiting.
	var calls []profiles.Call
	for i := 1; i < 3; i++ {
		m := piece("a", uint64(i), uint64(3*i), octets[3*i:3*i+3], i == 2)
		call, err := l.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeChunk, Payload: m.Append(nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		calls = append(calls, call)
	}
	for i, call := range calls {
		env, err := call.Recv(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		wantAck(t, "a chunk", *env, uint64(i+1), 0)
	}
	p.wantOctets(t, "a", octets)
	wantErr(t, "CHUNK after the end", ask(t, l, piece("a", 3, 9, []byte("x"), true)), artifact.CodeNotFound)
	wantAck(t, "OFFER of what is complete", offer(t, l, offerOf("a", octets)), 2, 9)
	wantAck(t, "that it is complete", ask(t, l, piece("a", 3, 9, nil, true)), 3, 0)
}

func TestPR08WhatDoesNotFitTheOfferIsRefused(t *testing.T) {
	octets := []byte("abcdef")
	const most = ^uint64(0)
	for _, test := range []struct {
		name string
		m    *artifact.Chunk
		code string
		ends bool // and ends the upload
	}{
		{"offset before the end", piece("a", 1, 2, []byte("cd"), false), artifact.CodeInvalidOffset, false},
		{"offset behind the end", piece("a", 1, 4, []byte("e"), false), artifact.CodeInvalidOffset, false},
		{"offset that wraps", piece("a", 1, most, []byte("def"), false), artifact.CodeInvalidOffset, false},
		{"the largest index", piece("a", most, 3, []byte("def"), true), artifact.CodeOrdering, false},
		{"more than was offered", piece("a", 1, 3, []byte("defg"), false), artifact.CodeSizeMismatch, false},
		{"more at the end", piece("a", 1, 3, []byte("defg"), true), artifact.CodeSizeMismatch, true},
		{"less at the end", piece("a", 1, 3, []byte("de"), true), artifact.CodeSizeMismatch, true},
		{"other octets", piece("a", 1, 3, []byte("deF"), true), artifact.CodeIntegrity, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
			p := s.dial(alice)
			p.put(t, "a", []byte("what is there"))
			l := p.lane(t)
			wantSilence(t, "OFFER", offer(t, l, offerOf("a", octets)))
			wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, octets[:3], false)), 0, 0)
			answer := ask(t, l, test.m)
			wantErr(t, test.name, answer, test.code)
			if v := s.on(answer); v.Code != profiles.InvalidProfilePayload || v.Reject == (test.code == artifact.CodeOrdering) {
				t.Errorf("verdict %v, reject %v", v.Code, v.Reject)
			}
			p.wantOctets(t, "a", []byte("what is there"))
			if test.ends {
				wantErr(t, "CHUNK after the end", ask(t, l, piece("a", 1, 3, octets[3:], true)), artifact.CodeNotFound)
				wantSilence(t, "OFFER anew", offer(t, l, offerOf("a", octets)))
				return
			}
			wantAck(t, "OFFER again", offer(t, l, offerOf("a", octets)), 0, 3)
			wantAck(t, "chunk 1", ask(t, l, piece("a", 1, 3, octets[3:], true)), 1, 0)
			p.wantOctets(t, "a", octets)
		})
	}
}

func TestPR08OffersAreRefusedForWhatTheyAnnounce(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{
		Store: disk(t, "", filestore.Options{BlobLimits: store.BlobLimits{Quota: 1 << 20, QuotaPerOwner: 1 << 20}}), MaxSize: 2 << 20, MaxMetadata: 100,
	}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	m := offerOf("a", nil)
	m.TotalSize = 1 << 63
	answer := offer(t, l, m)
	wantErr(t, "total_size 2^63", answer, artifact.CodeTooLarge)
	if v := s.on(answer); v.Code != profiles.InvalidProfilePayload {
		t.Errorf("verdict %v", v.Code)
	}
	m.TotalSize = 2<<20 + 1
	wantErr(t, "total_size above the limit", offer(t, l, m), artifact.CodeTooLarge)
	m.TotalSize = 2 << 20
	wantErr(t, "total_size above the quota", offer(t, l, m), artifact.CodeQuota)
	m.TotalSize, m.Metadata = 1<<20-100, make([]byte, 101)
	wantErr(t, "metadata above the limit", offer(t, l, m), artifact.CodeTooLarge)
	m.Metadata = m.Metadata[:100]
	wantSilence(t, "the largest offer", offer(t, l, m))
	m = offerOf("b", nil)
	m.HashAlg = []byte("sha512")
	wantErr(t, "another hash_alg", offer(t, l, m), artifact.CodeUnsupportedHash)
	wantErr(t, "CHUNK of what was refused", ask(t, l, piece("b", 0, 0, nil, true)), artifact.CodeNotFound)
}

func TestOtherLimitsHoldForOffersThatComeLater(t *testing.T) {
	o := artifact.Options{Store: disk(t, "", filestore.Options{}), MaxSize: 100}
	s := serve(t, "pipe", o, endpoint.Bounds{})
	l := s.dial(alice).lane(t)
	octets := []byte("abcdef")
	wantSilence(t, "an offer", offer(t, l, offerOf("a", octets)))
	o.MaxSize = 5
	if err := s.service.SetLimits(o); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "one above the new limit", offer(t, l, offerOf("b", octets)), artifact.CodeTooLarge)
	wantSilence(t, "one at the new limit", offer(t, l, offerOf("c", octets[:5])))
	wantAck(t, "the upload that was under way", ask(t, l, piece("a", 0, 0, octets, true)), 0, 0)
	o.Window = -1
	if s.service.SetLimits(o) == nil {
		t.Error("a window below 0 is taken")
	}
}

func TestAnotherOfferIsRefusedWhileOneIsUnderWay(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	octets := []byte("abcdef")
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", octets)))
	wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, octets[:3], false)), 0, 0)
	for name, change := range map[string]func(*artifact.Offer){
		"another size":     func(m *artifact.Offer) { m.TotalSize++ },
		"another hash":     func(m *artifact.Offer) { m.Hash[0]++ },
		"another metadata": func(m *artifact.Offer) { m.Metadata = []byte("x") },
	} {
		m := offerOf("a", octets)
		change(m)
		wantErr(t, name, offer(t, l, m), artifact.CodeConflict)
	}
	m := offerOf("a", octets)
	m.HashAlg = []byte("SHA256")
	wantAck(t, "an equal one", offer(t, l, m), 0, 3)
	if was := forget(t, s, alice, "a"); was != (artifact.Forgotten{Upload: true}) {
		t.Errorf("an upload was forgotten as %+v", was)
	}
	wantSilence(t, "another one, after the first was forgotten", offer(t, l, offerOf("a", []byte("x"))))
}

func forget(t testing.TB, s *server, identity, id string) artifact.Forgotten {
	t.Helper()
	var was artifact.Forgotten
	done := make(chan error, 1)
	s.service.Forget(&profiles.Peer{Identity: identity}, []byte(id), func(w artifact.Forgotten, err error) { was = w; done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return was
}

func TestPR09CorruptedUploadsLeaveNothing(t *testing.T) {
	const size = 300_000
	store := disk(t, "", filestore.Options{BlobLimits: store.BlobLimits{QuotaPerOwner: size + 1000}})
	s := serve(t, "pipe", artifact.Options{Store: store}, endpoint.Bounds{})
	p := s.dial(alice)
	octets := random(size)
	for i := range 8 { // each needs the room of the one before
		bad := bytes.Clone(octets)
		bad[i*size/8] ^= 1
		u := upload("a", octets)
		u.Octets, u.Chunk = bytes.NewReader(bad), 50_000
		wantCode(t, "upload", u.Send(patient(t), p), artifact.CodeIntegrity)
		p.wantNone(t)
	}
	p.put(t, "a", octets)
	p.wantOctets(t, "a", octets)
}

// Whatever somebody else offers under the same artifact_id, and however it ends, is
// theirs alone.
func TestPR09TheSameIDOfferedBySomeoneElseHarmsNothing(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	mine, theirs := s.dial(alice), s.dial(bob)
	complete, underWay, other := random(1000), random(2000), random(1500)
	mine.put(t, "a", complete)
	l := mine.lane(t)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", underWay)))
	wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, underWay[:900], false)), 0, 0)
	wantMine := func(when string) {
		t.Helper()
		mine.wantOctets(t, "a", complete)
		wantAck(t, "OFFER again, "+when, offer(t, l, offerOf("a", underWay)), 0, 900)
	}

	m := theirs.lane(t)
	wantErr(t, "a chunk for the upload of another", ask(t, m, piece("a", 1, 900, underWay[900:], true)), artifact.CodeNotFound)
	wantSilence(t, "OFFER of somebody else", offer(t, m, offerOf("a", other)))
	wantAck(t, "chunk 0 of somebody else", ask(t, m, piece("a", 0, 0, other[:500], false)), 0, 0)
	wantMine("with another upload under way")
	wantErr(t, "other octets", ask(t, m, piece("a", 1, 500, complete[:1000], true)), artifact.CodeIntegrity)
	theirs.wantOctets(t, "a", complete) // which the rules let them get
	wantMine("with another upload discarded")
	theirs.put(t, "a", other)
	wantMine("with another artifact complete")
	forget(t, s, bob, "a")
	theirs.wantOctets(t, "a", complete) // which the rules let them get
	wantMine("with another artifact forgotten")

	wantAck(t, "the last chunk", ask(t, l, piece("a", 1, 900, underWay[900:], true)), 1, 0)
	mine.wantOctets(t, "a", underWay)
}

// Peers without an artifact of their own get the one that was completed first, also when its
// owner has replaced it: the artifact of another does not take its place.
func TestPR09AReplacementKeepsItsPlaceBeforeTheArtifactOfAnother(t *testing.T) {
	blobs := disk(t, "", filestore.Options{})
	s := serve(t, "pipe", artifact.Options{Store: blobs}, endpoint.Bounds{})
	mine, theirs, reader := s.dial(alice), s.dial(bob), s.dial("spiffe://test/carol")
	first, other := random(1000), random(1500)
	mine.put(t, "a", first)
	theirs.put(t, "a", other)
	var last []byte
	wantFirst := func(when string, want []byte) {
		t.Helper()
		reader.wantOctets(t, "a", want)
		theirs.wantOctets(t, "a", other)
		page := list(t, s, "spiffe://test/carol", artifact.ListParams{}).Artifacts
		if sum := sha256.Sum256(want); len(page) != 1 || page[0].SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s the list is %+v", when, page)
		}
	}
	for range 3 {
		last = random(900)
		mine.put(t, "a", last)
		wantFirst("after a replacement", last)
	}
	mine.put(t, "a", last) // there is nothing to send
	wantFirst("after an equal offer", last)

	// The place is lost with the artifact, also to an upload that was to replace it.
	l := mine.lane(t)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", first)))
	wantAck(t, "chunk 0", ask(t, l, piece("a", 0, 0, first[:900], false)), 0, 0)
	remove := func(owner string) {
		t.Helper()
		var name string
		if err := blobs.Scan(t.Context(), "a", "", func(b store.BlobInfo) bool {
			if strings.HasSuffix(b.Name, owner) {
				name = b.Name
			}
			return true
		}); err != nil || name == "" {
			t.Fatal(name, err)
		}
		done := make(chan error, 1)
		blobs.Remove(name, 0, func(_ bool, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	remove(alice)
	wantErr(t, "the last chunk", ask(t, l, piece("a", 1, 900, first[900:], true)), artifact.CodeChanged)
	wantFirst("after a removal", other)
	mine.put(t, "a", first)
	wantFirst("after another upload", other)
}

func TestPR09AbandonedUploadsExpire(t *testing.T) {
	effort.Unwatched(t)
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := disk(t, "", filestore.Options{BlobLimits: store.BlobLimits{ItemsPerOwner: 1000}, Now: func() time.Time { return now }})
	s := serve(t, "pipe", artifact.Options{Store: store}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	for i := range 1000 {
		wantSilence(t, "OFFER", offer(t, l, offerOf(fmt.Sprint(i), []byte("x"))))
	}
	wantErr(t, "OFFER over the bound", offer(t, l, offerOf("one more", []byte("x"))), artifact.CodeQuota)
	s.dial(bob).put(t, "another's", []byte("x"))
	now = now.Add(24 * time.Hour)
	wantSilence(t, "OFFER after a day", offer(t, l, offerOf("one more", []byte("x"))))
	wantErr(t, "CHUNK of an abandoned upload", ask(t, l, piece("0", 0, 0, []byte("x"), true)), artifact.CodeNotFound)
}

func TestPR10ArtifactIDsAreOpaque(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{ErrorBudget: 100})
	p := s.dial(alice)
	ids := []string{
		"../../x", "/etc/passwd", "a\x00b", "a", "a\x00\x01" + bob, "é", "e\u0301", "..", " a ", "a/b\r\nc", strings.Repeat("x", artifact.MaxID), "%2e%2e",
	}
	for _, id := range ids {
		p.put(t, id, []byte("octets of "+id))
	}
	for _, id := range ids {
		p.wantOctets(t, id, []byte("octets of "+id))
	}
	for _, id := range []string{strings.Repeat("x", 4096), "\xff", "", "  "} {
		if err := upload(id, nil).Send(patient(t), p); err == nil {
			t.Errorf("%.10q of %d octets is accepted", id, len(id))
		}
	}
	if got := list(t, s, alice, artifact.ListParams{}); len(got.Artifacts) != len(ids) {
		t.Errorf("%d are listed, want %d", len(got.Artifacts), len(ids))
	}
}

func TestTooManyChunksAtOnceAreRefused(t *testing.T) {
	gate := newGate(disk(t, "", filestore.Options{}))
	s := serve(t, "pipe", artifact.Options{Store: gate, Window: 4}, endpoint.Bounds{})
	p := s.dial(alice)
	l := p.lane(t)
	octets := random(8)
	wantSilence(t, "OFFER", offer(t, l, offerOf("a", octets)))
	gate.close()
	var calls []profiles.Call
	for i := range uint64(5) {
		m := piece("a", i, i, octets[i:i+1], false)
		call, err := l.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeChunk, Payload: m.Append(nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		calls = append(calls, call)
	}
	env, err := calls[4].Recv(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, "the fifth chunk", *env, "RATE_LIMIT_EXCEEDED")
	wantErr(t, "OFFER meanwhile", offer(t, l, offerOf("a", octets)), artifact.CodeBusy)
	gate.open()
	for i, call := range calls[:4] {
		env, err := call.Recv(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		wantAck(t, "a chunk", *env, uint64(i), 0)
	}
	wantAck(t, "OFFER", offer(t, l, offerOf("a", octets)), 3, 4)
}

func TestSendGoesOnWithoutSync(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	octets := random(1_000_000)
	u := upload("a", octets)
	u.Sync, u.Chunk, u.Window = nil, 10_000, 8
	first := s.dial(alice)
	u.Progress = func(durable uint64) {
		if durable > 500_000 {
			first.leave()
		}
	}
	if err := u.Send(patient(t), first); err == nil {
		t.Fatal("the connection was lost and nothing is said of it")
	}
	var told []uint64
	u.Progress = func(durable uint64) { told = append(told, durable) }
	p := s.dial(alice)
	if err := u.Send(patient(t), p); err != nil {
		t.Fatal(err)
	}
	if told[0] < 500_000 {
		t.Errorf("it goes on at %d, want behind 500,000", told[0])
	}
	p.wantOctets(t, "a", octets)
	if err := u.Send(patient(t), p); err != nil {
		t.Errorf("of what is complete: %v", err)
	}
}

func TestUploadsGoOnAfterEveryConnectionThatIsLost(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, kind, artifact.Options{}, endpoint.Bounds{})
			octets := random(4 << 20)
			u := upload("a", octets)
			u.Chunk = 64 << 10
			durable := uint64(0)
			for cut := uint64(1); ; cut++ {
				p := s.dial(alice)
				u.Progress = func(now uint64) {
					if now < durable {
						t.Fatalf("%d octets were durable, now %d", durable, now)
					}
					if durable = now; now >= cut<<19 && now < u.Size {
						p.leave()
					}
				}
				err := u.Send(patient(t), p)
				if err == nil { // the last ACKs may have been here when p was told to leave
					s.dial(alice).wantOctets(t, "a", octets)
					return
				}
				if busy := new(profiles.PeerError); cut > 20 {
					t.Fatalf("%v, %v after 20 connections", err, busy)
				}
			}
		})
	}
}

func TestUploadThatAnotherHasCompletedMayBeOfferedAgain(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	octets := random(100_000)
	other := s.dial(alice)
	u := upload("a", octets)
	u.Chunk, u.Window = 10_000, 1
	u.Progress = func(uint64) {
		u.Progress = nil
		second := upload("a", octets)
		if err := second.Send(patient(t), other); err != nil {
			t.Error(err)
		}
	}
	err := u.Send(patient(t), s.dial(alice))
	if refused := new(profiles.PeerError); !asPeerError(err, &refused) || !refused.Retryable() {
		t.Fatalf("%v, want an error after which the artifact may be offered again", err)
	}
	if err := u.Send(patient(t), s.dial(alice)); err != nil {
		t.Error(err)
	}
	s.dial(alice).wantOctets(t, "a", octets)
}

func TestTwoWhoUploadTheSameDoNotHarmIt(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	octets := random(1 << 20)
	errs := make(chan error, 2)
	for range 2 {
		p := s.dial(alice)
		go func() {
			for {
				u := upload("a", octets)
				u.Chunk = 10_000
				err := u.Send(patient(t), p)
				if code := new(profiles.PeerError); err != nil && asPeerError(err, &code) && (code.Retryable() || code.Code == artifact.CodeOrdering) {
					continue
				}
				errs <- err
				return
			}
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	s.dial(alice).wantOctets(t, "a", octets)
}
