package state

import (
	"bytes"
	"context"
)

// found is a state as an identity sees it.
type found struct {
	key   key    // empty: there is none
	value []byte // payload of the PUT; nil if not requested

	denied bool // the rules hide all of them
}

// find returns the state that an identity sees under an id: its own, else, if the rules
// allow the operation, the one that was put first. Without value, a state that is known to
// be stored is not read.
func (s *Service) find(ctx context.Context, identity string, id ID, operation string, value bool) (found, error) {
	own, err := s.read(ctx, keyOf(identity, id), value)
	// The rules come before another look, so that a denial tells nothing.
	if err != nil || own.key != "" {
		return own, err
	}
	if !s.allowed(identity, operation, id) {
		return found{denied: true}, nil
	}
	version, first, err := s.opts.Store.Get(ctx, spaceFirst, string(id[:]))
	if err != nil {
		return found{}, err
	}
	if version > 0 {
		f, err := s.read(ctx, key(first), value)
		if err != nil || f.key != "" {
			return f, err
		}
	}
	// The first one is unknown, because it was deleted, or because the process ended before
	// it was recorded.
	var some found
	err = s.opts.Store.Scan(ctx, spaceStates, string(id[:]), "", func(k string, _ uint64, value []byte) bool {
		some = found{key: key(k), value: bytes.Clone(value)}
		return false
	})
	return some, err
}

// read returns the state at a key.
func (s *Service) read(ctx context.Context, k key, value bool) (found, error) {
	if known, _ := s.seen.has(k); known && !value {
		return found{key: k}, nil
	}
	version, octets, err := s.opts.Store.Get(ctx, spaceStates, string(k))
	if err != nil || version == 0 {
		return found{}, err
	}
	return found{key: k, value: octets}, nil
}
