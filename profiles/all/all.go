// Package all is the one list of profiles. Adding a profile is a folder beside
// this one, its vectors, and a line here.
//
// Profiles do not know each other. What one needs of another, or of the world,
// it declares as a small interface of its own; here they are joined.
package all

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/rpc"
)

// Options configure the profiles. The zero value serves all of them, with
// nothing behind them.
type Options struct {
	// Version of the software, for swp.info.
	Version string

	// MCP configures profile 1. Its Backend is the servers that peers may call.
	MCP mcpmap.Options

	// Events configures profile 13.
	Events events.Options

	// Methods are served as RPC beside the built-in ones, by name.
	Methods map[string]rpc.Method
}

// Set is the profiles of one endpoint, and the ends that they have on this side.
type Set struct {
	Registry *profiles.Registry
	Traces   *obs.Contexts   // trace contexts that peers have set; Attach is for endpoint.Options.Tracer
	MCP      *mcpmap.Mapping // calls the MCP servers of peers
	Events   *events.Bus     // takes in and gives out the events of this process
}

// New builds every profile. It fails on methods that rpc.New refuses, and on
// those that are named like one of a profile.
func New(opts Options) (*Set, error) {
	s := &Set{MCP: mcpmap.New(opts.MCP), Traces: obs.New(obs.Options{})}
	methods := map[string]rpc.Method{
		mcpmap.MethodRPCListen: {Long: true, Held: s.listen},
		mcpmap.MethodRPCClose:  {Inline: s.end, Repeatable: true},
	}
	for name, m := range opts.Methods {
		if _, taken := methods[name]; taken {
			return nil, fmt.Errorf("all: method %q is built in", name)
		}
		methods[name] = m
	}
	calls, err := rpc.New(rpc.Options{Methods: methods, Info: s.info(opts)})
	if err != nil {
		return nil, err
	}
	if s.Events, err = events.New(opts.Events); err != nil {
		return nil, err
	}
	s.Registry, err = profiles.NewRegistry(
		s.MCP.Profile(),
		calls,
		s.Events.Profile(),
		s.Traces.Profile(),
	)
	return s, err
}

// Close ends what the profiles keep open. Sessions of the endpoint are ended
// first.
func (s *Set) Close() {
	s.MCP.Close()
	s.Events.Close()
}

// listen is swp.mcp.listen: held open while this caller hears what the server
// of a session says on its own account.
func (s *Set) listen(p *rpc.Pending, params []byte) error {
	release, err := s.MCP.Listen(p.Session(), p.Lane(), params, func() { _ = p.Return(nil) })
	if err != nil {
		return err
	}
	context.AfterFunc(p.Context(), release)
	return nil
}

// end is swp.mcp.close.
func (s *Set) end(req *profiles.Request, params []byte) ([]byte, error) {
	return nil, s.MCP.End(req.Session, params)
}

// honoured are the extension types that are acted on, by profile_id.
var honoured = map[uint64][]uint64{
	mcpmap.ProfileID: {
		profiles.ExtTarget, profiles.ExtSession, profiles.ExtRelated,
		profiles.ExtMCPParam, profiles.ExtHTTPStatus, profiles.ExtDeadline,
	},
	events.ProfileID: {profiles.ExtSubscription, profiles.ExtCursor, profiles.ExtHops},
}

// info says what swp.info tells. Until there are access rules every peer is
// told of every target.
func (s *Set) info(opts Options) func(*profiles.Peer) rpc.Info {
	return func(*profiles.Peer) rpc.Info {
		info := rpc.Info{Version: opts.Version, Extensions: honoured, Targets: []string{}}
		for _, p := range s.Registry.All() {
			types := make([]uint64, len(p.Types))
			for i, row := range p.Types {
				types[i] = row.ID
			}
			info.Profiles = append(info.Profiles, rpc.ProfileInfo{ID: p.ID, Types: types})
		}
		if opts.MCP.Backend != nil {
			names, _ := opts.MCP.Backend.Targets()
			info.Targets = append(info.Targets, names...)
		}
		return info
	}
}
