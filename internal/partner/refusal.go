package partner

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// Refusal is what a partner has refused, or an endpoint behind it: an error that no
// server and no method has written.
type Refusal struct {
	Partner   string // its name here
	Caller    string // identity of the caller here
	Profile   string
	Operation string
	Name      string        // as the caller said it
	Code      profiles.Code // what it comes to
	Endpoint  string        // identity of the endpoint that refused, as it says; may be empty
}

// refused tells of a JSON-RPC error by which an endpoint has refused a request.
func (s *server) refused(failure []byte, caller string, request []byte) {
	var e struct {
		Data struct {
			Code     string `json:"code"`
			Endpoint string `json:"endpoint"`
		} `json:"data"`
	}
	if json.Unmarshal(failure, &e) != nil {
		return // data is of the server's own form
	}
	code, ok := profiles.ParseCode(e.Data.Code)
	var m mcpmap.Message
	if !ok || m.Scan(request) != nil {
		return
	}
	name := strings.TrimSuffix(s.link.opts.Name+"/"+s.target, "/")
	if m.Is(mcpmap.MethodToolsCall) {
		name += "/" + string(m.Tool())
	}
	s.link.opts.Refused(Refusal{
		Partner: s.link.opts.Name, Caller: caller, Profile: "mcp", Operation: string(m.Method()), Name: name,
		Code: code, Endpoint: e.Data.Endpoint,
	})
}

// codes are what refusals of RPC come to.
var codes = map[string]profiles.Code{
	rpc.CodeUnauthorized: profiles.SecurityPolicy, rpc.CodeUnavailable: profiles.RateLimitExceeded,
	rpc.CodeUnknownMethod: profiles.NotFound, rpc.CodeInvalidRequest: profiles.InvalidProfilePayload,
}

// refused tells of an error by which an endpoint has refused a call.
func (c *call) refused(err error) {
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		c.link.refused(e, Refusal{
			Partner: c.link.opts.Name, Caller: c.pending.Session().Peer().Identity, Profile: "rpc", Operation: "call", Name: c.name,
		})
	}
}

// refused tells that an endpoint has refused a call, unless a method has.
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
