// Package artifact is the ARTIFACT profile: large octet strings, offered and
// uploaded in chunks, got in ranges, and never visible before they are verified.
//
//	OFFER           no answer, ACK if something is held already, or ERR
//	CHUNK → ACK     durable; after the last one: complete and verified
//	CHUNK → ERR
//	GET → CHUNK*    the last one ends the range
//	GET → CHUNK* ERR
//
// New builds a Service that keeps artifacts in a Store. Upload and Download are
// the calling side.
//
// # Whose they are
//
// An artifact belongs to the authenticated identity that offered it, and only that
// one changes it. Others that offer the same artifact_id have their own artifact
// and learn nothing of this one. An identity gets its own artifacts; for those of
// others it needs a rule: operation get of profile artifact on the artifact_id. It
// then gets the one that was completed first, or the replacement of that, unless it
// has one of its own. An
// artifact that it may not get is not found.
//
// # Uploads
//
// Chunks come in order, each where the one before has ended, any number of them
// without waiting for an ACK, up to Window. A chunk that is not the next one is
// refused with ORDERING and changes nothing. Whatever stops an upload, it goes on
// after an equal OFFER: the ACK that answers it says which chunk was the last one
// that is durable, and extension 16 how many octets that makes; without an ACK it
// begins. Another OFFER of the same artifact_id is refused until the upload is
// complete, has been forgotten, or was left alone for the time of Abandoned.
//
// The terminal chunk starts the SHA-256 of the octets on disk. If it is not the
// one of the offer, or the size is another, everything that was received is
// discarded. Otherwise the artifact takes the place of the one that its owner had
// under the artifact_id, in one step.
//
// # Downloads
//
// The chunks of an answer fit the limits of the channel, and are numbered from 0.
// None is read before there is room to send it, so that a peer that does not read
// makes one chunk wait. Each but the last of the artifact carries a resume_token: a
// GET with it goes on behind that chunk, and is refused if the artifact is another
// one by then, or the token was not made here.
//
// Specification: SWP profiles §14.
package artifact

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/store"
)

// ProfileID is the profile_id of ARTIFACT, Name its short name.
const (
	ProfileID = 14
	Name      = "artifact"
)

// Names of the RPC methods of the profile.
const (
	MethodList   = "swp.artifacts.list"   // params a ListParams, result a ListResult, as JSON
	MethodForget = "swp.artifacts.forget" // params an artifact_id; deletes the caller's artifact and its upload; result a Forgotten as JSON
)

// Options configure a Service. The zero value stores nothing.
type Options struct {
	// Store stores the artifacts. Nil: offers are refused.
	Store store.Blobs

	// Access is asked for the operation offer on each artifact_id, and for get and list on
	// artifacts of other identities. Nil denies nothing.
	Access profiles.Access

	// MaxSize is the maximum total_size in octets; default 2^62. MaxMetadata is the maximum
	// size of the metadata in octets; default 64 KiB, at most 1 MiB.
	MaxSize     uint64
	MaxMetadata int

	// Window is how many chunks of one upload may wait for their ACK; default 64.
	Window int

	// Chunk is how many octets of data go into one chunk of a download; default
	// 256 KiB, at most MaxChunk. It has to fit the payload limit of the channel.
	Chunk int

	// Downloads is how many GETs are answered at once, which identities share, and
	// DownloadsPerIdentity how many for one; default 256 and 16. More are refused as retryable.
	Downloads, DownloadsPerIdentity int

	// Abandoned is how long an incomplete upload without messages is kept; default 24
	// hours. Retention is how long an artifact is kept after its completion; zero means
	// until its owner deletes or replaces it.
	Abandoned, Retention time.Duration

	// TokenKey is the secret for resume_tokens. Tokens with another key are refused.
	// Default: random, so that tokens end with the process.
	TokenKey []byte
}

// Bounds of the options.
const (
	MaxChunk    = 4 << 20 // octets of data in a chunk that is sent
	maxMetadata = 1 << 20
)

func (o Options) withDefaults() Options {
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	o.MaxSize = cmp.Or(o.MaxSize, 1<<62)
	o.MaxMetadata = cmp.Or(o.MaxMetadata, 64<<10)
	o.Window = cmp.Or(o.Window, 64)
	o.Chunk = cmp.Or(o.Chunk, 256<<10)
	o.Downloads = cmp.Or(o.Downloads, 256)
	o.DownloadsPerIdentity = cmp.Or(o.DownloadsPerIdentity, 16)
	o.Abandoned = cmp.Or(o.Abandoned, 24*time.Hour)
	if len(o.TokenKey) == 0 {
		o.TokenKey = make([]byte, 32)
		_, _ = rand.Read(o.TokenKey) // never fails: it ends the program instead
	}
	return o
}

