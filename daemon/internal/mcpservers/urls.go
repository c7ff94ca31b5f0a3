package mcpservers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// backend returns the MCP server at a URL.
func (s *Servers) backend(name string, c *config.MCPServer) (*mcphttp.Backend, error) {
	if _, err := Headers(c); err != nil {
		return nil, err
	}
	return mcphttp.NewBackend(mcphttp.BackendOptions{
		Name: name, URL: c.URL, Headers: headersOf(c), Timeouts: mcpmap.Timeouts{Each: c.Timeout, Tools: c.Timeouts}, SessionIdle: c.SessionIdle, Memory: s.memory,
		Trouble: func(err error) {
			s.log.Warn("request to a server failed", zap.String("server", name), zap.Error(err))
			s.health.Of(health.Server, name).Failed(health.ServerRequest, err, nil)
		},
		Answered: func() { s.health.Of(health.Server, name).Worked() },
	})
}

// Headers reads the headers of a server at a URL, and checks them.
func Headers(c *config.MCPServer) (http.Header, error) {
	h, err := headersOf(c)()
	if err == nil {
		err = mcphttp.CheckHeaders(h)
	}
	return h, err
}

// headersOf returns a function that reads the headers of a server at a URL. It reads files
// each time, so that changed files need no restart.
func headersOf(c *config.MCPServer) func() (http.Header, error) {
	return func() (http.Header, error) {
		h := make(http.Header, len(c.Headers)+len(c.HeadersFrom))
		for name, value := range c.Headers {
			h.Set(name, value)
		}
		for name, file := range c.HeadersFrom {
			value, err := readHeader(file)
			if err != nil {
				return nil, err
			}
			h.Set(name, value)
		}
		return h, nil
	}
}

// maxHeaderValue bounds the file of a header value, in octets.
const maxHeaderValue = 8 << 10

func readHeader(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", config.Unreadable(file, err)
	}
	defer func() { _ = f.Close() }()
	value, err := io.ReadAll(io.LimitReader(f, maxHeaderValue+1))
	switch {
	case err != nil:
		return "", err
	case len(value) > maxHeaderValue:
		return "", fmt.Errorf("%s has more than %d octets", file, maxHeaderValue)
	}
	return string(bytes.TrimRight(value, "\r\n")), nil
}
