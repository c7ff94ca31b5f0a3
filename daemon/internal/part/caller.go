package part

import (
	"go.uber.org/zap"

	"github.com/slimwire/swp/profiles"
)

// From returns fields with those that say who a request is from: the peer, and at the end
// the caller that it has asserted, if any.
func From(identity string, fields ...zap.Field) []zap.Field {
	all := append([]zap.Field{zap.String("peer", profiles.Link(identity))}, fields...)
	if caller := profiles.For(identity); caller != "" {
		all = append(all, zap.String("for", caller))
	}
	return all
}
