package mcpecho

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// DialHTTP calls a server at a URL over plain HTTP, on one connection that lasts.
func DialHTTP(ctx context.Context, url string, _ cert.Files) (echo.Conn, error) {
	return &httpConn{ctx: ctx, url: url, transport: new(http.Transport)}, nil
}

type httpConn struct {
	ctx       context.Context
	url       string
	transport *http.Transport
}

func (c *httpConn) Caller() echo.Caller { return &httpCaller{conn: c} }

func (c *httpConn) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

type httpCaller struct {
	conn *httpConn
	id   uint64
	got  bytes.Buffer
}

func (c *httpCaller) Echo(payload []byte, use func([]byte) error) error {
	c.id++
	// A transport may still read the body after the answer, so each request gets its own
	// copy.
	r, err := http.NewRequestWithContext(c.conn.ctx, http.MethodPost, c.conn.url,
		bytes.NewReader(appendRequest(make([]byte, 0, 512+2*len(payload)), c.id, payload)))
	if err != nil {
		return err
	}
	r.Header = http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {version},
		"Mcp-Method":           {method},
		"Mcp-Name":             {tool},
	}
	resp, err := c.conn.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	c.got.Reset()
	_, err = c.got.ReadFrom(io.LimitReader(resp.Body, maxMessage))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("mcpecho: status %d: %.300s", resp.StatusCode, c.got.Bytes())
	}
	answer, err := readResponse(c.got.Bytes(), c.id)
	if err != nil {
		return err
	}
	return use(answer)
}

// Command runs a server and calls it on its stdio. There is one Caller.
func Command(ctx context.Context, name string, args ...string) (echo.Conn, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the caller names it
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &stdioConn{cmd: cmd, in: in, out: newLines(out)}, nil
}

// errEnded reports a server on stdio that has left.
var errEnded = errors.New("mcpecho: the server has ended")

type stdioConn struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner

	id   uint64
	line []byte
}

func (c *stdioConn) Caller() echo.Caller { return c }

// Close ends the input of the server, and waits until it has left.
func (c *stdioConn) Close() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

func (c *stdioConn) Echo(payload []byte, use func([]byte) error) error {
	c.id++
	c.line = append(appendRequest(c.line[:0], c.id, payload), '\n')
	if _, err := c.in.Write(c.line); err != nil {
		return err
	}
	if !c.out.Scan() {
		return errors.Join(errEnded, c.out.Err())
	}
	answer, err := readResponse(c.out.Bytes(), c.id)
	if err != nil {
		return err
	}
	return use(answer)
}
