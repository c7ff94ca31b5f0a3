// Package stranger is an independent peer: Core, MCP and A2A only, written from
// docs/wire.md alone, with only the standard library. It is as strict as the specification
// allows: it disconnects on a message of any other profile, and treats a repeated task as
// two tasks.
package stranger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// The profiles, and their message types.
const (
	profileMCP = 1
	profileA2A = 2

	mcpRequest      = 1
	mcpResponse     = 2
	mcpNotification = 3

	a2aHandshake = 1
	a2aTask      = 2
	a2aEvent     = 3
	a2aResult    = 4
)

// Options are the callbacks of a Peer. Each is called on a goroutine of its own.
type Options struct {
	// Answer answers a request of MCP with a result.
	Answer func(method string, params json.RawMessage) (result any)

	// Work carries out a task. event sends an Event.
	Work func(t *Task, event func(message string)) (output []byte, err error)
}

// Task is a task that has come, or was sent.
type Task struct {
	ID    []byte
	Kind  string
	Input []byte
}

// Result is how a task that was sent has ended.
type Result struct {
	OK     bool
	Output []byte
	Reason string
	Events []string // messages of its Events, in order
}

// Peer is one end of one connection. It is safe for concurrent use.
type Peer struct {
	o    Options
	conn net.Conn
	done chan struct{}
	err  error // why it has ended, once done is closed

	writing sync.Mutex

	mu    sync.Mutex
	calls map[string]chan json.RawMessage // by msg_id
	sent  map[string]*sent                // by task_id
	came  int                             // tasks
}

// sent is a task that was sent.
type sent struct {
	result Result
	ended  chan struct{}
}

// New returns the Peer at one end of a connection, which it reads until that ends. The
// caller closes it.
func New(conn net.Conn, o Options) *Peer {
	p := &Peer{
		o: o, conn: conn, done: make(chan struct{}),
		calls: make(map[string]chan json.RawMessage), sent: make(map[string]*sent),
	}
	go p.read()
	return p
}

// Close ends the connection.
func (p *Peer) Close() {
	_ = p.conn.Close()
	<-p.done
}

// Done is closed when the connection has ended; Err then says why.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Err says why the connection has ended.
func (p *Peer) Err() error { return p.err }

// Came returns how many tasks have come. One that came twice counts twice.
func (p *Peer) Came() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.came
}

// errProfile hangs up.
var errProfile = errors.New("stranger: a message of a profile that is not served here")

func (p *Peer) read() {
	defer close(p.done)
	r := bufio.NewReader(p.conn)
	for {
		env, err := readFrame(r)
		if err == nil {
			err = p.take(env)
		}
		if err != nil {
			p.err = err
			_ = p.conn.Close()
			return
		}
	}
}

// take takes a message. An error is one that ends the connection (SWP Core §5).
func (p *Peer) take(env *envelope) error {
	switch env.profile {
	case profileMCP:
		return p.takeMCP(env)
	case profileA2A:
		return p.takeA2A(env)
	}
	return fmt.Errorf("%w: profile_id %d, msg_type %d", errProfile, env.profile, env.msgType)
}

func (p *Peer) send(profile, msgType uint64, msgID, payload []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.conn.Write((&envelope{profile: profile, msgType: msgType, msgID: msgID, payload: payload}).frame())
	return err
}

// fresh returns a new msg_id or task_id.
func fresh() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return id
}

// message is a JSON-RPC message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
}

func (p *Peer) takeMCP(env *envelope) error {
	switch env.msgType {
	case mcpRequest:
		var m message
		if err := json.Unmarshal(env.payload, &m); err != nil {
			return fmt.Errorf("stranger: a request of MCP: %w", err)
		}
		go func() {
			payload, err := json.Marshal(message{Version: "2.0", ID: m.ID, Result: p.o.Answer(m.Method, m.Params)})
			if err == nil {
				_ = p.send(profileMCP, mcpResponse, env.msgID, payload) // or nobody waits for it
			}
		}()
	case mcpResponse:
		p.mu.Lock()
		call := p.calls[string(env.msgID)]
		delete(p.calls, string(env.msgID))
		p.mu.Unlock()
		if call == nil {
			return errors.New("stranger: an answer to nothing that was asked")
		}
		call <- env.payload
	case mcpNotification: // of no interest
	default:
		return fmt.Errorf("stranger: msg_type %d of MCP", env.msgType)
	}
	return nil
}

