package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
)

// Fetch describes an artifact to download.
type Fetch struct {
	ArtifactID string

	// SHA256 is the required digest of the octets. Nil: the digest that the peer lists.
	SHA256 []byte

	// Unverified accepts the octets if no digest is known. By default that is an error.
	Unverified bool
}

// ErrDigest is the error for octets that do not match the digest, ErrNoDigest
// for a missing digest.
var (
	ErrDigest   = errors.New("the octets are not those of the digest")
	ErrNoDigest = errors.New("no digest is known to verify the octets with")
)

// Fetched describes a downloaded artifact.
type Fetched struct {
	Size   uint64
	SHA256 []byte
}

// GetTo writes an artifact to w. A wrong digest is detected only after everything was
// written.
func (t *Transfer) GetTo(ctx context.Context, f Fetch, w io.Writer) (*Fetched, error) {
	return t.get(ctx, f, &streamed{w: w, hash: sha256.New()})
}

// GetFile downloads an artifact into a file, which appears when it is complete and
// verified. Until then the octets are in a file with the suffix .part, and their metadata
// in one with the suffix .part.json. With these a later GetFile resumes after any failure.
func (t *Transfer) GetFile(ctx context.Context, f Fetch, path string) (*Fetched, error) {
	p, err := openPartial(path, f.ArtifactID)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return t.get(ctx, f, p)
}

// target is the destination of a download.
type target interface {
	// held returns how many octets have arrived, and the token to resume with.
	held() (at uint64, token string)

	// restart discards the octets, if that is possible.
	restart() error

	write(at uint64, data []byte, token string) error

	// finish verifies the octets, if there is a digest, and returns their digest.
	finish(want []byte) ([]byte, error)
}

