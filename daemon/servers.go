package daemon

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/profiles/all"
)

// servers are the MCP servers behind this endpoint.
type servers struct {
	list []string
}

func newServers(d *daemon) (*servers, error) {
	return &servers{list: slices.Sorted(maps.Keys(d.config.MCP.Servers))}, nil
}

func (s *servers) names() []string              { return s.list }
func (s *servers) unwell() []string             { return nil }
func (s *servers) measure(*prometheus.Registry) {}
func (s *servers) stop(context.Context)         {}
func (s *servers) kill()                        {}

func (d *daemon) newProfiles() (*all.Set, error) {
	return all.New(all.Options{Version: d.opts.Version})
}
