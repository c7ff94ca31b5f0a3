package sdl

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// VersionPolicy says which versions this side accepts now (§8). The zero policy only checks
// the version of the protocol, if the peer gives one.
type VersionPolicy struct {
	MinPeer, MaxPeer int64 // of cap.a2a_sdl.v; 0 is no bound, a negative maximum accepts no version
	RequirePeer      bool  // a peer must give its version

	// Deprecated is the time from which each content type is refused.
	Deprecated map[string]time.Time

	// Allowed has the accepted versions of each family of content types. For a family that
	// is not listed, all versions are accepted.
	Allowed map[string]VersionRange
}

// VersionRange is a range of versions, both ends included.
type VersionRange struct{ Min, Max int64 }

// ParseContentType splits name.vN at its last ".v".
func ParseContentType(ct string) (family string, version int64, ok bool) {
	i := strings.LastIndex(ct, ".v")
	if i < 1 {
		return "", 0, false
	}
	digits := ct[i+len(".v"):]
	if strings.Trim(digits, "0123456789") != "" {
		return "", 0, false
	}
	version, err := strconv.ParseInt(digits, 10, 64)
	return ct[:i], version, err == nil
}

// ParseVersionPolicy reads a policy from an object with any of min_peer_protocol,
// max_peer_protocol, require_peer_version, deprecated_content_types and
// allowed_content_type_versions. A null member is absent; null is the zero policy.
func ParseVersionPolicy(v canonical.Value) (p VersionPolicy, err error) {
	if v.IsNull() {
		return p, nil
	}
	if v.Kind() != canonical.KindObject {
		return p, fmt.Errorf("sdl: version policy: %v, want an object", v.Kind())
	}
	p.Deprecated = make(map[string]time.Time)
	p.Allowed = make(map[string]VersionRange)
	p.MinPeer, p.MaxPeer = math.MinInt64, math.MaxInt64
	for name, m := range v.Members() {
		if m.IsNull() {
			continue
		}
		var ok bool
		switch name {
		case "min_peer_protocol":
			p.MinPeer, ok = m.Int64()
		case "max_peer_protocol":
			p.MaxPeer, ok = m.Int64()
		case "require_peer_version":
			p.RequirePeer, ok = m.Bool()
		case "deprecated_content_types":
			ok = m.Kind() == canonical.KindObject
			for ct, deadline := range m.Members() {
				text, _ := deadline.Text()
				t, isTime := ParseTime(text)
				p.Deprecated[ct], ok = t, ok && isTime
			}
		case "allowed_content_type_versions":
			ok = m.Kind() == canonical.KindObject
			for family, bounds := range m.Members() {
				low, isLow := bounds.Get("min").Int64()
				high, isHigh := bounds.Get("max").Int64()
				p.Allowed[family] = VersionRange{low, high}
				ok = ok && isLow && isHigh && 0 <= low && low <= high
			}
		default:
			return VersionPolicy{}, fmt.Errorf("sdl: version policy: unknown member %q", name)
		}
		if !ok {
			return VersionPolicy{}, fmt.Errorf("sdl: version policy: %s is not valid", name)
		}
	}
	if p.MinPeer > p.MaxPeer {
		return VersionPolicy{}, fmt.Errorf("sdl: version policy: min_peer_protocol %d above max_peer_protocol %d", p.MinPeer, p.MaxPeer)
	}
	if p.MaxPeer == 0 {
		p.MaxPeer = -1 // 0 would be no bound
	}
	return p, nil
}

// peer checks the version in cap.
func (p VersionPolicy) peer(capability canonical.Value) *Error {
	sdl := capability.Get("a2a_sdl")
	if !sdl.Has("v") {
		if p.RequirePeer {
			return bad("cap.a2a_sdl.v", "is required")
		}
		return nil
	}
	v, ok := sdl.Get("v").Int64()
	if !ok || v < p.MinPeer || p.MaxPeer != 0 && v > p.MaxPeer || v != Version {
		return bad("cap.a2a_sdl.v", "is not a version that is spoken here")
	}
	return nil
}

// contentType checks a known content type.
func (p VersionPolicy) contentType(ct string, now time.Time) *Error {
	if deadline, ok := p.Deprecated[ct]; ok && Over(deadline, now) {
		return bad("ct", "%s is refused since %s", ct, FormatTime(deadline))
	}
	family, version, _ := ParseContentType(ct)
	if r, ok := p.Allowed[family]; ok && (version < r.Min || version > r.Max) {
		return bad("ct", "%s is outside the versions %d to %d", ct, r.Min, r.Max)
	}
	return nil
}
