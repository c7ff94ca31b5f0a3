package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// SDLDial configures DialSDL.
type SDLDial struct {
	Options
	TLS    *tls.Config // for https and wss; nil: the authorities of the system
	Token  string      // bearer token for http, https, ws and wss; empty: none
	Events bool        // events are to come, too, so http is a WebSocket
}

// WithoutSWP reports whether an address belongs to A2A-SDL without SWP: http, https, ws, wss or
// unix.
func WithoutSWP(address string) bool {
	scheme, _, _ := strings.Cut(address, ":")
	switch scheme {
	case "http", "https", "ws", "wss", "unix":
		return true
	}
	return false
}

// sdlPath is the path of the envelopes of an endpoint.
const sdlPath = "/a2a"

// CheckWithoutSWP returns the URL of such an address; that of unix has a path only. Not allowed are
// user names, queries and fragments. Without a path it is /a2a.
func CheckWithoutSWP(address string) (*url.URL, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path = strings.TrimPrefix(path, "//"); path == "" {
			return nil, errors.New("client: address unix: without the path of a socket, as in unix:/run/swpd/sdl.sock")
		}
		return &url.URL{Scheme: "unix", Path: path}, nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: address: %w", err)
	case u.Host == "" || u.Hostname() == "":
		return nil, fmt.Errorf("client: address %.256q without a host", address)
	case u.User != nil:
		return nil, errors.New("client: an address has no user name or password; a bearer token has its own place")
	case strings.Contains(address, "#") || strings.Contains(address, "?"):
		return nil, fmt.Errorf("client: address %.256q with a query or a fragment, which an endpoint of A2A-SDL has not", address)
	case u.Path == "" || u.Path == "/":
		u.Path = sdlPath
	}
	return u, nil
}

// DialSDL connects to an address for which WithoutSWP is true. Only envelopes of A2A-SDL can be
// sent to it: AskSDL, SDLFollower and SDLListener.
func DialSDL(ctx context.Context, address string, o SDLDial) (*Client, error) {
	u, err := CheckWithoutSWP(address)
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "https" || u.Scheme == "wss"
	if o.TLS != nil && !secure {
		return nil, fmt.Errorf("client: certificates have no effect over %s; use https or wss", u.Scheme)
	}
	if o.Token != "" && u.Scheme == "unix" {
		return nil, errors.New("client: a bearer token has no effect over unix")
	}
	w := &way{answers: make(chan []byte), done: make(chan struct{}), url: u.String()}
	w.http = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: o.TLS, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.Token != "" {
		w.header = http.Header{"Authorization": {"Bearer " + o.Token}}
	}
	switch {
	case u.Scheme == "unix":
		conn, err := new(net.Dialer).DialContext(ctx, "unix", u.Path)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		w.stream = newUnixStream(conn)
	case o.Events || strings.HasPrefix(u.Scheme, "ws"):
		if w.stream, err = w.webSocket(ctx); err != nil {
			return nil, err
		}
	}
	c, err := w.attach(address, o.Options)
	if err != nil {
		w.end(err)
		return nil, err
	}
	return c, nil
}

// way carries envelopes without SWP. It is the Server at the other end of a pipe of a Client, so
// that a lost connection, events and answers are the same as over SWP.
type way struct {
	stream sdlStream // nil: each envelope is a POST
	http   *http.Client
	header http.Header
	url    string

	asking  sync.Mutex // answers come in order
	answers chan []byte

	far  *endpoint.Session
	ep   *endpoint.Endpoint
	set  *all.Set
	once sync.Once
	done chan struct{}
	why  error // after done
}

// sdlStream carries whole envelopes in both directions.
type sdlStream interface {
	read() ([]byte, error)
	write([]byte) error
	close()
}

// attach returns the Client at the near end of the pipe.
func (w *way) attach(address string, o Options) (*Client, error) {
	var err error
	if w.set, err = all.New(all.Options{SDL: carriage.Options{Server: w}}); err != nil {
		return nil, err
	}
	if w.ep, err = endpoint.New(endpoint.Options{Registry: w.set.Registry, Observer: endpoint.Discard}); err != nil {
		return nil, err
	}
	near, far := transport.NewPipe(transport.PipeOptions{B: address})
	c, err := Attach(near, o)
	if err != nil {
		return nil, err
	}
	w.far = w.ep.Attach(far)
	c.way, c.address = w, address
	end := c.end
	c.end = func() {
		w.end(net.ErrClosed)
		end()
	}
	if w.stream != nil {
		go w.receive()
	}
	return c, nil
}

// end ends the connection, and the session over the pipe.
func (w *way) end(why error) {
	w.once.Do(func() {
		w.why = why
		close(w.done)
		if w.stream != nil {
			w.stream.close()
		}
		w.http.CloseIdleConnections()
		if w.far != nil {
			w.far.Close(profiles.OK) // before the handler that may have called this answers
		}
		go func() { // waits for that handler
			if w.ep != nil {
				_ = w.ep.Close()
			}
			if w.set != nil {
				w.set.Close()
			}
		}()
	})
}

// receive distributes what a stream brings.
func (w *way) receive() {
	for {
		body, err := w.stream.read()
		if err != nil {
			w.end(fmt.Errorf("client: %w", err))
			return
		}
		form, _ := sdl.FormOf(body)
		if sdl.TypeOf(body, form) == sdl.TypeEvt {
			err = carriage.Tell(w.far.Context(), w.far, body)
		} else {
			select {
			case w.answers <- body:
			case <-w.done:
			}
		}
		if err != nil {
			w.end(err)
			return
		}
	}
}