func (t *Transfer) get(ctx context.Context, f Fetch, to target) (*Fetched, error) {
	var got Fetched
	size, want := uint64(0), f.SHA256
	err := t.run(ctx, f.ArtifactID, func(ctx context.Context, c *Client, moved func()) error {
		entry, denied, err := c.lookUp(ctx, f.ArtifactID, f.SHA256 == nil && !f.Unverified)
		if err != nil {
			return err
		}
		if entry != nil {
			if size = entry.Size; f.SHA256 == nil {
				if want, err = hex.DecodeString(entry.SHA256); err != nil || len(want) != sha256.Size {
					return &finalError{fmt.Errorf("client: %s is listed with the digest %.80q", f.ArtifactID, entry.SHA256)}
				}
			}
		}
		if want == nil && !f.Unverified {
			return c.noDigest(ctx, f.ArtifactID, denied)
		}
		at, token := to.held()
		t.progress(at, size)
		d := artifact.Download{ArtifactID: f.ArtifactID, Start: at, ResumeToken: token, Size: size}
		d.Sink = func(c *artifact.Chunk) error {
			if err := to.write(c.Offset, c.Data, string(c.ResumeToken)); err != nil {
				return &finalError{err}
			}
			moved()
			t.progress(c.Offset+uint64(len(c.Data)), size)
			return nil
		}
		end, err := d.Receive(ctx, c.Session)
		var refused *profiles.PeerError
		if errors.As(err, &refused) && at > 0 && (refused.Code == artifact.CodeInvalidToken || refused.Code == artifact.CodeInvalidRange) {
			// The artifact has changed since.
			if restarted := to.restart(); restarted != nil {
				return &finalError{errors.Join(err, restarted)}
			}
			later := *refused
			later.Later = true
			return &later
		}
		if err != nil {
			return err
		}
		got.Size = end
		if got.SHA256, err = to.finish(want); err != nil {
			return &finalError{err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &got, nil
}

// noDigest is the error for an artifact without a known digest: the error of the download if
// there is no such artifact, or this identity may not get it. denied is why the digest is
// unknown; it may be nil.
func (c *Client) noDigest(ctx context.Context, id string, denied error) error {
	d := artifact.Download{ArtifactID: id, End: 1, Sink: func(*artifact.Chunk) error { return ErrNoDigest }}
	if _, err := d.Receive(ctx, c.Session); err != nil && !errors.Is(err, ErrNoDigest) {
		return err
	}
	if explained, ok := errors.AsType[*Explained](denied); ok {
		why := *explained
		why.Err = fmt.Errorf("%w: %w", ErrNoDigest, why.Err)
		return &finalError{&why}
	}
	return &finalError{ErrNoDigest}
}

// streamed is a target that cannot restart.
type streamed struct {
	w     io.Writer
	hash  hash.Hash
	at    uint64
	token string
}

func (s *streamed) held() (uint64, string) { return s.at, s.token }

var errStreamed = errors.New("client: the artifact has changed, and its beginning was written already")

func (s *streamed) restart() error { return errStreamed }

func (s *streamed) write(at uint64, data []byte, token string) error {
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	_, _ = s.hash.Write(data)
	s.at, s.token = at+uint64(len(data)), token
	return nil
}

func (s *streamed) finish(want []byte) ([]byte, error) {
	sum := s.hash.Sum(nil)
	if want != nil && string(sum) != string(want) {
		return nil, ErrDigest
	}
	return sum, nil
}

// partial is a file whose download is not finished.
type partial struct {
	path string // of the file
	part *os.File
	know partialState
	last uint64 // position in the last state that was written
}

// partialState describes the octets in a partial file. Octets after At are ignored.
type partialState struct {
	ArtifactID string `json:"artifact_id"`
	At         uint64 `json:"at"`
	Token      string `json:"resume_token,omitempty"`
}

const (
	partSuffix  = ".part"
	stateSuffix = ".part.json"

	// stateEvery is how many octets are downloaded between two writes of the state.
	stateEvery = 8 << 20
)

func openPartial(path, id string) (*partial, error) {
	p := &partial{path: path, know: partialState{ArtifactID: id}}
	var err error
	if p.part, err = os.OpenFile(path+partSuffix, os.O_RDWR|os.O_CREATE, 0o666); err != nil { //nolint:gosec // the mode that the user asks for with umask
		return nil, err
	}
	octets, err := os.ReadFile(path + stateSuffix)
	var known partialState
	info, statErr := p.part.Stat()
	if err == nil && statErr == nil && json.Unmarshal(octets, &known) == nil && known.ArtifactID == id && int64(known.At) <= info.Size() {
		p.know, p.last = known, known.At
	}
	if err := p.part.Truncate(int64(p.know.At)); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *partial) close() { _ = p.part.Close() }

func (p *partial) held() (uint64, string) { return p.know.At, p.know.Token }

func (p *partial) restart() error {
	p.know.At, p.know.Token, p.last = 0, "", 0
	if err := p.part.Truncate(0); err != nil {
		return err
	}
	return p.save()
}

func (p *partial) write(at uint64, data []byte, token string) error {
	if _, err := p.part.WriteAt(data, int64(at)); err != nil {
		return err
	}
	p.know.At, p.know.Token = at+uint64(len(data)), token
	if p.know.At-p.last < stateEvery {
		return nil
	}
	return p.save()
}

// save writes the state, after the octets are on disk.
func (p *partial) save() error {
	octets, err := json.Marshal(&p.know)
	if err == nil {
		err = p.part.Sync()
	}
	if err != nil {
		return err
	}
	if err := disk.Replace(p.path+stateSuffix, append(octets, '\n'), nil); err != nil {
		return err
	}
	p.last = p.know.At
	return nil
}

// finish verifies all octets in the file, including those of an earlier process. A file
// with a wrong digest is removed, so that the next attempt starts at the beginning.
func (p *partial) finish(want []byte) ([]byte, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(p.part, 0, int64(p.know.At))); err != nil {
		return nil, err
	}
	sum := h.Sum(nil)
	if want != nil && string(sum) != string(want) {
		return nil, errors.Join(ErrDigest, p.remove())
	}
	if err := p.part.Sync(); err != nil {
		return nil, err
	}
	if err := os.Rename(p.path+partSuffix, p.path); err != nil {
		return nil, err
	}
	if err := os.Remove(p.path + stateSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return sum, nil
}

func (p *partial) remove() error {
	err := os.Remove(p.path + partSuffix)
	if removed := os.Remove(p.path + stateSuffix); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
