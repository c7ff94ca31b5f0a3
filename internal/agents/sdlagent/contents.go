package sdlagent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// maxContents bounds the items and refs of one artifact.v1.
const maxContents = 64

// contents adds the handlers of artifact.v1 and state.v1 to the handlers of the options.
func (a *Agent) contents(own map[string]serve.Handler) map[string]serve.Handler {
	handlers := map[string]serve.Handler{sdl.CTArtifact: a.artifacts, sdl.CTState: a.state}
	maps.Copy(handlers, own)
	return handlers
}

// artifacts answers artifact.v1 with profile 14: it stores the items, and reads the refs. The
// answer has a ref for each stored item, and an item for each ref.
func (a *Agent) artifacts(ctx context.Context, r *serve.Request) (serve.Result, error) {
	items, refs := r.Payload.Get("items"), r.Payload.Get("refs")
	if n := items.Len() + refs.Len(); n > maxContents {
		return serve.Result{}, refuse("too_many", "%d items and refs, want at most %d", n, maxContents)
	}
	uploads := make([]artifact.Upload, 0, items.Len())
	for item := range items.All() {
		u, err := uploadOf(item)
		if err != nil {
			return serve.Result{}, err
		}
		uploads = append(uploads, u)
	}
	names := make([]string, 0, refs.Len())
	for ref := range refs.All() {
		name, _ := ref.Get("artifact_id").Text()
		if name == "" || ref.Len() != 1 {
			return serve.Result{}, refuse("ref", "a ref has the member artifact_id only")
		}
		names = append(names, name)
	}
	var stored, read []canonical.Value
	err := a.onLink(ctx, r, func(ctx context.Context, session profiles.Session) error {
		for _, u := range uploads {
			if err := allowed(ctx, artifact.Name, "offer", u.ArtifactID); err != nil {
				return err
			}
			if err := u.Send(ctx, session); err != nil {
				return err
			}
			stored = append(stored, described(u.ArtifactID, u.Hash, u.Size))
		}
		left := a.language.Load().Limits.MaxBytes / 2 // base64url twice, if the answer is encrypted
		for _, name := range names {
			if err := allowed(ctx, artifact.Name, "get", name); err != nil {
				return err
			}
			var content bytes.Buffer
			_, err := artifact.Download{ArtifactID: name, Range: uint64(max(1, left)), Sink: func(c *artifact.Chunk) error {
				if left -= len(c.Data); left < 0 {
					return refuse("too_large", "the refs do not fit into one envelope; read them with profile 14")
				}
				content.Write(c.Data)
				return nil
			}}.Receive(ctx, session)
			if err != nil {
				return err
			}
			read = append(read, described(name, sha256.Sum256(content.Bytes()), uint64(content.Len())).
				With("content", canonical.String(base64.RawURLEncoding.EncodeToString(content.Bytes()))))
		}
		return nil
	})
	return serve.Result{CT: sdl.CTArtifact, Payload: canonical.Object(
		canonical.Member{Name: "items", Value: canonical.Array(read...)},
		canonical.Member{Name: "refs", Value: canonical.Array(stored...)},
	)}, err
}

// uploadOf reads an item: artifact_id, and content in base64url or text.
func uploadOf(item canonical.Value) (u artifact.Upload, err error) {
	u.ArtifactID, _ = item.Get("artifact_id").Text()
	var octets []byte
	if text, ok := item.Get("text").Text(); ok {
		octets = []byte(text)
	} else if content, ok := item.Get("content").Text(); ok {
		if octets, err = base64.RawURLEncoding.Strict().DecodeString(content); err != nil {
			return u, refuse("item", "content is not base64url without padding")
		}
	} else {
		return u, refuse("item", "an item has artifact_id, and content or text")
	}
	if u.ArtifactID == "" || item.Len() != 2 {
		return u, refuse("item", "an item has artifact_id, and content or text, and no other member")
	}
	u.Size, u.Hash, u.Octets, u.Sync = uint64(len(octets)), sha256.Sum256(octets), bytes.NewReader(octets), rpc.Sync
	return u, nil
}

func described(name string, hash [sha256.Size]byte, size uint64) canonical.Value {
	return canonical.Object(
		canonical.Member{Name: "artifact_id", Value: canonical.String(name)},
		canonical.Member{Name: "sha256", Value: canonical.String(hex.EncodeToString(hash[:]))},
		canonical.Member{Name: "size", Value: canonical.Int(int64(size))},
	)
}

