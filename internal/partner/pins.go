package partner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// SetPinned replaces the pinned tools of the partner: the Digest of each, by its tool_id. While
// there are any, calls of other tools, and of tools that have another Digest now, are refused.
func (l *Link) SetPinned(pins map[string]string) { l.pins.Store(&pins) }

// digests returns the Digest of each tool in a list.
func digests(tools []tooldisc.Tool) map[string]string {
	all := make(map[string][]tooldisc.Tool)
	for _, t := range tools {
		all[t.ID] = append(all[t.ID], t)
	}
	list := make(map[string]string, len(all))
	for id, versions := range all {
		list[id] = Digest(versions)
	}
	return list
}

// Digest identifies a tool with its present descriptor: the SHA-256 of the descriptor, octet for octet as the
// partner lists it. So it covers name, description and schema, in every version of the tool.
func Digest(versions []tooldisc.Tool) string {
	slices.SortFunc(versions, func(a, b tooldisc.Tool) int { return cmp.Compare(a.Version, b.Version) })
	h := sha256.New()
	for _, t := range versions {
		_, _ = h.Write(t.Payload) // never fails
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// unpinned returns why a request is not forwarded; nil if it is. The message itself stays as
// it came. caller is for the log.
func (s *server) unpinned(ctx context.Context, caller string, octets []byte) error {
	l := s.link
	pins := l.pins.Load()
	if pins == nil || len(*pins) == 0 {
		return nil
	}
	var m mcpmap.Message
	if err := m.Scan(octets); err != nil {
		return err // it was read before
	}
	if !m.Is(mcpmap.MethodToolsCall) {
		return nil
	}
	id := s.target + "/" + string(m.Tool())
	refuse := func(why string) error {
		l.opts.Denied(caller, "mcp", mcpmap.MethodToolsCall, s.local()+"/"+string(m.Tool()), why)
		return &profiles.Error{Code: profiles.SecurityPolicy, Text: "the tool " + id + " of partner " + l.opts.Name + " " + why, Domain: true}
	}
	want, ok := (*pins)[id]
	if !ok {
		return refuse("is not pinned, and others of the partner are; swpd partner pin accepts it")
	}
	now, ok := l.toolDigests(ctx, listEvery)
	switch listed := now.digest[id]; {
	case listed == want:
		return nil
	case !ok, listed == "" && now.partial:
		return profiles.LinkFault(profiles.DetailLinkSilent, "partner "+l.opts.Name+" does not list all of its tools now, so "+id+" cannot be compared with the pinned one", true, nil)
	case listed == "":
		return refuse("is pinned, and the partner does not list it any more")
	}
	return refuse("has changed since it was pinned; swpd partner pin shows and accepts that")
}

// withholds reports whether calls of a tool are refused, as far as is known now: others of the partner
// are pinned, or the partner lists it with another descriptor. The name of a server ends with a slash.
func (l *Link) withholds(tool string) bool {
	pins := l.pins.Load()
	if pins == nil || len(*pins) == 0 || strings.HasSuffix(tool, "/") {
		return false
	}
	want, ok := (*pins)[tool]
	l.mu.Lock()
	defer l.mu.Unlock()
	now, listed := l.listed.digest[tool]
	return !ok || listed && now != want
}

// Withholds reports whether calls of a tool of a partner are refused because of the pinned ones.
func (d *Directory) Withholds(partner, tool string) bool {
	l := d.find(partner)
	return l != nil && l.withholds(tool)
}

// listedTools are the tools that a partner has listed.
type listedTools struct {
	digest  map[string]string // by tool_id; never modified
	partial bool              // the partner could not read all of its servers
}

// Maximum ages of lists other than listEvery: of one that is not complete, and of one that is
// shown to an operator.
const (
	partialAge = time.Second
	shownAge   = time.Second
)

// toolDigests returns the tools that the partner lists, at most that old and read over the
// current session; empty and false if they cannot be read.
func (l *Link) toolDigests(ctx context.Context, age time.Duration) (listedTools, bool) {
	l.mu.Lock()
	if l.listed.partial {
		age = partialAge
	}
	l.mu.Unlock()
	if l.opts.Tools == nil || !l.refresh(ctx, l.tools, age, l.listTools) {
		return listedTools{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed, true
}

// PinState is the state of a tool of a partner.
type PinState string

// The states.
const (
	Unpinned PinState = "unpinned"
	Pinned   PinState = "pinned"
	Changed  PinState = "changed" // the partner lists another descriptor than the pinned one
	Gone     PinState = "gone"    // pinned, and not listed
)

// PinnedTool is a tool of a partner.
type PinnedTool struct {
	Tool   string   `json:"tool"`
	State  PinState `json:"state"`
	Digest string   `json:"digest,omitempty"` // of the listed descriptor
}

// PinnedTools returns the tools of a partner that are listed now or pinned, by name. It reports
// false while not all can be read, or if there is no such partner.
func (d *Directory) PinnedTools(ctx context.Context, partner string) (list []PinnedTool, ok bool) {
	l := d.find(partner)
	if l == nil {
		return nil, false
	}
	listed, ok := l.toolDigests(ctx, shownAge)
	if !ok || listed.partial {
		return nil, false
	}
	now := listed.digest
	var pins map[string]string
	if p := l.pins.Load(); p != nil {
		pins = *p
	}
	all := maps.Clone(pins)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, now)
	list = []PinnedTool{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		one := PinnedTool{Tool: strings.ToValidUTF8(id, "\uFFFD"), State: Unpinned, Digest: now[id]}
		switch pin, is := pins[id]; {
		case is && now[id] == "":
			one.State = Gone
		case is && pin != now[id]:
			one.State = Changed
		case is:
			one.State = Pinned
		}
		list = append(list, one)
	}
	return list, true
}
