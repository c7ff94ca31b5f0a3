package conformance

import (
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// buildPartner builds an endpoint between two connections: "b" leads to a partner, whose default
// server is the one that "a" asks.
func buildPartner(s *stage) error {
	link, err := partner.New(partner.Options{
		Name: "partner", Identity: peerIdentity + "b", Self: func() string { return ownIdentity },
		Profiles: []uint64{mcpmap.ProfileID}, // it is not asked for them
	})
	if err != nil {
		return err
	}
	s.onClose(link.Close)
	directory := new(partner.Directory)
	directory.Set([]*partner.Link{link})
	none, err := mcpmap.NewTable(nil, "")
	if err != nil {
		return err
	}
	var m *mcpmap.Mapping
	behind := partner.Backend{
		Local: none, Directory: directory,
		Client: func(session profiles.Session) *mcpmap.Client { return m.Client(session) },
	}
	server, _ := behind.Server("partner") // it has a link
	m = s.mapping(server)
	return s.between(m, link.Adopt)
}
