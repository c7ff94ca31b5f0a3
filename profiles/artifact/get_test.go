package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/transport/endpoint"
)

// chunks asks for an artifact and returns the chunks that it is answered with, up
// to n octets, or the ERR.
func chunks(t testing.TB, p *peer, m *artifact.Get, n int) (list []artifact.Chunk, last e1.Envelope) {
	t.Helper()
	call, err := p.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeGet, Payload: m.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	for octets := 0; ; {
		env, err := call.Recv(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		last = env.Clone()
		if env.MsgType != artifact.TypeChunk {
			return list, last
		}
		var c artifact.Chunk
		if err := c.Decode(last.Payload); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
		if octets += len(c.Data); octets >= n {
			return list, last
		}
	}
}

func TestPR08RangesAreClampedOrRefused(t *testing.T) {
	const size, chunk = 1000, 300
	s := serve(t, "pipe", artifact.Options{Chunk: chunk}, endpoint.Bounds{})
	p := s.dial(alice)
	octets := random(size)
	p.put(t, "a", octets)
	const most = ^uint64(0)
	for _, test := range []struct {
		start, end uint64
		from, to   int // what comes; from < 0: INVALID_RANGE
	}{
		{0, 0, 0, size}, {0, size, 0, size}, {0, size + 1, 0, size}, {0, most, 0, size}, {0, 1, 0, 1}, {999, 0, 999, size},
		{200, 201, 200, 201}, {100, 900, 100, 900}, {299, 301, 299, 301}, {0, chunk, 0, chunk}, {chunk, 2 * chunk, chunk, 2 * chunk},
		{1, 1, 1, 1}, {size, 0, size, size}, {size, size, size, size}, {size, most, size, size},
		{size + 1, 0, -1, 0}, {most, 0, -1, 0}, {most, most, -1, 0}, {size + 1, most, -1, 0}, {2, 1, -1, 0}, {size, 1, -1, 0},
	} {
		name := fmt.Sprintf("%d to %d", test.start, test.end)
		list, last := chunks(t, p, &artifact.Get{ArtifactID: []byte("a"), Start: test.start, End: test.end}, test.to-test.from)
		if test.from < 0 {
			wantErr(t, name, last, artifact.CodeInvalidRange)
			if v := s.on(last); v.Code != profiles.InvalidProfilePayload || v.Reject || len(list) != 0 {
				t.Errorf("%s: %d chunks, verdict %v, reject %v", name, len(list), v.Code, v.Reject)
			}
			continue
		}
		at := test.from
		for i, c := range list {
			want := octets[at:min(at+chunk, test.to)]
			if c.ChunkIndex != uint64(i) || c.Offset != uint64(at) || !bytes.Equal(c.Data, want) || string(c.ArtifactID) != "a" {
				t.Errorf("%s: chunk %d at %d of %d octets, want %d at %d of %d", name, c.ChunkIndex, c.Offset, len(c.Data), i, at, len(want))
			}
			at += len(c.Data)
			if c.IsTerminal != (at == size) || (len(c.ResumeToken) == 0) != c.IsTerminal {
				t.Errorf("%s: chunk that ends at %d: is_terminal %v, token %q", name, at, c.IsTerminal, c.ResumeToken)
			}
		}
		if at != test.to || len(list) != max(1, (test.to-test.from+chunk-1)/chunk) {
			t.Errorf("%s: %d chunks up to %d, want %d", name, len(list), at, test.to)
		}
	}
}

func TestResumeTokens(t *testing.T) {
	key := []byte("a key of this test, thirty-two o")
	store := disk(t, "", filestore.Options{})
	// A place is given back after the end of what was sent is, so there are many.
	s := serve(t, "pipe", artifact.Options{Store: store, Chunk: 100, TokenKey: key, Downloads: 10_000, DownloadsPerIdentity: 10_000}, endpoint.Bounds{ErrorBudget: 10_000})
	p := s.dial(alice)
	octets := random(1000)
	p.put(t, "a", octets)
	p.put(t, "b", octets)
	list, _ := chunks(t, p, &artifact.Get{ArtifactID: []byte("a")}, 1000)
	token := list[3].ResumeToken
	get := func(p *peer, id string, token []byte) (at uint64, last e1.Envelope) {
		list, last := chunks(t, p, &artifact.Get{ArtifactID: []byte(id), Start: 7, ResumeToken: token}, 1)
		if len(list) > 0 {
			at = list[0].Offset
		}
		return at, last
	}
	for i, c := range list[:9] {
		at, last := get(p, "a", c.ResumeToken)
		if at != uint64(i+1)*100 {
			t.Errorf("token of chunk %d: at %d, %q", i, at, last.Payload)
		}
	}
	// Under the same key it is good for another process.
	again := serve(t, "pipe", artifact.Options{Store: store, Chunk: 100, TokenKey: key}, endpoint.Bounds{}).dial(alice)
	if at, _ := get(again, "a", token); at != 400 {
		t.Errorf("after a restart at %d, want 400", at)
	}
	bad := [][]byte{[]byte("x"), []byte("a:400"), token[:len(token)-1], append(bytes.Clone(token), 'A'), append(bytes.Clone(token), '=')}
	for i := range token {
		for _, c := range []byte("Aq-") {
			if token[i] != c {
				tampered := bytes.Clone(token)
				tampered[i] = c
				bad = append(bad, tampered)
			}
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(token))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		tampered := bytes.Clone(raw)
		tampered[i/8] ^= 1 << (i % 8)
		bad = append(bad, []byte(base64.RawURLEncoding.EncodeToString(tampered)))
	}
	for _, token := range bad {
		if _, last := get(p, "a", token); last.MsgType != artifact.TypeErr {
			t.Fatalf("the token %q is good", token)
		} else {
			wantErr(t, "a tampered token", last, artifact.CodeInvalidToken)
		}
	}
	_, last := get(p, "b", token)
	wantErr(t, "token of another artifact", last, artifact.CodeInvalidToken)
	other := serve(t, "pipe", artifact.Options{Store: store, Chunk: 100}, endpoint.Bounds{}).dial(alice)
	_, last = get(other, "a", token)
	wantErr(t, "token of another key", last, artifact.CodeInvalidToken)
	p.put(t, "a", random(999))
	_, last = get(p, "a", token)
	wantErr(t, "token of what was replaced", last, artifact.CodeInvalidToken)
	p.put(t, "a", octets)
	if at, _ := get(p, "a", token); at != 400 {
		t.Errorf("of the same artifact again: at %d, want 400", at)
	}
}

// rules allow what they list, as identity, operation and name.
type rules map[[3]string]bool

func (r rules) Allowed(identity, profile, operation, name string) bool {
	return profile == "artifact" && r[[3]string{identity, operation, name}]
}

func TestPR04WhatIsAnothersIsNotFound(t *testing.T) {
	r := rules{
		{alice, "offer", "a"}: true, {alice, "offer", "shared"}: true, {bob, "offer", "a"}: true,
		{bob, "get", "shared"}: true, {bob, "list", "shared"}: true, {bob, "get", "nothing"}: true,
	}
	s := serve(t, "pipe", artifact.Options{Access: r}, endpoint.Bounds{})
	a, b := s.dial(alice), s.dial(bob)
	a.put(t, "a", []byte("of alice"))
	a.put(t, "shared", []byte("of alice, too"))
	answers := make(map[string][]byte)
	for _, id := range []string{"a", "nothing", "neither"} {
		_, last := chunks(t, b, &artifact.Get{ArtifactID: []byte(id)}, 1)
		answers[id] = last.Payload
	}
	for id, payload := range answers {
		if !bytes.Equal(payload, answers["nothing"]) {
			t.Errorf("%q is answered with %q, what is not there with %q", id, payload, answers["nothing"])
		}
	}
	wantErr(t, "CHUNK of another's upload", ask(t, b.lane(t), piece("shared", 0, 0, []byte("x"), true)), artifact.CodeNotFound)
	wantErr(t, "OFFER without a rule", offer(t, b.lane(t), offerOf("shared", []byte("x"))), "SECURITY_POLICY")
	b.wantOctets(t, "shared", []byte("of alice, too"))
	// Whoever offers the same artifact_id has one of its own.
	wantSilence(t, "OFFER of bob's a", offer(t, b.lane(t), offerOf("a", []byte("of bob, and longer"))))
	b.wantNone(t)
	b.put(t, "a", []byte("of bob, and longer"))
	b.wantOctets(t, "a", []byte("of bob, and longer"))
	a.wantOctets(t, "a", []byte("of alice"))
	if was := forget(t, s, bob, "shared"); was != (artifact.Forgotten{}) {
		t.Errorf("of another's artifact %+v was forgotten", was)
	}
	a.wantOctets(t, "shared", []byte("of alice, too"))
	if was := forget(t, s, bob, "a"); was != (artifact.Forgotten{Artifact: true}) {
		t.Errorf("an artifact was forgotten as %+v", was)
	}
	b.wantNone(t)
	a.wantOctets(t, "a", []byte("of alice"))
	ids := func(identity string) (ids []string) {
		for _, e := range list(t, s, identity, artifact.ListParams{}).Artifacts {
			ids = append(ids, e.ArtifactID)
		}
		return ids
	}
	if got := ids(alice); !slices.Equal(got, []string{"a", "shared"}) {
		t.Errorf("alice sees %q", got)
	}
	if got := ids(bob); !slices.Equal(got, []string{"shared"}) {
		t.Errorf("bob sees %q", got)
	}
}

func TestOthersGetTheOneThatWasCompletedFirst(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	a, b, c := s.dial("z first"), s.dial("a second"), s.dial("reader")
	a.put(t, "x", []byte("first"))
	b.put(t, "x", []byte("second"))
	c.wantOctets(t, "x", []byte("first"))
	b.wantOctets(t, "x", []byte("second"))
	if got := list(t, s, "reader", artifact.ListParams{}); len(got.Artifacts) != 1 || got.Artifacts[0].Size != 5 || got.Artifacts[0].Own {
		t.Errorf("listed: %+v", got.Artifacts)
	}
	if got := list(t, s, "a second", artifact.ListParams{ArtifactID: "x"}); len(got.Artifacts) != 1 || got.Artifacts[0].Size != 6 || !got.Artifacts[0].Own {
		t.Errorf("listed to the second: %+v", got.Artifacts)
	}
	a.put(t, "x", []byte("first, later"))
	c.wantOctets(t, "x", []byte("first, later"))
	forget(t, s, "z first", "x")
	c.wantOctets(t, "x", []byte("second"))
	a.put(t, "x", []byte("first, again"))
	c.wantOctets(t, "x", []byte("second"))
}

func TestList(t *testing.T) {
	effort.Unwatched(t)
	s := serve(t, "pipe", artifact.Options{MaxMetadata: 1 << 20}, endpoint.Bounds{})
	p := s.dial(alice)
	var want []string
	for i := range 250 {
		id := fmt.Sprintf("id %03d", i)
		if i == 7 {
			id = "id 006\x00after"
		}
		u := upload(id, []byte(id))
		u.Metadata = []byte("metadata of " + id)
		if err := u.Send(patient(t), p); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	var got []string
	in := artifact.ListParams{}
	for _, n := range []int{100, 100, 50} {
		page := list(t, s, bob, in)
		if len(page.Artifacts) != n || (page.Next == "") != (n == 50) {
			t.Fatalf("%d on a page, next %q, want %d", len(page.Artifacts), page.Next, n)
		}
		for _, e := range page.Artifacts {
			got = append(got, e.ArtifactID)
			sum := sha256.Sum256([]byte(e.ArtifactID))
			if e.Size != uint64(len(e.ArtifactID)) || e.SHA256 != hex.EncodeToString(sum[:]) || e.Own || e.Completed.IsZero() ||
				string(e.Metadata) != "metadata of "+e.ArtifactID {
				t.Errorf("entry %+v", e)
			}
		}
		in.After = page.Next
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	if one := list(t, s, alice, artifact.ListParams{ArtifactID: "id 006"}); len(one.Artifacts) != 1 || !one.Artifacts[0].Own {
		t.Errorf("one artifact: %+v", one)
	}
	if page := list(t, s, alice, artifact.ListParams{Limit: 2, After: "id 006"}); len(page.Artifacts) != 2 || page.Artifacts[0].ArtifactID != want[7] {
		t.Errorf("two after id 006: %+v", page)
	}
	for _, params := range []string{"x", `{"limit":-1}`, `[]`, `{"after":"` + string(make([]byte, 10_000)) + `"}`} {
		if _, err := s.service.List(t.Context(), &profiles.Peer{Identity: alice}, []byte(params)); profiles.AsError(err).Code != profiles.InvalidProfilePayload {
			t.Errorf("params %.20q: %v", params, err)
		}
	}
	// Large metadata is spread over pages.
	for i := range 4 {
		u := upload(fmt.Sprint("large ", i), []byte{byte(i)})
		u.Metadata = bytes.Repeat([]byte{byte(i)}, 600<<10)
		if err := u.Send(patient(t), p); err != nil {
			t.Fatal(err)
		}
	}
	page := list(t, s, alice, artifact.ListParams{After: "id 999"})
	if len(page.Artifacts) != 2 || page.Next != "large 1" {
		t.Errorf("%d with large metadata on a page, next %q", len(page.Artifacts), page.Next)
	}
	if rest := list(t, s, alice, artifact.ListParams{After: page.Next}); len(rest.Artifacts) != 2 || rest.Next != "" {
		t.Errorf("then %d, next %q", len(rest.Artifacts), rest.Next)
	}
}

func TestTooManyDownloadsAreRefused(t *testing.T) {
	gate := &slowReads{Blobs: disk(t, "", filestore.Options{}), in: make(chan struct{}, 9), out: make(chan struct{})}
	s := serve(t, "pipe", artifact.Options{Store: gate, Downloads: 3, DownloadsPerIdentity: 2}, endpoint.Bounds{})
	a, b := s.dial(alice), s.dial(bob)
	a.put(t, "a", []byte("x"))
	m := &artifact.Get{ArtifactID: []byte("a")}
	get := func(p *peer) profiles.Call {
		call, err := p.Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeGet, Payload: m.Append(nil)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(call.Close)
		return call
	}
	waiting := []profiles.Call{get(a), get(a), get(b)}
	for range waiting {
		<-gate.in
	}
	for _, p := range []*peer{a, b} { // one is above its own bound, one above that of all
		env, err := get(p).Recv(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, "one more", *env, "RATE_LIMIT_EXCEEDED")
	}
	close(gate.out)
	for _, call := range waiting {
		if env, err := call.Recv(patient(t)); err != nil || env.MsgType != artifact.TypeChunk {
			t.Errorf("%v, %v", env, err)
		}
	}
}

// slowReads is a store whose reads wait.
type slowReads struct {
	store.Blobs
	in, out chan struct{}
}

func (s *slowReads) ReadAt(ctx context.Context, name string, version uint64, p []byte, at uint64) (int, bool, error) {
	s.in <- struct{}{}
	<-s.out
	return s.Blobs.ReadAt(ctx, name, version, p, at)
}

// counted is a store that counts what is read.
type counted struct {
	store.Blobs
	octets int
}

func (c *counted) ReadAt(_ context.Context, _ string, _ uint64, p []byte, _ uint64) (int, bool, error) {
	c.octets += len(p)
	return len(p), true, nil
}

func (c *counted) Blob(_ context.Context, name string) (store.BlobInfo, bool, error) {
	return store.BlobInfo{Name: name, Version: 1, Size: 1 << 40, Mark: 1, Tag: append([]byte{0, 0, 1, 0, 0, 0, 0, 0}, make([]byte, 64)...)}, true, nil
}

func TestRS05AReaderThatDoesNotReadHoldsTwoChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{}
		s := serve(t, "pipe", artifact.Options{Store: store, Chunk: 100_000}, endpoint.Bounds{})
		conn := s.reach.Connect(alice)
		stream, err := conn.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := artifact.Get{ArtifactID: []byte("a")}
		env := e1.Envelope{
			Version: 1, ProfileID: artifact.ProfileID, MsgType: artifact.TypeGet, MsgID: []byte("the one and only"), Payload: m.Append(nil),
		}
		if _, err := stream.Write(env.Append(frame.AppendHeader(nil, env.Size()))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if store.octets > 400_000 {
			t.Errorf("%d octets were read for a peer that takes none", store.octets)
		}
		// It is closed like anyone who does not read.
		<-conn.Context().Done()
	})
}

func TestST04DamagedArtifactsAreNotServed(t *testing.T) {
	dir := t.TempDir()
	store := disk(t, dir, filestore.Options{})
	s := serve(t, "pipe", artifact.Options{Store: store, Chunk: 64 << 10}, endpoint.Bounds{})
	p := s.dial(alice)
	octets := random(300_000)
	p.put(t, "a", octets)
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "????????????????????????????????"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[200_000] ^= 1
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := p.get(t, artifact.Download{ArtifactID: "a"})
	wantCode(t, "GET", err, "INTERNAL_ERROR")
	if !bytes.HasPrefix(octets, got) || len(got) > 200_000 {
		t.Errorf("%d octets came of a damaged artifact", len(got))
	}
	p.wantNone(t)
	p.put(t, "a", octets) // a new one takes its place
	p.wantOctets(t, "a", octets)
}

func TestFR08AChunkAboveTheLimitIsNotSent(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{Chunk: artifact.MaxChunk}, endpoint.Bounds{})
	p := s.dial(alice)
	octets := random(artifact.MaxChunk + 1)
	p.put(t, "a", octets)
	p.wantOctets(t, "a", octets)
}