// state answers state.v1 with profile 17: it adds the patch, unless that is empty, as a delta
// to the state whose hash is base. The answer has all operations that were added to that state
// so far, in order.
func (a *Agent) state(ctx context.Context, r *serve.Request) (serve.Result, error) {
	base, _ := r.Payload.Get("base").Text()
	digits, _ := strings.CutPrefix(base, "sha256:")
	octets, err := hex.DecodeString(digits)
	if len(octets) != len(state.ID{}) || err != nil || base != "sha256:"+hex.EncodeToString(octets) {
		return serve.Result{}, refuse("base", "base is no sha256: and 64 digits in lower case")
	}
	id, patch := state.ID(octets), r.Payload.Get("patch")
	if id == state.IDOf(nil) {
		return serve.Result{}, refuse("base", "base is the hash of no octets, and profile 17 has no such state; put the first state with profile 17")
	}
	var all []canonical.Value
	err = a.onLink(ctx, r, func(ctx context.Context, session profiles.Session) error {
		if err := allowed(ctx, state.Name, "delta", hex.EncodeToString(id[:])); err != nil {
			return err
		}
		if patch.Len() > 0 {
			if err := addDelta(ctx, session, id, patch); err != nil {
				return err
			}
		}
		all, err = a.changes(ctx, session, id)
		return err
	})
	return serve.Result{CT: sdl.CTState, Payload: canonical.Object(
		canonical.Member{Name: "base", Value: canonical.String(base)},
		canonical.Member{Name: "patch", Value: canonical.Array(all...)},
	)}, err
}

func addDelta(ctx context.Context, session profiles.Session, id state.ID, patch canonical.Value) error {
	lane, err := session.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lane.Close() }()
	return state.AddDelta(ctx, lane, rpc.Sync, id, patch.AppendJSON(nil))
}

// changes returns the operations that were added to a state.
func (a *Agent) changes(ctx context.Context, session profiles.Session, id state.ID) (all []canonical.Value, err error) {
	stream, err := rpc.Open(ctx, session, state.MethodDeltas, id[:])
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	limits, size := a.language.Load().Limits, 0
	for {
		item, err := stream.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var change *state.Change
		if err == nil {
			change, err = state.ReadChange(item, id)
		}
		if err != nil {
			return nil, err
		}
		patch, err := canonical.ParseJSON(change.Delta)
		if err != nil || patch.Kind() != canonical.KindArray {
			return nil, refuse("delta", "a delta of this state is no patch; read its deltas with profile 17")
		}
		for op := range patch.All() {
			all = append(all, op)
		}
		if size += len(change.Delta); size > limits.MaxBytes || len(all) > limits.MaxArray {
			return nil, refuse("too_large", "the deltas of this state do not fit into one envelope; read them with profile 17")
		}
	}
}

// onLink calls do with a session of the sender to this endpoint, whose rules and quotas apply.
func (a *Agent) onLink(ctx context.Context, r *serve.Request, do func(ctx context.Context, session profiles.Session) error) error {
	carriage.Rest(ctx)
	link, release, err := a.links.use(r.Caller.Identity)
	if err != nil {
		return err
	}
	defer release()
	return said(do(a.links.within(ctx, ""), link.session))
}

// allowed returns an error if a hint of the sender forbids an operation.
func allowed(ctx context.Context, profile, operation, name string) error {
	if v := stopped(ctx, &profiles.Act{Profile: profile, Operation: operation, Name: name}); v != nil {
		return errStopped(v)
	}
	return nil
}

// said converts a refusal by this endpoint into an error of the language. It returns other
// errors unchanged; their text is not sent.
func said(err error) error {
	var (
		refused *profiles.PeerError
		failed  *rpc.Error
		fault   *profiles.Error
	)
	e := &sdl.Error{Code: sdl.BadRequest}
	switch {
	case errors.As(err, new(*sdl.Error)):
		return err
	case errors.As(err, &refused):
		e = reasoned(refused.Code, refused.Message)
		e.Retryable = refused.Retryable()
	case errors.As(err, &failed):
		e = reasoned(failed.Code, failed.Message)
		e.Retryable = failed.Retryable
	case errors.As(err, &fault) && fault.Code != profiles.Internal:
		e = reasoned(fault.Detail, fault.Text)
		e.Retryable = fault.Retryable
	default:
		return err
	}
	return e
}

func refuse(reason, text string, args ...any) error {
	return reasoned(reason, fmt.Sprintf(text, args...))
}

func reasoned(reason, text string) *sdl.Error {
	return &sdl.Error{Code: sdl.BadRequest, Reason: text, Details: canonical.Object(
		canonical.Member{Name: "reason", Value: canonical.String(strings.ToLower(reason))},
		canonical.Member{Name: "text", Value: canonical.String(text)},
	)}
}
