package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// agreement is what a server answers to initialize, as far as a client relies on it.
type agreement struct {
	Version      string         `json:"protocolVersion"`
	Capabilities map[string]any `json:"capabilities"`
}

// agreementOf reads an answer to initialize; false if it does not open a session.
func agreementOf(octets []byte) (agreement, bool) {
	var answer struct {
		Result *agreement `json:"result"`
	}
	decoder := json.NewDecoder(bytes.NewReader(octets))
	decoder.UseNumber()
	if decoder.Decode(&answer) != nil || answer.Result == nil {
		return agreement{}, false
	}
	return *answer.Result, true
}

// covers reports whether a client that knows an earlier agreement may rely on a: the
// same version, and at least the same capabilities.
func (a agreement) covers(before agreement) bool {
	return a.Version == before.Version && covers(a.Capabilities, before.Capabilities)
}

func covers(now, before any) bool {
	old, ok := before.(map[string]any)
	if !ok {
		return reflect.DeepEqual(now, before)
	}
	members, ok := now.(map[string]any)
	for name, value := range old {
		member, has := members[name]
		if !has || !covers(member, value) {
			return false
		}
	}
	return ok
}

// changes are the notifications of changed lists that the server has announced.
func (a agreement) changes() (notifications [][]byte) {
	for _, list := range []string{"tools", "resources", "prompts"} {
		if offered, ok := a.Capabilities[list].(map[string]any); ok && offered["listChanged"] == true {
			notifications = append(notifications, []byte(`{"jsonrpc":"2.0","method":"notifications/`+list+`/list_changed"}`))
		}
	}
	return notifications
}

// refusedAnew is the error for messages of a session that the server refuses to
// reopen now.
func refusedAnew(octets []byte) error {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(octets, &answer) // or it gives no reason
	return &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_session", Retryable: true,
		Text: "the session had ended, and the server opens no other now: " + answer.Error.Message,
	}
}

// setting is a message by which the client has set something in its session.
type setting struct {
	key    string // of the setting; the last one counts
	octets []byte
	asks   bool // it is a request
}

// Methods that set something in a session.
const (
	methodInitialized = "notifications/initialized"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
)

// maxTold bounds what is remembered of a session.
const maxTold = 1024

// repeat sends the request again. A request that the server refuses now counts as refused then.
func (t *setting) repeat(ctx context.Context, link Link, target, id string) error {
	if !t.asks {
		return link.MCP.Notify(ctx, target, id, t.octets)
	}
	_, err := link.MCP.Do(ctx, &mcpmap.Call{Target: target, Session: id, Octets: t.octets})
	return err
}

// notified notes a notification that has left.
func (s *clientSession) notified(m *mcpmap.Message, octets []byte) {
	if m.Is(methodInitialized) {
		s.set(setting{key: methodInitialized, octets: octets})
	}
}

// note notes a request that the server has answered.
func (s *clientSession) note(m *mcpmap.Message, octets []byte, result *mcpmap.Result) {
	sets := m.Is(methodSetLevel) || m.Is(methodSubscribe) || m.Is(methodUnsubscribe)
	var answer mcpmap.Message
	if !sets || answer.Scan(result.Octets) != nil || answer.Result() == nil {
		return
	}
	if m.Is(methodSetLevel) {
		s.set(setting{key: methodSetLevel, octets: octets, asks: true})
		return
	}
	var request struct {
		Params struct {
			URI string `json:"uri"`
		} `json:"params"`
	}
	if json.Unmarshal(octets, &request) != nil {
		return
	}
	t := setting{key: methodSubscribe + " " + request.Params.URI, octets: octets, asks: true}
	if m.Is(methodUnsubscribe) {
		t.octets = nil
	}
	s.set(t)
}

// set remembers a setting in place of the one before; without octets it is forgotten.
func (s *clientSession) set(t setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	s.told = slices.DeleteFunc(s.told, func(old setting) bool { return old.key == t.key })
	switch {
	case t.octets == nil:
	case len(s.told) < maxTold:
		s.told = append(s.told, t)
	default:
		s.c.o.Complain("more subscriptions than are made again if the session has to be opened anew")
	}
}
