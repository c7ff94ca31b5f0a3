package sdlaudit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// Key verifies signatures.
type Key struct {
	Public ed25519.PublicKey
	Kid    string // of the signatures that it verifies; empty: all
}

// Verification configures Verify.
type Verification struct {
	Path   string
	Keys   []Key         // without any, signatures are not verified
	Signed bool          // each entry must have a signature; needs Keys
	Found  func(Finding) // called with each fault; may be nil
}

// Finding is a fault in a chain.
type Finding struct {
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// Result is what Verify has read.
type Result struct {
	Entries  int    `json:"entries"`
	Signed   int    `json:"signed"`   // entries with a signature
	Verified int    `json:"verified"` // whose signature is good
	Faults   int    `json:"faults"`
	Torn     int    `json:"torn,omitempty"` // octets of an incomplete line at the end, which is no entry yet
	Last     string `json:"last,omitempty"` // entry_hash of the last entry
}

// Verify reads a chain and checks its hashes, links and signatures. A missing file is an empty
// chain. The error says that the file cannot be read; faults are in the Result. A Chain may add
// entries at the same time.
func Verify(ctx context.Context, o Verification) (r Result, err error) {
	if o.Signed && len(o.Keys) == 0 {
		return r, errors.New("sdlaudit: signatures are required, and there is no key to verify them")
	}
	f, err := os.Open(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("sdlaudit: %w", err)
	}
	defer func() { _ = f.Close() }()
	found := func(line int, err error) {
		r.Faults++
		if o.Found != nil {
			o.Found(Finding{line, err.Error()})
		}
	}
	prev := canonical.Value{} // null in the first entry
	known := true             // whether prev is that of the line before
	in := bufio.NewReaderSize(f, maxLine+1)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if damagedEnd(line) {
				found(n, errEnd)
			} else {
				r.Torn = len(line)
			}
			return r, ctx.Err()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			found(n, fmt.Errorf("no entry: longer than %d octets", maxLine))
			known = false
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return r, fmt.Errorf("sdlaudit: %w", err)
		}
		entry, err := parse(line[:len(line)-1])
		if err != nil {
			found(n, err)
			known = false
			continue
		}
		if got := entry.Get("prev_hash"); known && !got.Equal(prev) {
			found(n, fmt.Errorf("prev_hash is %s, want %s: lines are missing, added or moved", got.AppendJSON(nil), prev.AppendJSON(nil)))
		}
		prev, known = entry.Get("entry_hash"), true
		r.Entries++
		r.Last, _ = prev.Text()
		if err := o.signature(entry, &r); err != nil {
			found(n, err)
		}
	}
}

// signature checks the signature of an entry, and counts it.
func (o *Verification) signature(entry canonical.Value, r *Result) error {
	sig := entry.Get("sig")
	if !entry.Has("sig") {
		if o.Signed {
			return errors.New("not signed")
		}
		return nil
	}
	r.Signed++
	if len(o.Keys) == 0 {
		return nil
	}
	for name := range sig.Members() {
		if name != "alg" && name != "value" && name != "kid" {
			return fmt.Errorf("the signature has a member %.100q", name)
		}
	}
	alg, _ := sig.Get("alg").Text()
	value, _ := sig.Get("value").Text()
	kid, named := sig.Get("kid").Text()
	switch {
	case alg != sdl.AlgEd25519:
		return fmt.Errorf("the signature is of algorithm %.100q, want %q", alg, sdl.AlgEd25519)
	case sig.Has("kid") && !named:
		return errors.New("the kid of the signature is no text")
	}
	err, tried := error(nil), false
	for _, key := range o.Keys {
		if key.Kid != "" && key.Kid != kid {
			continue
		}
		tried = true
		if err = seal.VerifyDetached(entry.Without("sig"), value, key.Public); err == nil {
			r.Verified++
			return nil
		}
	}
	if !tried {
		return fmt.Errorf("the signature is of key %.100q, which is not given", kid)
	}
	return fmt.Errorf("the signature is wrong: %w", err)
}
