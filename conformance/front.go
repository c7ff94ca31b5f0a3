package conformance

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/pipes"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/vectors"
)

// buildFront builds an endpoint that calls for a client of its HTTP front: "json" are the bodies
// of the client, and connection "a" leads to a peer of the input.
func buildFront(s *stage) error {
	m := s.mapping(nil)
	ep, err := s.endpoint([]*profiles.Profile{witnessed(s, m.Profile())})
	if err != nil {
		return err
	}
	session, err := s.pipe(ep, "a")
	if err != nil {
		return err
	}
	link := &mcpfront.Link{Session: session, MCP: m.Client(session)}
	front := mcpfront.New(mcpfront.Options{
		Connect: func(context.Context, string) (*mcpfront.Link, error) { return link, nil },
		Caller:  gate.Caller, Body: never, Write: never, KeepAlive: never,
	})
	callers, err := gate.New(gate.Options{Anonymous: "client"})
	if err != nil {
		return err
	}
	ln := pipes.Listen()
	context.AfterFunc(s.ctx, func() { _ = ln.Close() })
	server := callers.Server(front)
	s.tasks.Go(func() { _ = server.Serve(ln) })
	client := &http.Client{Transport: &http.Transport{DialContext: ln.Dial}}
	s.onClose(func() {
		client.CloseIdleConnections()
		_ = server.Close()
		front.Close(s.ctx)
	})
	g, url := s.newGateway(), "http://localhost"+mcpfront.Path
	g.ask = func(octets []byte, _ *mcpmap.Message) { g.post(client, url, octets) }
	g.notify = func(octets []byte) { s.tasks.Go(func() { g.post(client, url, octets) }) }
	s.peers[vectors.JSONConn] = g
	return nil
}

// post sends one message, and replies with the messages of the response.
func (g *gateway) post(client *http.Client, url string, octets []byte) {
	req, err := http.NewRequestWithContext(g.ctx, http.MethodPost, url, bytes.NewReader(octets))
	if err != nil {
		return // the address of a listener
	}
	h := req.Header
	h.Set("Content-Type", mcpheader.JSON)
	h.Set("Accept", mcpheader.JSON+", "+mcpheader.Events)
	h.Set(mcpheader.Version, mcpmap.ModernVersion)
	var m mcpmap.Message
	if m.Scan(octets) == nil {
		h.Set(mcpheader.Method, string(m.Method()))
		if name, ok := mcpheader.NameOf(&m); ok {
			h.Set(mcpheader.Name, mcpheader.Encode(name))
		}
	}
	response, err := client.Do(req)
	if err != nil {
		return // the client has gone
	}
	defer func() { _ = response.Body.Close() }()
	if !strings.HasPrefix(response.Header.Get("Content-Type"), mcpheader.Events) {
		if body, err := io.ReadAll(response.Body); err == nil && len(body) > 0 {
			g.reply(body)
		}
		return
	}
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			g.reply(bytes.TrimSuffix(data, []byte("\n")))
		}
	}
}
