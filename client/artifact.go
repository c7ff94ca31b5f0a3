package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
)

// Transfer is how an artifact is moved: over as many connections as it takes.
// Connect is required.
type Transfer struct {
	// Connect makes a connection. It is called again when one is lost.
	Connect Dialer

	// Patience is how long it is tried again without an octet that gets through;
	// default 2 minutes.
	Patience time.Duration

	// Progress is told how many octets of how many have arrived; Lost why a
	// connection has ended, or none came about, and how long it is until the next
	// one is tried. It may be nil.
	Progress func(done, total uint64)
	Lost     func(err error, pause time.Duration)
}

// run calls do with a connection, and with another one when that is lost, until it
// succeeds, fails for good, or nothing has moved for the time of patience.
func (t *Transfer) run(ctx context.Context, do func(ctx context.Context, c *Client, moved func()) error) error {
	return again{
		connect: t.Connect, patience: cmp.Or(t.Patience, 2*time.Minute), silence: time.Minute, lost: t.Lost,
	}.run(ctx, do)
}

func (t *Transfer) progress(done, total uint64) {
	if t.Progress != nil {
		t.Progress(done, total)
	}
}

// source is the octets of an upload, whose failures are this side's.
type source struct{ artifact.Upload }

func (s source) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.Octets.ReadAt(p, at)
	if err != nil && n < len(p) {
		err = &finalError{err}
	}
	return n, err
}

// Put uploads an artifact and returns when the other end has verified it and keeps
// it. Octets that an earlier Put has left there are not sent again.
func (t *Transfer) Put(ctx context.Context, u artifact.Upload) error {
	u.Octets, u.Sync = source{u}, rpc.Sync
	reached := uint64(0)
	return t.run(ctx, func(ctx context.Context, c *Client, moved func()) error {
		u.Progress = func(durable uint64) {
			if durable > reached {
				moved()
				reached = durable
			}
			t.progress(durable, u.Size)
		}
		return u.Send(ctx, c.Session)
	})
}

// ListArtifacts calls yield with the artifacts that the other end lists, in the
// order of their ids, until it returns false.
func (c *Client) ListArtifacts(ctx context.Context, in artifact.ListParams, yield func(*artifact.Entry) bool) error {
	return c.listArtifacts(ctx, c.Session, in, yield)
}

func (c *Client) listArtifacts(ctx context.Context, on profiles.Session, in artifact.ListParams, yield func(*artifact.Entry) bool) error {
	for {
		params, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		result, err := rpc.Call(ctx, on, artifact.MethodList, params)
		if err != nil {
			return c.Explain(err)
		}
		var page artifact.ListResult
		if err := json.Unmarshal(result, &page); err != nil {
			return c.Explain(fmt.Errorf("client: %s: %w", artifact.MethodList, err))
		}
		for i := range page.Artifacts {
			if !yield(&page.Artifacts[i]) {
				return nil
			}
		}
		if page.Next == "" || page.Next <= in.After {
			return nil
		}
		in.After = page.Next
	}
}

// FindArtifact returns what the other end lists under an artifact_id, nil if it
// lists none.
//
// Of partner/name the partner is asked, where the other end has one of that name.
func (c *Client) FindArtifact(ctx context.Context, id string) (found *artifact.Entry, err error) {
	found, err = c.findArtifact(ctx, c.Session, id)
	partner, name, named := strings.Cut(id, "/")
	if found != nil || err != nil || !named || profiles.CheckTarget(partner) != nil {
		return found, err
	}
	if passes, err := c.honours(ctx, 0, profiles.ExtTarget); err != nil || !passes {
		return nil, err
	}
	target := partner
	if c.opts.Partner && c.Target != "" {
		target = c.Target + "/" + partner
	}
	found, err = c.findArtifact(ctx, profiles.Toward(c.peer, target), name)
	if failed := (*rpc.Error)(nil); errors.As(err, &failed) {
		return nil, nil // there is no such partner, or it does not say
	}
	if found != nil {
		found.ArtifactID = id
	}
	return found, err
}

func (c *Client) findArtifact(ctx context.Context, on profiles.Session, id string) (found *artifact.Entry, err error) {
	err = c.listArtifacts(ctx, on, artifact.ListParams{ArtifactID: id, Limit: 1}, func(e *artifact.Entry) bool {
		if e.ArtifactID == id {
			found = e
		}
		return false
	})
	var failed *rpc.Error
	if errors.As(err, &failed) && failed.Code == rpc.CodeUnknownMethod {
		err = nil // it lists nothing
	}
	return found, err
}

// ForgetArtifact has an artifact of this identity forgotten, and an upload of it.
func (c *Client) ForgetArtifact(ctx context.Context, id string) error {
	_, err := rpc.Call(ctx, c.Session, artifact.MethodForget, []byte(id))
	return c.Explain(err)
}
