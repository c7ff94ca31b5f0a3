package partner

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// Refusal describes a request that the partner or an endpoint behind it has refused. Errors
// of MCP servers and RPC methods are not refusals.
type Refusal struct {
	Partner   string // name of the partner here
	Caller    string // identity of the caller here
	Profile   string
	Operation string
	Name      string        // name as given by the caller
	Code      profiles.Code // the corresponding code
	Endpoint  string        // claimed identity of the refusing endpoint; may be empty
}

// Wrong is an answer by which a partner, or an endpoint behind it, has broken the protocol.
type Wrong struct {
	Partner   string // its name here
	Caller    string // identity of the caller here; empty: this endpoint has asked
	Profile   string
	Operation string
	Name      string // as the caller said it
	Err       error  // what is wrong with it
}

// wrong returns what a caller is told of an answer by which the partner has broken the
// protocol, and tells of it. Another error is returned unchanged.
func (l *Link) wrong(err error, w Wrong) error {
	if !profiles.Misanswered(err) {
		return err
	}
	w.Partner, w.Err = l.opts.Name, err
	l.opts.Wrong(w)
	return profiles.Broken(l.opts.Name, err)
}

// refused reports a JSON-RPC error if an endpoint has refused a request with it.
func (s *server) refused(failure []byte, caller string, request []byte) bool {
	var e struct {
		Data struct {
			Code     string `json:"code"`
			Endpoint string `json:"endpoint"`
		} `json:"data"`
	}
	if json.Unmarshal(failure, &e) != nil {
		return false // an error of the server, with data of another form
	}
	code, ok := profiles.ParseCode(e.Data.Code)
	var m mcpmap.Message
	if !ok || m.Scan(request) != nil {
		return false
	}
	s.link.opts.Refused(Refusal{
		Partner: s.link.opts.Name, Caller: caller, Profile: "mcp", Operation: string(m.Method()), Name: s.name(&m),
		Code: code, Endpoint: e.Data.Endpoint,
	})
	return true
}

// wrong returns what a client is told of a wrong answer to a request.
func (s *server) wrong(err error, caller string, request []byte) error {
	var m mcpmap.Message
	_ = m.Scan(request) // it was passed on, so it has an outline
	return s.link.wrong(err, Wrong{Caller: caller, Profile: "mcp", Operation: string(m.Method()), Name: s.name(&m)})
}

// name is what a request is about, in the words of the access rules.
func (s *server) name(m *mcpmap.Message) string {
	name := strings.TrimSuffix(s.link.opts.Name+"/"+s.target, "/")
	if m.Is(mcpmap.MethodToolsCall) {
		name += "/" + string(m.Tool())
	}
	return name
}

// codes are the codes for refusals of RPC calls.
var codes = map[string]profiles.Code{
	rpc.CodeUnauthorized: profiles.SecurityPolicy, rpc.CodeUnavailable: profiles.RateLimitExceeded,
	rpc.CodeUnknownMethod: profiles.NotFound, rpc.CodeInvalidRequest: profiles.InvalidProfilePayload,
}

// refused reports an error with which an endpoint has refused a call.
func (c *call) refused(err error) {
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		c.link.refused(e, Refusal{
			Partner: c.link.opts.Name, Caller: c.pending.Peer().Identity, Profile: "rpc", Operation: "call", Name: c.name,
		})
	}
}

// refused reports an error of a call, unless a method has returned the error.
func (l *Link) refused(e *rpc.Error, about Refusal) {
	if e.Endpoint == "" {
		return
	}
	code, ok := codes[e.Code]
	if !ok {
		code = profiles.Internal
	}
	about.Code, about.Endpoint = code, e.Endpoint
	l.opts.Refused(about)
}
