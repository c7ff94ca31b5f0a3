package partner

import (
	"encoding/json"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// Refusal is what a partner has refused, or an endpoint behind it: an error that no
// server and no method has written.
type Refusal struct {
	Partner   string // its name here
	Caller    string // identity of whoever asked here
	Profile   string
	Operation string
	Name      string        // as the caller said it
	Code      profiles.Code // what it comes to
	Endpoint  string        // identity of the endpoint that refused, as it says; may be empty
}

// refusedMCP tells of a response by which an endpoint has refused what was asked.
func (s *server) refusedMCP(octets []byte, asked Refusal) {
	var m mcpmap.Message
	if m.Scan(octets) != nil || m.Error() == nil {
		return
	}
	var e struct {
		Data struct {
			Code     string `json:"code"`
			Endpoint string `json:"endpoint"`
		} `json:"data"`
	}
	if json.Unmarshal(m.Error(), &e) != nil {
		return // data is of the server's own form
	}
	code, ok := profiles.ParseCode(e.Data.Code)
	if !ok {
		return
	}
	asked.Code, asked.Endpoint = code, e.Data.Endpoint
	s.link.opts.Refused(asked)
}

// asks says what a request asks for, before its octets are gone.
func (s *server) asks(x *mcpmap.Exchange) Refusal {
	name := s.link.opts.Name + "/" + s.target
	if x.Message.Is(mcpmap.MethodToolsCall) {
		name += "/" + string(x.Message.Tool())
	}
	return Refusal{Partner: s.link.opts.Name, Caller: x.Peer().Identity, Profile: "mcp", Operation: string(x.Message.Method()), Name: name}
}

// codes are what refusals of RPC come to.
var codes = map[string]profiles.Code{
	rpc.CodeUnauthorized: profiles.SecurityPolicy, rpc.CodeUnavailable: profiles.RateLimitExceeded,
	rpc.CodeUnknownMethod: profiles.NotFound, rpc.CodeInvalidRequest: profiles.InvalidProfilePayload,
}

// refused tells of an error by which an endpoint has refused a call.
func (c *call) refused(err error) {
	e, ok := errors.AsType[*rpc.Error](err)
	if !ok || e.Endpoint == "" {
		return
	}
	code, ok := codes[e.Code]
	if !ok {
		code = profiles.Internal
	}
	c.link.opts.Refused(Refusal{
		Partner: c.link.opts.Name, Caller: c.pending.Session().Peer().Identity,
		Profile: "rpc", Operation: "call", Name: c.name, Code: code, Endpoint: e.Endpoint,
	})
}
