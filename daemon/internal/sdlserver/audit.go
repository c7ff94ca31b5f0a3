package sdlserver

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/sdlaudit"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// chained adds the entries of requests to the audit chain. It implements serve.Audit.
type chained struct {
	*sdlaudit.Chain
	by   sdlaudit.Signer
	open bool   // requests without an entry are answered
	who  string // identity of the requests
}

// Of implements serve.Audit.
func (c *chained) Of(identity string) serve.Audit {
	return &chained{c.Chain, c.by, c.open, identity}
}

// Ready implements serve.Audit.
func (c *chained) Ready() error {
	if err := c.Chain.Ready(c.who); !c.open {
		return err
	}
	return nil
}

// Add implements serve.Audit.
func (c *chained) Add(event canonical.Value) (canonical.Value, error) {
	if c.open && c.Err() != nil {
		return canonical.Value{}, nil
	}
	receipt, err := c.Chain.Add(c.who, event, c.by)
	if c.open {
		err = nil
	}
	return receipt, err
}

// Longest implements serve.Audit.
func (c *chained) Longest() canonical.Value { return sdlaudit.Longest(c.by) }

// openChain opens the audit chain if the configuration has one.
func (s *Server) openChain(c *config.Config) (err error) {
	if !c.SDL.Audit.Enabled {
		return nil
	}
	path := c.SDLAuditFile()
	s.chain, err = sdlaudit.Open(sdlaudit.Options{Path: path, Size: int64(c.SDL.Audit.Size), Failed: s.chainFailed})
	if err != nil {
		return fmt.Errorf("sdl.audit: %w", err)
	}
	if n := s.chain.Cut(); n > 0 {
		s.log.Warn("sdl audit chain: an incomplete entry at the end is removed; its request was not answered", zap.String("path", path), zap.Int64("octets", n))
	}
	return nil
}

// closed reports whether requests are refused if no entry can be added.
func (s *Server) closed() bool { return s.o.Config.SDL.Audit.Fail == config.SDLAuditClosed }

func (s *Server) chainFailed(err error) {
	if err == nil {
		s.log.Info("sdl audit entries are written again")
		return
	}
	s.log.Error("sdl audit entries cannot be written", zap.Error(err), zap.Bool("requests_refused", s.closed()))
}

// audit has the requests of a language added to the chain, signed with its key.
func (s *Server) audit(o *language) {
	if s.chain != nil {
		o.Audit = &chained{Chain: s.chain, by: sdlaudit.Signer{Key: o.SessionKey, Kid: o.Signer.Kid}, open: !s.closed()}
	}
}

func (s *Server) closeChain() error {
	if s.chain == nil {
		return nil
	}
	return s.chain.Close()
}

// Look implements part.Part.
func (s *Server) Look(h *part.Health) {
	if s.chain == nil {
		return
	}
	octets, most := s.chain.Used()
	switch err := s.chain.Err(); {
	case err != nil && s.closed():
		h.Reasons = append(h.Reasons, "requests of A2A-SDL are refused because their audit entries cannot be written: "+err.Error())
	case err != nil:
		h.WarnWith("audit entries of A2A-SDL cannot be written, and answers have no receipt", ": "+err.Error())
	case octets > most/10*9:
		h.Warn(fmt.Sprintf("the audit chain of A2A-SDL has %d of %d octets (sdl.audit.size); move %s to an archive before it is full", octets, most, s.o.Config.SDLAuditFile()))
	}
}
