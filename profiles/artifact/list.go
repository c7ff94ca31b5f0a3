package artifact

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/store"
)

// listOctets bounds the metadata in one ListResult, unless a single artifact has more.
const listOctets = 1 << 20

// ListParams select artifacts. Empty params are the first page of all.
type ListParams struct {
	ArtifactID string `json:"artifact_id,omitempty"` // only this one
	After      string `json:"after,omitempty"`       // only artifact_ids after this one, in octet order
	Limit      int    `json:"limit,omitempty"`       // default and bound is profiles.MaxList
}

// ListResult is a page of the listing.
type ListResult struct {
	Artifacts []Entry `json:"artifacts"`
	Next      string  `json:"next,omitempty"` // the After of the next page; empty: this is the last one
}

// Entries lists the artifacts of a peer that in asks for, page by page as they are wanted.
// call calls MethodList with params as JSON, and reads its result. An error is the last
// thing that is yielded: that of call, or profiles.ErrNext.
func Entries(in ListParams, call func(params, result any) error) iter.Seq2[Entry, error] {
	return profiles.Pages(func(at string) ([]Entry, string, error) {
		var page ListResult
		in.After = cmp.Or(at, in.After)
		err := call(in, &page)
		if page.Next != "" && page.Next <= in.After {
			err = profiles.ErrNext
		}
		return page.Artifacts, page.Next, err
	})
}

// Entry is one artifact that the caller can GET.
type Entry struct {
	ArtifactID string    `json:"artifact_id"`
	Size       uint64    `json:"size"`
	SHA256     string    `json:"sha256"` // hexadecimal
	Completed  time.Time `json:"completed"`
	Own        bool      `json:"own"` // the caller's
	Metadata   []byte    `json:"metadata,omitempty"`
}

// candidate is an Entry with the key of its metadata.
type candidate struct {
	Entry
	name    string
	version uint64
}

// List serves MethodList: it returns the artifacts that a peer may see, its own and those
// that a rule lets it list. The error is an *profiles.Error, or that of ctx. It reads the
// Store.
func (s *Service) List(ctx context.Context, peer *profiles.Peer, params []byte) ([]byte, error) {
	var in ListParams
	if err := profiles.ReadListing(Name, params, &in, &in.Limit); err != nil {
		return nil, err
	}
	out := ListResult{Artifacts: []Entry{}}
	if s.opts.Store == nil {
		return json.Marshal(out)
	}
	if err := s.lists.Take(ctx, peer.Identity); err != nil {
		return nil, err
	}
	defer s.lists.Give(peer.Identity)
	page, more, err := s.page(ctx, peer.Identity, in)
	if err != nil {
		return nil, err
	}
	octets := 0
	for i, c := range page {
		if octets > listOctets {
			page, more = page[:i], true
			break
		}
		note, found, err := s.opts.Store.Note(ctx, c.name, c.version)
		if err != nil {
			return nil, unavailable(err)
		}
		if !found {
			continue // replaced or deleted since
		}
		c.Metadata = note
		octets += len(note)
		out.Artifacts = append(out.Artifacts, c.Entry)
	}
	if more {
		out.Next = page[len(page)-1].ArtifactID
	}
	return json.Marshal(out)
}

// page returns the artifacts of a page, without their metadata, and whether there are more.
// Of several with the same artifact_id, which are adjacent, it returns the peer's own, else
// the one that was completed first, or replaces that.
func (s *Service) page(ctx context.Context, identity string, in ListParams) (page []candidate, more bool, err error) {
	prefix, after := "", ""
	if in.After != "" {
		after = strings.TrimSuffix(allOf(in.After), "\x01") + "\x02" // after all with that artifact_id
	}
	if in.ArtifactID != "" {
		prefix = allOf(in.ArtifactID)
	}
	var best candidate
	var rank uint64 // of best
	have := false
	// end ends the group of one artifact_id and returns false if the page is full.
	end := func() bool {
		if !have || !best.Own && !profiles.Would(s.opts.Access, identity, s.profile.Name, "list", best.ArtifactID) {
			return true
		}
		if more = len(page) == in.Limit; !more {
			page = append(page, best)
		}
		return !more
	}
	err = s.opts.Store.Scan(ctx, prefix, after, func(b store.BlobInfo) bool {
		id, owner, ok := splitName(b.Name)
		t, bad := decodeTag(b.Tag)
		if !ok || bad != nil {
			return true // not a name of this profile
		}
		own := owner == identity
		if have && best.ArtifactID == id {
			if best.Own || !own && rankOf(b.Version, b.Tag) > rank {
				return true
			}
		} else if !end() {
			return false
		}
		have, rank = true, rankOf(b.Version, b.Tag)
		best = candidate{
			Entry: Entry{ArtifactID: id, Size: b.Size, SHA256: hex.EncodeToString(t.sum[:]), Completed: b.Sealed.UTC(), Own: own},
			name:  b.Name, version: b.Version,
		}
		return true
	})
	if err != nil {
		return nil, false, unavailable(err)
	}
	if !more {
		end()
	}
	return page, more, nil
}

// checkID refuses an artifact_id that no message could have.
func checkID(id []byte) error {
	switch {
	case p1.Blank(id):
		return p1.Missing("artifact_id")
	case len(id) > MaxID:
		return p1.TooLong("", "artifact: artifact_id", len(id), MaxID)
	}
	return nil
}

// Forgotten is the result of MethodForget: the deleted data.
type Forgotten struct {
	Artifact bool `json:"artifact"`
	Upload   bool `json:"upload"` // that was not complete
}

// Forget serves MethodForget: it deletes the peer's artifact with an artifact_id, and its
// upload. done is called when both are gone, or did not exist, from any goroutine; its
// error is an *profiles.Error.
func (s *Service) Forget(peer *profiles.Peer, artifactID []byte, done func(Forgotten, error)) {
	var was Forgotten
	name, err := nameOf(string(artifactID), peer.Identity)
	if err == nil {
		err = checkID(artifactID)
	}
	if err != nil || s.opts.Store == nil {
		done(was, err)
		return
	}
	s.uploads.mu.Lock()
	if up := s.uploads.live[name]; up != nil {
		up.broken = true
	}
	s.uploads.mu.Unlock()
	s.opts.Store.Discard(name, func(removed bool, err error) {
		if err != nil {
			done(was, unavailable(err))
			return
		}
		was.Upload = removed
		s.opts.Store.Remove(name, 0, func(removed bool, err error) {
			if err != nil {
				err = unavailable(err)
			}
			was.Artifact = removed
			done(was, err)
		})
	})
}

// list implements swp.artifacts.list.
func (s *Service) list(ctx context.Context, req *profiles.Request, params []byte, _ func(item []byte) error) ([]byte, error) {
	return s.List(ctx, req.Peer(), params)
}

// forget implements swp.artifacts.forget.
func (s *Service) forget(p profiles.Pending, params []byte) error {
	s.Forget(p.Peer(), params, func(was Forgotten, err error) { profiles.DoneJSON(p, was, err) })
	return nil
}
