package partner

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// SetPinned replaces the pinned tools of the partner: the Digest of each, by its tool_id. While
// there are any, calls of other tools, and of tools that have another Digest now, are refused.
func (l *Link) SetPinned(pins map[string]string) {
	l.pins.Store(&pins)
	l.compare()
}

// digestOf is the Digest of a tool with one version.
func digestOf(descriptor []byte) string { return Digest([]tooldisc.Tool{{Payload: descriptor}}) }

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
// it came. A pinned tool is compared with the list of its server as the caller gets it now,
// because another list may be older than the tool.
func (s *server) unpinned(ctx context.Context, up *Up, caller string, call *mcpmap.Call) error {
	l := s.link
	pins := l.pinned()
	if pins == nil {
		return nil
	}
	var m mcpmap.Message
	if err := m.Scan(call.Octets); err != nil {
		return err // it was read before
	}
	if !m.Is(mcpmap.MethodToolsCall) {
		return nil
	}
	id := s.toolID(m.Tool())
	refuse := func(why string) error {
		l.opts.Denied(caller, "mcp", mcpmap.MethodToolsCall, s.local()+"/"+string(m.Tool()), why)
		return &profiles.Error{Code: profiles.SecurityPolicy, Text: "the tool " + id + " of partner " + l.opts.Name + " " + why, Domain: true}
	}
	want, ok := pins[id]
	if !ok {
		return refuse("is not pinned, and others of the partner are; swpd partner pin accepts it")
	}
	now, err := s.current(ctx, up, call, &m)
	switch {
	case errors.Is(err, errUnlisted):
		err = l.unread(id)
		fallthrough
	case err != nil:
		return err
	case now == want:
		return nil
	case now == "":
		return refuse("is pinned, and the partner does not list it any more")
	}
	return refuse("has changed since it was pinned; swpd partner pin shows and accepts that")
}

// pinned returns the pinned tools, or nil.
func (l *Link) pinned() map[string]string {
	if pins := l.pins.Load(); pins != nil && len(*pins) > 0 {
		return *pins
	}
	return nil
}

// toolID is the tool_id of a tool of the server.
func (s *server) toolID(tool []byte) string { return s.target + "/" + string(tool) }

func (l *Link) unread(id string) error {
	return profiles.LinkFault(profiles.DetailLinkSilent, "partner "+l.opts.Name+" does not list all of its tools now, so "+id+" cannot be compared with the pinned one", true, nil)
}

var (
	// errUnlisted reports that a list of tools could not be read.
	errUnlisted = errors.New("partner: the tools cannot be listed")

	// errDrained reports that the partner drains its session, and has carried nothing out.
	errDrained = profiles.LinkFault(profiles.DetailLinkSilent, "the partner drains this session", true, nil)
)

// current returns the digest of the tool of a call in the list of its server, "" if it is not
// there. Where the partner refuses that list to the caller, the digest is the one over TOOLDISC.
func (s *server) current(ctx context.Context, up *Up, call *mcpmap.Call, m *mcpmap.Message) (digest string, err error) {
	tool, id := string(m.Tool()), s.toolID(m.Tool())
	cursor, octets := "", 0
	for n := range maxPinPages {
		list := &mcpmap.Call{Target: s.target, Session: call.Session, Shared: true, Extensions: call.Extensions, Octets: listRequest(m, n, cursor)}
		s.link.watch(up)
		result, err := s.client(up.Session).Do(ctx, list)
		switch {
		case profiles.Misanswered(err):
			return "", s.wrong(err, "", list.Octets)
		case errors.Is(err, mcpmap.ErrCancelled), errors.Is(err, context.Canceled):
			return "", err
		case err != nil:
			return "", s.link.lost(ctx, up, err, true)
		case result.Draining:
			return "", errDrained
		case result.Error() != nil && n == 0:
			return s.link.told(ctx, id)
		case result.Error() != nil:
			return "", errUnlisted
		}
		_, fault := mcpmap.CutTools(result.Octets, func(name, octets []byte) bool {
			switch now := digestOf(octets); {
			case string(name) != tool:
			case digest == "":
				digest = now
			case digest != now: // it is listed twice, in two ways
				digest = "several"
			}
			return true
		})
		if fault != nil {
			return "", fault
		}
		next, ok := nextCursor(result.Octets)
		if octets += len(result.Octets); !ok || octets > tooldisc.MaxServerOctets {
			return "", errUnlisted
		}
		if next == "" {
			s.link.note(map[string]string{id: digest})
			return digest, nil
		}
		cursor = next
	}
	return "", errUnlisted
}

