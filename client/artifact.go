package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
)

// Transfer moves an artifact over as many connections as necessary. Connect is required.
type Transfer struct {
	// Connect makes a connection. It is called again after each loss.
	Connect Dialer

	// Patience is how long attempts continue without progress; default 2 minutes.
	Patience time.Duration

	// Keep makes Put fail with an ErrReplaces if the peer lists an artifact of this identity
	// under the id, with other octets or metadata. Otherwise Put replaces it.
	Keep bool

	// Progress is called with the number of octets that have arrived, and of all octets.
	// Lost is called with the reason why a connection ended or could not be made, and the
	// pause before the next attempt. Both may be nil.
	Progress func(done, total uint64)
	Lost     func(err error, pause time.Duration)
}

// run calls do for an artifact over as many connections as necessary, see again.run.
func (t *Transfer) run(ctx context.Context, id string, do func(ctx context.Context, c *Client, moved func()) error) error {
	return again{
		connect: t.Connect, patience: cmp.Or(t.Patience, 2*time.Minute), silence: time.Minute, lost: t.Lost, about: id,
	}.run(ctx, do)
}

func (t *Transfer) progress(done, total uint64) {
	if t.Progress != nil {
		t.Progress(done, total)
	}
}

// source is an upload. Its errors are errors of this side.
type source struct{ artifact.Upload }

func (s source) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.Octets.ReadAt(p, at)
	if err != nil && n < len(p) {
		err = &finalError{err}
	}
	return n, err
}

// Put uploads an artifact and returns after the peer has verified and stored it. Octets
// that an earlier Put has sent are not sent again.
func (t *Transfer) Put(ctx context.Context, u artifact.Upload) error {
	u.Octets = source{u}
	reached := uint64(0)
	return t.run(ctx, u.ArtifactID, func(ctx context.Context, c *Client, moved func()) error {
		u.Progress = func(durable uint64) {
			if durable > reached {
				moved()
				reached = durable
			}
			t.progress(durable, u.Size)
		}
		if t.Keep {
			if err := c.replaces(ctx, &u); err != nil {
				return err
			}
		}
		if u.Size > smallChunk {
			c.fit(ctx, &u)
		}
		u.Sync = c.sync
		return u.Send(ctx, c.Session)
	})
}

// smallChunk is the size of an upload that fits the limits of any reasonable peer.
const smallChunk = 32 << 10

// fit asks the peer for its limits, and each partner to which an upload is forwarded. The chunks
// fit the answers; an endpoint without an answer may have smaller limits.
func (c *Client) fit(ctx context.Context, u *artifact.Upload) {
	if _, err := c.Info(ctx); err != nil {
		return
	}
	on := c.there()
	if on.partners == "" {
		on, _, _ = c.atPartner(ctx, u.ArtifactID)
	}
	if on.partners == "" {
		return
	}
	names := strings.Split(on.partners, "/")
	for n := range names {
		var info rpc.Info
		far := profiles.Toward(c.peer, strings.Join(names[:n+1], "/"))
		if rpc.CallJSON(ctx, far, rpc.MethodInfo, nil, &info) == nil {
			u.Fit(info.Offer().Limits)
		}
	}
}

// ErrReplaces is wrapped by the error of an upload that would replace an artifact of this
// identity.
var ErrReplaces = errors.New("nothing was sent")

// replaces returns an ErrReplaces if the peer lists an artifact of this identity that an
// upload would replace.
func (c *Client) replaces(ctx context.Context, u *artifact.Upload) error {
	there, err := c.FindArtifact(ctx, u.ArtifactID)
	if err != nil || there == nil || !there.Own {
		return err
	}
	other := ""
	switch {
	case there.SHA256 != hex.EncodeToString(u.Hash[:]):
		other = "octets"
	case !bytes.Equal(there.Metadata, u.Metadata):
		other = "metadata"
	default:
		return nil
	}
	return &finalError{fmt.Errorf("artifact %q is there with other %s: %d octets, SHA-256 %s, completed %s; %w",
		u.ArtifactID, other, there.Size, there.SHA256, there.Completed.Format(time.RFC3339), ErrReplaces)}
}

// ListArtifacts calls yield with the artifacts that the peer lists, in the order of their
// ids, until it returns false.
func (c *Client) ListArtifacts(ctx context.Context, in artifact.ListParams, yield func(*artifact.Entry) bool) error {
	return c.listArtifacts(ctx, c.there(), in, yield)
}

