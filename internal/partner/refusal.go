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

// refused reports a JSON-RPC error with which an endpoint has refused a request.
func (s *server) refused(failure []byte, caller string, request []byte) {
	var e struct {
		Data struct {
			Code     string `json:"code"`
			Endpoint string `json:"endpoint"`
		} `json:"data"`
	}
	if json.Unmarshal(failure, &e) != nil {
		return // an error of the server, with data of another form
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

// codes are the codes for refusals of RPC calls.
var codes = map[string]profiles.Code{
	rpc.CodeUnauthorized: profiles.SecurityPolicy, rpc.CodeUnavailable: profiles.RateLimitExceeded,
	rpc.CodeUnknownMethod: profiles.NotFound, rpc.CodeInvalidRequest: profiles.InvalidProfilePayload,
}

// refused reports an error with which an endpoint has refused a call.
func (c *call) refused(err error) {
	if e, ok := errors.AsType[*rpc.Error](err); ok {
		c.link.refused(e, Refusal{
			Partner: c.link.opts.Name, Caller: c.pending.Session().Peer().Identity, Profile: "rpc", Operation: "call", Name: c.name,
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