// maxPinPages bounds the pages of the list in which a pinned tool is looked for.
const maxPinPages = 64

// told returns the digest of a tool in the list of the partner over TOOLDISC.
func (l *Link) told(ctx context.Context, id string) (string, error) {
	listed, ok := l.toolDigests(ctx, listEvery)
	if !ok || listed.digest[id] == "" && listed.partial() {
		return "", errUnlisted
	}
	return listed.digest[id], nil
}

// listRequest returns a request for a page of the tools, in the era of a call.
func listRequest(call *mcpmap.Message, page int, cursor string) []byte {
	params := make(map[string]any)
	if cursor != "" {
		params["cursor"] = cursor
	}
	if version := call.Version(); version != "" {
		params["_meta"] = map[string]any{
			mcpmap.MetaProtocolVersion: version, mcpmap.MetaClientCapabilities: struct{}{},
			mcpmap.MetaClientInfo: map[string]string{"name": "swpd", "version": "1"},
		}
	}
	octets, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": "swpd-pin-" + rand.Text() + "-" + strconv.Itoa(page), "method": methodToolsList, "params": params,
	})
	if err != nil {
		panic(err) // of texts
	}
	return octets
}

const methodToolsList = "tools/list"

// nextCursor returns the cursor of the next page, "" after the last one; false if it cannot be
// read.
func nextCursor(response []byte) (string, bool) {
	var answer struct {
		Result struct {
			Next *string `json:"nextCursor"`
		} `json:"result"`
	}
	if json.Unmarshal(response, &answer) != nil {
		return "", false
	}
	if answer.Result.Next == nil {
		return "", true
	}
	return *answer.Result.Next, *answer.Result.Next != ""
}

// shown returns the answer to a request as the caller gets it: from a list of tools those are
// removed of which calls are refused.
func (s *server) shown(request, response []byte) ([]byte, *profiles.Error) {
	pins := s.link.pinned()
	if pins == nil {
		return response, nil
	}
	var m mcpmap.Message
	if err := m.Scan(request); err != nil || !m.Is(methodToolsList) {
		return response, nil //nolint:nilerr // a request that cannot be read is no list
	}
	met := make(map[string]string)
	shown, err := mcpmap.CutTools(response, func(name, tool []byte) bool {
		id := s.toolID(name)
		want, pinned := pins[id]
		if !pinned {
			return false
		}
		met[id] = digestOf(tool)
		return met[id] == want
	})
	s.link.note(met)
	return shown, err
}

// note takes note of the digests of pinned tools in a list of a server, "" of a tool that the
// list lacks.
func (l *Link) note(met map[string]string) {
	l.mu.Lock()
	if l.met == nil {
		l.met = make(map[string]string)
	}
	maps.Copy(l.met, met) // bounded by the pinned tools: compare removes others
	l.mu.Unlock()
	l.compare()
}

// now returns the digest that is known last of a tool; false if nothing is known. The caller
// holds mu.
func (l *Link) now(id string) (digest string, known bool) {
	if digest, known = l.met[id]; known {
		return digest, true
	}
	digest = l.listed.digest[id]
	return digest, digest != "" || l.listed.digest != nil && !l.listed.partial()
}