// Call sends a request of MCP, of the modern era, and returns the whole response. It adds
// to params the members that make it one.
func (p *Peer) Call(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(message{Version: "2.0", ID: json.RawMessage(`1`), Method: method, Params: text})
	if err != nil {
		return nil, err
	}
	id, answer := fresh(), make(chan json.RawMessage, 1)
	p.mu.Lock()
	p.calls[string(id)] = answer
	p.mu.Unlock()
	if err := p.send(profileMCP, mcpRequest, id, payload); err != nil {
		return nil, err
	}
	select {
	case octets := <-answer:
		return octets, nil
	case <-p.done:
		return nil, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Declare declares an agent and its kinds.
func (p *Peer) Declare(agent string, kinds ...string) error {
	fields := []field{{number: 1, value: []byte(agent)}}
	for _, kind := range kinds {
		fields = append(fields, field{number: 2, value: []byte(kind)})
	}
	return p.send(profileA2A, a2aHandshake, fresh(), wrapped(a2aHandshake, fields...))
}

// Send sends a task and waits for its Result.
func (p *Peer) Send(ctx context.Context, kind string, input []byte) (*Result, error) {
	id, s := fresh(), &sent{ended: make(chan struct{})}
	p.mu.Lock()
	p.sent[string(id)] = s
	p.mu.Unlock()
	payload := wrapped(a2aTask, field{number: 1, value: id}, field{number: 2, value: []byte(kind)}, field{number: 3, value: input})
	if err := p.send(profileA2A, a2aTask, fresh(), payload); err != nil {
		return nil, err
	}
	select {
	case <-s.ended:
		return &s.result, nil
	case <-p.done:
		return nil, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Peer) takeA2A(env *envelope) error {
	f, err := unwrapped(env.msgType, env.payload)
	if err != nil {
		return err
	}
	switch env.msgType {
	case a2aHandshake: // of no interest
	case a2aTask:
		p.mu.Lock()
		p.came++
		p.mu.Unlock()
		go p.work(&Task{ID: f[1].value, Kind: string(f[2].value), Input: f[3].value})
	case a2aEvent:
		p.mu.Lock()
		defer p.mu.Unlock()
		if s := p.sent[string(f[1].value)]; s != nil {
			s.result.Events = append(s.result.Events, string(f[2].value))
		}
	case a2aResult:
		p.ended(f)
	default:
		return fmt.Errorf("stranger: msg_type %d of A2A", env.msgType)
	}
	return nil
}

// ended takes the Result of a task that was sent; one that came before counts.
func (p *Peer) ended(f map[uint64]field) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sent[string(f[1].value)]
	if s == nil {
		return
	}
	delete(p.sent, string(f[1].value))
	s.result.OK, s.result.Output, s.result.Reason = f[2].set, f[3].value, string(f[4].value)
	close(s.ended)
}

// work carries out a task. Events and the Result have msg_ids of their own.
func (p *Peer) work(t *Task) {
	t.Input = bytes.Clone(t.Input)
	output, err := p.o.Work(t, func(text string) {
		_ = p.send(profileA2A, a2aEvent, fresh(), wrapped(a2aEvent, field{number: 1, value: t.ID}, field{number: 2, value: []byte(text)}))
	})
	fields := []field{{number: 1, value: t.ID}, {number: 2, set: err == nil}, {number: 3, value: output}}
	if err != nil {
		fields = append(fields, field{number: 4, value: []byte(err.Error())})
	}
	_ = p.send(profileA2A, a2aResult, fresh(), wrapped(a2aResult, fields...)) // or nobody waits for it
}
