package mcpmap

import (
	"bytes"
)

// Kind is the kind of a JSON-RPC message.
type Kind uint8

// The kinds of message. Their numbers are the msg_types of profile 1.
const (
	Request      Kind = 1
	Response     Kind = 2
	Notification Kind = 3
)

// Names of methods and members that this mapping uses.
const (
	MethodInitialize = "initialize"
	MethodDiscover   = "server/discover"
	MethodListen     = "subscriptions/listen"
	MethodCancelled  = "notifications/cancelled"
	MethodProgress   = "notifications/progress"
	MethodToolsCall  = "tools/call"

	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
)

// ModernVersion is the first protocol version without sessions.
const ModernVersion = "2026-07-28"

// Message is the outline of a JSON-RPC message: a view of its octets, which are not
// changed. The zero Message is empty.
type Message struct {
	octets []byte

	jsonrpc, id, method, params, result, err span

	progress     span // params._meta.progressToken
	progressed   span // params.progressToken
	request      span // params.requestId
	subscription span // params._meta[MetaSubscriptionID]
	version      span // params._meta[MetaProtocolVersion]

	tool      span // params.name
	toolFault bool // there is more than one, or it is not a string

	task        span // taskId of params, of a result, or of result.task
	taskFault   bool // as toolFault
	created     bool // there is a result.task
	resultType  span
	status, ttl span // of the task
	filter      span // params.notifications
	listed      span // params.notifications.taskIds
	listedFault bool // one of the two is there more than once, or is not what it should be
}

// On returns the same outline for a copy of the octets.
func (m Message) On(octets []byte) Message {
	m.octets = octets
	return m
}

func (m *Message) at(s span) []byte {
	if !s.present() {
		return nil
	}
	return m.octets[s.from:s.to:s.to]
}

// Octets returns the whole message.
func (m *Message) Octets() []byte { return m.octets }

// ID returns the octets of the id, quotes included, or nil.
func (m *Message) ID() []byte { return m.at(m.id) }

// Params returns the octets of the params, or nil.
func (m *Message) Params() []byte { return m.at(m.params) }

// Result returns the octets of the result, or nil.
func (m *Message) Result() []byte { return m.at(m.result) }

// Error returns the octets of the error, or nil.
func (m *Message) Error() []byte { return m.at(m.err) }

// ProgressToken returns the token with which the sender of a request wants progress
// notifications, octet for octet, or nil.
func (m *Message) ProgressToken() []byte { return m.at(m.progress) }

// Progressed returns the token in a progress notification, octet for octet, or nil.
func (m *Message) Progressed() []byte { return m.at(m.progressed) }

// RequestID returns the id of the request in a cancellation, octet for octet, or nil.
func (m *Message) RequestID() []byte { return m.at(m.request) }

// SubscriptionID returns the id of the listening request of a notification, octet for
// octet, or nil.
func (m *Message) SubscriptionID() []byte { return m.at(m.subscription) }

// Method returns the unescaped method, or nil. It is a window into the octets unless there
// were escapes.
func (m *Message) Method() []byte {
	text, _ := m.text(m.method)
	return text
}

// Tool returns the unescaped name of the tool of a tools/call, or nil.
func (m *Message) Tool() []byte {
	text, _ := m.text(m.tool)
	return text
}

// Task returns the unescaped id of the task that the message names, or nil: in the params of
// a request or a notification, or in a result that is a task or has made one.
func (m *Message) Task() []byte {
	text, _ := m.text(m.task)
	return text
}

// Is reports whether this is a message with a method.
func (m *Message) Is(method string) bool { return string(m.Method()) == method }

// text unescapes a string; ok is false if the value is not a string of valid characters.
func (m *Message) text(s span) (text []byte, ok bool) {
	raw := m.at(s)
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, true
	}
	return appendUnescaped(nil, raw)
}

// Modern reports whether a request uses the protocol without sessions: it names a version
// from ModernVersion on, or it is server/discover.
func (m *Message) Modern() bool {
	v, ok := m.text(m.version)
	return ok && string(v) >= ModernVersion || m.Is(MethodDiscover)
}

// Version returns the protocol version in a modern request, or "".
func (m *Message) Version() string {
	v, _ := m.text(m.version)
	return string(v)
}

// Kind returns the kind of the message by its outline; Check reports whether it is valid.
func (m *Message) Kind() Kind {
	switch {
	case m.method.present() && m.id.present():
		return Request
	case m.method.present():
		return Notification
	}
	return Response
}

// Check returns an error if the message is not a well-formed one of a kind. The error is an
// *Error of InvalidMCPPayload.
//
// Specification: SWP profiles §1. A request has an id other than null, as MCP requires. The
// name of a called tool must be exactly one string, because access rules use it, and so must
// the id of a task, because it belongs to one caller.
func (m *Message) Check(kind Kind) error {
	version, ok := m.text(m.jsonrpc)
	if !ok || string(version) != "2.0" {
		return invalid(detailShape, `jsonrpc is not "2.0"`)
	}
	id, method := m.id.present(), m.method.present()
	null := string(m.ID()) == "null"
	result, failed := m.result.present(), m.err.present()
	if method {
		if _, ok := m.text(m.method); !ok {
			return invalid(detailShape, "method is not a sequence of characters")
		}
		if m.Is(MethodToolsCall) && m.tool.present() {
			if _, ok := m.text(m.tool); !ok || m.toolFault {
				return invalid(detailShape, "the name of the tool is not one string")
			}
		}
		if err := m.checkTasks(kind); err != nil {
			return err
		}
	}
	switch {
	case kind == Response && method:
		return invalid(detailShape, "a response has no method")
	case kind == Response && result == failed:
		return invalid(detailShape, "a response has either a result or an error")
	case kind == Response && result && (!id || null):
		return invalid(detailShape, "a result has no id")
	case kind == Response:
		return nil
	case !method:
		return invalid(detailShape, "no method")
	case result || failed:
		return invalid(detailShape, "a result or an error beside a method")
	case kind == Request && (!id || null):
		return invalid(detailShape, "a request has no id")
	case kind == Notification && id:
		return invalid(detailShape, "a notification has an id")
	}
	return nil
}