// Handle implements the Server of the profile: it sends an envelope on.
func (w *way) Handle(ctx context.Context, m *carriage.Message) carriage.Answer {
	if m.Type != carriage.TypeReq {
		return carriage.Answer{Fault: &carriage.Fault{Code: carriage.CodeInternal, Cause: errors.New("client: only requests are sent without SWP")}}
	}
	w.asking.Lock()
	defer w.asking.Unlock()
	answer, err := w.ask(ctx, m)
	if err != nil {
		w.end(err)
	}
	return carriage.Answer{Body: answer}
}

// Refusal implements the Server of the profile.
func (w *way) Refusal(form carriage.Form, f *carriage.Fault) []byte {
	return hearing(nil).Refusal(form, f)
}

func (w *way) ask(ctx context.Context, m *carriage.Message) ([]byte, error) {
	if w.stream == nil {
		return w.post(ctx, m)
	}
	if err := w.stream.write(m.Body); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	select {
	case answer := <-w.answers:
		return answer, nil
	case <-w.done:
		return nil, w.why
	case <-ctx.Done(): // the next answer would be for this request
		return nil, context.Cause(ctx)
	}
}

// maxSDLAnswer bounds what is read of an answer: the largest envelope of swpd.
const maxSDLAnswer = 8 << 20

// post sends a request over HTTP.
func (w *way) post(ctx context.Context, m *carriage.Message) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	media := "application/json"
	if m.Form == carriage.CBOR {
		media = "application/cbor"
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Accept", media)
	for name, values := range w.header {
		req.Header[name] = values
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxSDLAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: %w", err)
	case len(answer) > maxSDLAnswer:
		return nil, fmt.Errorf("client: the answer has more than %d octets", maxSDLAnswer)
	}
	if _, refused := readSDL(answer); refused != nil {
		return nil, noEnvelope(resp, answer)
	}
	return answer, nil
}

// noEnvelope is the error for an answer of HTTP that is not one of A2A-SDL.
func noEnvelope(resp *http.Response, body []byte) error {
	if resp.StatusCode == http.StatusOK {
		return errors.New("client: the answer is not a valid envelope")
	}
	return fmt.Errorf("client: %s: %.200s", resp.Status, strings.TrimSpace(string(body)))
}

// webSocket opens a WebSocket.
func (w *way) webSocket(ctx context.Context) (sdlStream, error) {
	conn, resp, err := websocket.Dial(ctx, w.url, &websocket.DialOptions{HTTPClient: w.http, HTTPHeader: w.header}) //nolint:bodyclose // the package closes it
	switch {
	case err == nil:
		conn.SetReadLimit(maxSDLAnswer)
		return &webStream{conn}, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, noEnvelope(resp, body)
	}
	return nil, fmt.Errorf("client: %w", err)
}

// sdlWrite is how long a stream may take to accept an envelope.
const sdlWrite = 30 * time.Second

// webStream are a WebSocket.
type webStream struct{ *websocket.Conn }

func (m *webStream) read() ([]byte, error) {
	_, body, err := m.Read(context.Background())
	return body, err
}

func (m *webStream) write(body []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sdlWrite)
	defer cancel()
	return m.Write(ctx, websocket.MessageBinary, body)
}

func (m *webStream) close() { _ = m.CloseNow() }

// unixStream is a Unix socket, whose envelopes are in frames.
type unixStream struct {
	net.Conn
	frames *frame.Reader
}

func newUnixStream(conn net.Conn) *unixStream {
	return &unixStream{conn, frame.NewReader(conn, frame.Options{Limit: maxSDLAnswer})}
}

func (f *unixStream) read() ([]byte, error) {
	body, err := f.frames.Next()
	return bytes.Clone(body), err
}

func (f *unixStream) write(body []byte) error {
	_ = f.SetWriteDeadline(time.Now().Add(sdlWrite))
	_, err := f.Write(frame.Append(nil, body))
	return err
}

func (f *unixStream) close() { _ = f.Close() }

// lostWay returns why a connection without SWP has ended; nil if it has not, and over SWP.
func (c *Client) lostWay() error {
	if c.way == nil {
		return nil
	}
	select {
	case <-c.way.done:
		return c.way.why
	default:
		return nil
	}
}

// cause is why the connection has ended.
func (c *Client) cause() error {
	if err := c.lostWay(); err != nil {
		return err
	}
	return context.Cause(c.Context())
}

// appear says on a stream without SWP that it is one of an agent, by an envelope: the endpoint
// then sends the events for that agent. refused is a refusal, after which stored events may come
// all the same.
func (c *Client) appear(ctx context.Context, from, to string) (refused, err error) {
	who := func(agentID string) sdl.Identity {
		return sdl.Identity{AgentID: agentID, Name: agentID, Instance: "swp-client", Role: "agent"}
	}
	member := func(name string, v canonical.Value) canonical.Member { return canonical.Member{Name: name, Value: v} }
	v := sdl.New(sdl.TypeReq, sdl.CTNegotiation, who(from), who(to), canonical.Object(
		member("need", canonical.Object()), member("have", canonical.Object()), member("ask", canonical.Strings()),
		member("supported_ct", canonical.Strings(sdl.ContentTypes()...)),
	), sdl.Writing{})
	_, err = c.AskSDL(ctx, sdl.JSON, v, SDLTrust{})
	if said, ok := errors.AsType[*SDLError](err); ok {
		return said, nil
	}
	return nil, err
}
