package all

import (
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
)

// Open returns the RPC methods that every peer may call, whatever the access
// rules say. They disclose nothing that the peer may not use anyway: swp.info
// names what it may reach, swp.agents.list whose card it may get, the methods
// about MCP sessions know only those that its identity was allowed to open, those
// about states and artifacts what it may get, and what is its own, and those about deliveries
// ask for themselves who may consume from a topic.
func Open() []string {
	return []string{
		agdisc.MethodList, rpc.MethodEcho, rpc.MethodInfo, mcpmap.MethodRPCClose, mcpmap.MethodRPCListen, rpc.MethodPing, rpc.MethodSync,
		artifact.MethodForget, artifact.MethodList, relay.MethodAttach, relay.MethodDead,
		state.MethodDeltas, state.MethodForget,
	}
}

// withOpen is an Access that lets everyone call the open methods.
type withOpen struct {
	profiles.Access
	methods []string
}

func (o withOpen) Allowed(identity, profile, operation, name string) bool {
	if profile == "rpc" && operation == "call" && slices.Contains(o.methods, name) {
		return true
	}
	return o.Access.Allowed(identity, profile, operation, name)
}
