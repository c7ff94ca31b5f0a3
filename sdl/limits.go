package sdl

import "github.com/slimwire/swp/sdl/canonical"

// Limits bounds envelopes. Zero members mean DefaultLimits. A value equal to its limit is
// allowed.
type Limits struct {
	MaxBytes int // octets of a body, and of the envelope as canonical JSON
	MaxDepth int // nesting of the envelope
	MaxArray int // elements of any array in the envelope
	MaxHops  int // trace.hops
}

// DefaultLimits are the limits of A2A-SDL (§1).
var DefaultLimits = Limits{MaxBytes: 1 << 20, MaxDepth: 64, MaxArray: 10_000, MaxHops: 8}

func (l Limits) withDefaults() Limits {
	orDefault(&l.MaxBytes, DefaultLimits.MaxBytes)
	orDefault(&l.MaxDepth, DefaultLimits.MaxDepth)
	orDefault(&l.MaxArray, DefaultLimits.MaxArray)
	orDefault(&l.MaxHops, DefaultLimits.MaxHops)
	return l
}

func orDefault(n *int, d int) {
	if *n == 0 {
		*n = d
	}
}

// Body refuses a body that is too long: row 0 of §2.2, which precedes all other
// checks.
func (l Limits) Body(size int) *Error {
	l = l.withDefaults()
	if size <= l.MaxBytes {
		return nil
	}
	return overLimit("max_bytes", l.MaxBytes, "a body of %d octets, limit %d", size, l.MaxBytes)
}

// Value returns l as cap.limits says it.
func (l Limits) Value() canonical.Value {
	l = l.withDefaults()
	return object(
		member("max_bytes", canonical.Int(int64(l.MaxBytes))),
		member("max_depth", canonical.Int(int64(l.MaxDepth))),
		member("max_array_len", canonical.Int(int64(l.MaxArray))),
		member("max_hops", canonical.Int(int64(l.MaxHops))),
	)
}

// check compares an envelope with l (§2.6). It takes constant time.
func (l Limits) check(v canonical.Value) *Error {
	l = l.withDefaults()
	if n := v.JSONSize(); n > l.MaxBytes {
		return overLimit("max_bytes", l.MaxBytes, "%d octets of canonical JSON, limit %d", n, l.MaxBytes)
	}
	return l.shape(v.Depth(), v.MaxArray())
}

// shape checks the depth of an envelope and its longest array.
func (l Limits) shape(depth, longest int) *Error {
	if depth > l.MaxDepth {
		return overLimit("max_depth", l.MaxDepth, "depth %d, limit %d", depth, l.MaxDepth)
	}
	if longest > l.MaxArray {
		return overLimit("max_array_len", l.MaxArray, "an array of %d elements, limit %d", longest, l.MaxArray)
	}
	return nil
}