func TestSinksAndSourcesThatFailEndIt(t *testing.T) {
	s := serve(t, "pipe", artifact.Options{}, endpoint.Bounds{})
	p := s.dial(alice)
	p.put(t, "a", random(1000))
	full := errors.New("disk full")
	d := artifact.Download{ArtifactID: "a", Sink: func(*artifact.Chunk) error { return full }}
	if at, err := d.Receive(patient(t), p); !errors.Is(err, full) || at != 0 {
		t.Errorf("%d, %v, want the error of the sink", at, err)
	}
	u := upload("b", random(1000))
	u.Octets = bytes.NewReader(random(1000)[:999])
	if err := u.Send(patient(t), p); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want the error of the source", err)
	}
}

func TestRS27DownloadsOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "artifacts: downloads", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		gate := &slowFinds{Blobs: disk(t, "", filestore.Options{}), in: make(chan struct{}), out: map[string]chan struct{}{
			fairtest.Alice: make(chan struct{}), fairtest.Mallory: make(chan struct{}),
		}}
		s := serve(t, "pipe", artifact.Options{Store: gate, Downloads: 16, DownloadsPerIdentity: 16}, endpoint.Bounds{ErrorBudget: 10_000, PaceBudget: 10_000})
		s.dial(bob).put(t, "a", []byte("x"))
		gate.on.Store(true)
		t.Cleanup(func() { gate.on.Store(false) })
		peers := map[string]*peer{}
		m := &artifact.Get{ArtifactID: []byte("a")}
		take := func(who string) bool {
			if peers[who] == nil {
				peers[who] = s.dial(who)
			}
			call, err := peers[who].Call(patient(t), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeGet, Payload: m.Append(nil)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(call.Close)
			refused := make(chan *e1.Envelope, 1)
			ctx, cancel := context.WithCancel(patient(t))
			go func() {
				defer close(refused)
				if env, err := call.Recv(ctx); err == nil {
					refused <- env
				}
			}()
			select {
			case <-gate.in:
				cancel()
				<-refused
				return true
			case env := <-refused:
				cancel()
				wantErr(t, "one more", *env, "RATE_LIMIT_EXCEEDED")
				return false
			}
		}
		return take, func(who string) {
			before := s.service.Pools()[0].Used
			gate.out[who] <- struct{}{}
			for s.service.Pools()[0].Used == before {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// slowFinds is a store in which the artifacts of some identities are found slowly.
type slowFinds struct {
	store.Blobs
	on  atomic.Bool
	in  chan struct{}
	out map[string]chan struct{}
}

func (s *slowFinds) Blob(ctx context.Context, name string) (store.BlobInfo, bool, error) {
	for who, out := range s.out {
		if s.on.Load() && strings.Contains(name, who) {
			s.in <- struct{}{}
			<-out
		}
	}
	return s.Blobs.Blob(ctx, name)
}
