package swpd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/slimwire/swp/test/bench/cert"
)

// Behind are the MCP servers behind a gateway.
type Behind struct {
	URL     string   // of the server "url"
	Command []string // of the server "stdio"
	Audit   string   // of both swpd, one of Audits
}

// farPartner is the name under which the near swpd knows the far one.
const farPartner = "far"

// Gateway is two swpd of two organisations: where programs call, over HTTP or SWP, and
// where the MCP servers are.
type Gateway struct {
	near, far *Server
	front     string
}

// StartGateway runs the two with the certificates in dir, and a link over "tls" or
// "quic" from one to the other.
func StartGateway(ctx context.Context, path, dir, transport string, b Behind) (*Gateway, error) {
	far, err := launch(ctx, path, dir, cert.Server(dir), b.Audit, fmt.Sprintf(`mcp:
  servers:
    url: {url: %q}
    stdio: {command: %q, args: [%s]}
partners:
  near: {identity: %q}
`, b.URL, b.Command[0], quoted(b.Command[1:]), cert.PartnerIdentity))
	if err != nil {
		return nil, err
	}
	g := &Gateway{far: far}
	if err := far.listens(ctx, far.addr); err != nil {
		return nil, err
	}
	if g.front, err = freePort(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.near, err = launch(ctx, path, dir, cert.Partner(dir), b.Audit, fmt.Sprintf(`partners:
  %s: {identity: %q, addresses: ["swp+%s://%s"]}
http: {address: %q, anonymous: bench}
`, farPartner, cert.ServerIdentity, transport, far.addr, g.front))
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if err := g.near.listens(ctx, g.front); err != nil {
		return nil, errors.Join(err, far.Close())
	}
	return g, nil
}

func quoted(args []string) string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = fmt.Sprintf("%q", a)
	}
	return strings.Join(list, ", ")
}

// Addr is the URL under which the server of a name is called.
func (g *Gateway) Addr(server string) string {
	u := url.URL{Scheme: "http", Host: g.front, Path: "/mcp/" + farPartner + "/" + server}
	return u.String()
}

// Far returns where programs that use SWP call the far swpd, which has the MCP servers, or one
// of them by name, and its process id.
func (g *Gateway) Far(server string) (addr string, pid int) {
	if addr = g.far.Addr(); server != "" {
		addr += "/" + server
	}
	return addr, g.far.PID()
}

// Route is the address of the two for programs that use SWP.
func (g *Gateway) Route() Route { return Route{g.near.Addr(), g.far.Addr(), farPartner} }

// PIDs are the process ids of the two.
func (g *Gateway) PIDs() []int { return []int{g.near.PID(), g.far.PID()} }

// Close ends both.
func (g *Gateway) Close() error {
	var err error
	if g.near != nil {
		err = g.near.Close()
	}
	return errors.Join(err, g.far.Close())
}