func (c *Client) listArtifacts(ctx context.Context, on route, in artifact.ListParams, yield func(*artifact.Entry) bool) error {
	call := func(params, result any) error { return on.callJSON(ctx, artifact.MethodList, params, result) }
	for entry, err := range artifact.Entries(in, call) {
		if err != nil {
			return c.ExplainAbout(err, in.ArtifactID)
		}
		if !yield(&entry) {
			break
		}
	}
	return nil
}

// FindArtifact returns the entry of an artifact_id in the peer's list, nil if there is
// none.
//
// For partner/name the partner is asked, if the peer has a partner of that name.
func (c *Client) FindArtifact(ctx context.Context, id string) (found *artifact.Entry, err error) {
	found, _, err = c.lookUp(ctx, id, false)
	return found, err
}

// lookUp is FindArtifact. denied is why the partner, if it exists, was not asked. needed says that the
// work fails without the answer: then a peer that did not answer swp.info is asked, too.
func (c *Client) lookUp(ctx context.Context, id string, needed bool) (found *artifact.Entry, denied, err error) {
	if found, err = c.findArtifact(ctx, c.there(), id, needed); found != nil || err != nil {
		return found, nil, err
	}
	on, name, err := c.atPartner(ctx, id)
	if on.Session == nil || err != nil {
		return nil, nil, err
	}
	found, err = c.findArtifact(ctx, on, name, needed)
	switch {
	case deniedThere(err):
		return nil, err, nil
	case noneThere(err):
		return nil, nil, nil
	case found != nil:
		found.ArtifactID = id
	}
	return found, nil, err
}

func (c *Client) findArtifact(ctx context.Context, on route, id string, needed bool) (found *artifact.Entry, err error) {
	if c.mute.Load() && !(needed && c.speaks(ctx)) {
		return nil, nil // as below
	}
	err = c.listArtifacts(ctx, on, artifact.ListParams{ArtifactID: id, Limit: 1}, func(e *artifact.Entry) bool {
		if e.ArtifactID == id {
			found = e
		}
		return false
	})
	var failed *rpc.Error
	if errors.As(err, &failed) && failed.Code == rpc.CodeUnknownMethod {
		err = nil // the peer lists nothing
	}
	return found, err
}

// ForgetArtifact makes the peer delete an artifact of this identity, and its unfinished
// upload, and returns what was there.
//
// If nothing was, for partner/name the partner is asked, as in FindArtifact; a denial of that
// is an error.
func (c *Client) ForgetArtifact(ctx context.Context, id string) (was artifact.Forgotten, err error) {
	err = c.callRaw(ctx, c.there(), artifact.MethodForget, id, id, &was)
	if err != nil || was != (artifact.Forgotten{}) {
		return was, err
	}
	on, name, err := c.atPartner(ctx, id)
	if on.Session == nil || err != nil {
		return was, err
	}
	err = c.callRaw(ctx, on, artifact.MethodForget, name, id, &was)
	explained, ok := errors.AsType[*Explained](err)
	switch {
	case deniedThere(err) && ok:
		why := *explained
		why.Err = fmt.Errorf("nothing was deleted: the endpoint itself has neither an artifact nor an upload %q of this identity, and a partner was not asked: %w", id, why.Err)
		return was, &why
	case noneThere(err):
		err = nil
	}
	return was, err
}

// callRaw calls a method whose params are a name, and reads its result as JSON. about is the
// name here.
func (c *Client) callRaw(ctx context.Context, on route, method, name, about string, result any) error {
	octets, err := on.call(ctx, method, []byte(name))
	if err == nil {
		err = json.Unmarshal(octets, result)
	}
	return c.ExplainAbout(err, about)
}

// atPartner returns the route to the partner that partner/name names, and the name there;
// a zero route if id cannot begin with a partner, or the peer has no targets.
func (c *Client) atPartner(ctx context.Context, id string) (route, string, error) {
	partner, name, named := strings.Cut(id, "/")
	if !named || profiles.CheckTarget(partner) != nil {
		return route{}, "", nil
	}
	if passes, err := c.honours(ctx, 0, profiles.ExtTarget); err != nil || !passes {
		return route{}, "", err
	}
	if c.opts.Partner && c.Target != "" {
		partner = c.Target + "/" + partner
	}
	return route{profiles.Toward(c.peer, partner), partner}, name, nil
}

// deniedThere reports whether access rules have refused a call at a partner that may not
// exist.
func deniedThere(err error) bool {
	failed, refused := errors.AsType[*rpc.Error](err)
	return refused && failed.Code == rpc.CodeUnauthorized
}

// noneThere reports whether a partner that may not exist has refused.
func noneThere(err error) bool {
	failed, refused := errors.AsType[*rpc.Error](err)
	return refused && !failed.Retryable && failed.Code != rpc.CodeInternal
}