func (o *Options) validate() error {
	for _, row := range []struct {
		what        string
		value, most int
	}{
		{"MaxMetadata", o.MaxMetadata, maxMetadata},
		{"Window", o.Window, math.MaxInt32},
		{"Chunk", o.Chunk, MaxChunk},
		{"Downloads", o.Downloads, math.MaxInt32},
		{"DownloadsPerIdentity", o.DownloadsPerIdentity, math.MaxInt32},
	} {
		if row.value < 1 || row.value > row.most {
			return fmt.Errorf("artifact: %s %d, want 1 to %d", row.what, row.value, row.most)
		}
	}
	for _, d := range []time.Duration{o.Abandoned, o.Retention} {
		if d < 0 {
			return fmt.Errorf("artifact: a duration of %v is negative", d)
		}
	}
	return nil
}

// Service stores and serves the artifacts of one endpoint. It is safe for concurrent use.
type Service struct {
	opts      Options
	limits    atomic.Pointer[Options] // the fields that SetLimits changes
	profile   *profiles.Profile
	offerers  profiles.PerSession[offerers]
	uploads   uploads
	downloads downloads
	lists     *fair.Slots // of listings
	reads     *fair.Slots // of chunks that are read

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
}

var errClosed = errors.New("artifact: closed")

// lists is how many listings are made at the same time, and reads how many chunks are read;
// more wait, and identities take turns.
const (
	lists = 4
	reads = 8
)

// New returns a Service. It fails if an option is out of range. The caller closes
// it.
func New(opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, lists: fair.NewSlots(lists), reads: fair.NewSlots(reads)}
	s.uploads.live = make(map[string]*upload)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.limits.Store(&opts)
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeOffer, Name: "ART_OFFER", Role: profiles.Initiating},
			{ID: TypeGet, Name: "ART_GET", Role: profiles.Initiating},
			{ID: TypeChunk, Name: "ART_CHUNK", Role: profiles.Initiating | profiles.Answer},
			{ID: TypeAck, Name: "ART_ACK", Role: profiles.Answer | profiles.Lone},
			{ID: TypeErr, Name: "ART_ERR", Role: profiles.Answer | profiles.Lone},
		},
		Operations: []profiles.Operation{
			{Name: "offer", On: "artifact_id"},
			{Name: "get", On: "artifact_id, of an artifact that somebody else has offered"},
			{Name: "list", On: "artifact_id, of an artifact that somebody else has offered"},
			{Name: "chunk", Free: true},
		},
		Extensions: []uint64{ExtDurable},
		Methods: []profiles.Method{
			{Name: MethodList, Open: true, Repeatable: true, Detached: s.list},
			{Name: MethodForget, Open: true, Repeatable: true, Held: s.forget},
		},
		Behind:   profiles.PassedOn,
		Crossing: crossing(),
		Show:     p1.Show(Messages),
		Handler:  profiles.HandlerFunc(s.serve),
		Check:    p1.WellFormed(Messages),
		Refusal:  refusals.Refusal,
	}
	return s, nil
}

// SetLimits changes the bounds and times for later requests: MaxSize, MaxMetadata, Window,
// Chunk, Downloads, DownloadsPerIdentity, Abandoned and Retention of o. Uploads and
// downloads in progress do not change. If New would refuse o, it fails and changes nothing.
func (s *Service) SetLimits(o Options) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	s.limits.Store(&o)
	return nil
}

// Profile returns the profile that serves peers, the same one each time.
func (s *Service) Profile() *profiles.Profile { return s.profile }

// Close ends downloads and waits for them. Received octets are in the Store. Close the
// Store afterwards.
func (s *Service) Close() {
	s.cancel(errClosed)
	s.downloads.close()
}

func (s *Service) serve(_ context.Context, req *profiles.Request, w profiles.Responder) error {
	switch {
	case req.Unsolicited:
		return nil // it was checked, and is counted and dropped
	case req.MsgType == TypeOffer:
		return s.offer(req, w)
	case req.MsgType == TypeGet:
		return s.get(req)
	}
	return s.chunk(req, w)
}