// compare compares what is known of the tools of the partner with the pinned ones, and reports
// what has changed since it was called last.
func (l *Link) compare() {
	pins := l.pinned()
	l.mu.Lock()
	before := l.drift
	l.drift = nil
	maps.DeleteFunc(l.met, func(id, _ string) bool { return pins[id] == "" })
	for id, want := range pins {
		if now, known := l.now(id); known && now != want {
			if l.drift == nil {
				l.drift = make(map[string]string)
			}
			l.drift[id] = now
		}
	}
	after := maps.Clone(l.drift)
	l.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if was, known := before[id]; !known || was != after[id] {
			l.opts.Drifted(id, after[id] == "")
		}
	}
}

// withholds reports whether calls of a tool are refused, as far as is known now: others of the partner
// are pinned, or the partner lists it with another descriptor. The name of a server ends with a slash.
func (l *Link) withholds(tool string) bool {
	pins := l.pinned()
	if pins == nil || strings.HasSuffix(tool, "/") {
		return false
	}
	want, ok := pins[tool]
	l.mu.Lock()
	defer l.mu.Unlock()
	now, known := l.now(tool)
	return !ok || known && now != "" && now != want
}

// Withholds reports whether calls of a tool of a partner are refused because of the pinned ones.
func (d *Directory) Withholds(partner, tool string) bool {
	l := d.find(partner)
	return l != nil && l.withholds(tool)
}

// listedTools are the tools that a partner has listed.
type listedTools struct {
	digest map[string]string // by tool_id; never modified
	unread []tooldisc.Unread // the servers that the partner could not read
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
	if l.listed.partial() {
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
	Unread   PinState = "unread"  // the partner cannot read the server now
)

// PinnedTool is a tool of a partner, or a server of it that is Unread, whose name ends with a slash.
type PinnedTool struct {
	Tool   string   `json:"tool"`
	State  PinState `json:"state"`
	Digest string   `json:"digest,omitempty"` // of the listed descriptor
	Why    string   `json:"why,omitempty"`    // it is Unread
}

// PinnedTools returns the tools of a partner that are listed now or pinned, by name, and after them the
// servers that the partner cannot read. It reports false while no list can be read, or if there is no
// such partner.
func (d *Directory) PinnedTools(ctx context.Context, partner string) (list []PinnedTool, ok bool) {
	l := d.find(partner)
	if l == nil {
		return nil, false
	}
	listed, ok := l.toolDigests(ctx, shownAge)
	if !ok {
		return nil, false
	}
	pins := l.pinned()
	now := maps.Clone(listed.digest)
	l.mu.Lock()
	maps.Copy(now, l.met)
	l.mu.Unlock()
	all := maps.Clone(pins)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, now)
	list = []PinnedTool{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		one := PinnedTool{Tool: strings.ToValidUTF8(id, "\uFFFD"), State: Unpinned, Digest: now[id]}
		switch pin, is := pins[id]; {
		case now[id] == "" && listed.away(id) != nil:
			one.State, one.Why = Unread, listed.away(id).Reason
		case is && now[id] == "":
			one.State = Gone
		case is && pin != now[id]:
			one.State = Changed
		case is:
			one.State = Pinned
		}
		list = append(list, one)
	}
	for _, u := range listed.unread {
		list = append(list, PinnedTool{Tool: cmp.Or(u.Name, "…") + "/", State: Unread, Why: u.Reason})
	}
	return list, true
}

// partial reports whether the partner could not read all of its servers.
func (l *listedTools) partial() bool { return len(l.unread) > 0 }

// away returns the server of a tool if the partner could not read it, else nil.
func (l *listedTools) away(tool string) *tooldisc.Unread {
	for i, u := range l.unread {
		if u.Name == "" || strings.HasPrefix(tool, u.Name+"/") {
			return &l.unread[i]
		}
	}
	return nil
}
