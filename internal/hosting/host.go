package hosting

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/transport"
)

// Offer is an entry of the configuration whose program a Host runs.
type Offer struct {
	Program proc.Config
	Most    int           // processes at once
	Env     []string      // names of additional entries of the environment
	Grace   time.Duration // between SIGTERM and SIGKILL
}

// Host runs programs for another process. Offer and OnStart are required. It is safe for concurrent use.
type Host struct {
	// Offer returns an entry, or why this process does not run its program now.
	Offer func(entry string) (*Offer, error)

	// OnStart is told of each process that has started.
	OnStart func(entry string, pid int)

	mu      sync.Mutex
	running map[string]int // processes, by entry
	links   int            // that are open
}

// Links returns how many programs run, or have ended so that their last octets are on the way.
func (h *Host) Links() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.links
}

// enter counts a process of an entry.
func (h *Host) enter(entry string, most int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running[entry] >= most {
		return fmt.Errorf("hosting: %d processes of %s run here", most, entry)
	}
	if h.running == nil {
		h.running = make(map[string]int)
	}
	h.running[entry]++
	return nil
}

func (h *Host) left(entry string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running[entry]--; h.running[entry] == 0 {
		delete(h.running, entry)
	}
}

func (h *Host) link(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.links += n
}

// Serve is a passing.Work.
func (h *Host) Serve(ctx context.Context, conn transport.Conn, s transport.Stream, text []byte, answer func(error) error) {
	h.link(1)
	defer h.link(-1)
	p, entry, grace, err := h.start(text)
	if err != nil {
		_ = answer(err)
		return
	}
	h.OnStart(entry, p.PID())
	one := &hosted{p: p, conn: conn, streams: s, most: grace}
	one.grace.Store(int64(grace))
	one.serve(ctx, answer, func() { h.left(entry) })
}

// start starts the program that a request asks for.
func (h *Host) start(text []byte) (p *proc.Process, entry string, grace time.Duration, err error) {
	var r request
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, "", 0, err
	}
	o, err := h.Offer(r.Entry)
	switch {
	case err != nil:
		return nil, "", 0, err
	case digest(&o.Program) != r.Digest:
		return nil, "", 0, fmt.Errorf("hosting: %.100q is another program here; the nodes have different configurations", r.Entry)
	}
	for _, entry := range r.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || !slices.Contains(o.Env, name) || strings.ContainsRune(entry, 0) {
			return nil, "", 0, fmt.Errorf("hosting: %.100q is no variable of %s", name, r.Entry)
		}
	}
	program, err := proc.Resolve(o.Program)
	if err != nil {
		return nil, "", 0, err
	}
	if err := h.enter(r.Entry, o.Most); err != nil {
		return nil, "", 0, err
	}
	if p, err = program.Start(r.Env...); err != nil {
		h.left(r.Entry)
	}
	return p, r.Entry, o.Grace, err
}

// hosted is a program that runs for another process.
type hosted struct {
	p       *proc.Process
	conn    transport.Conn
	streams transport.Stream
	grace   atomic.Int64  // of its end
	most    time.Duration // of grace
}

// serve returns when the program has ended, and the other side has all its output or is gone.
func (h *hosted) serve(ctx context.Context, answer func(error) error, left func()) {
	defer h.p.Close()
	running, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(h.conn.Context(), end)()
	control, errs, err := h.open(ctx, answer)
	var input, output sync.WaitGroup
	if err != nil {
		end()
	} else {
		input.Go(func() {
			_, _ = io.Copy(h.p.Stdin, h.streams)
			_ = h.p.Stdin.Close()
		})
		input.Go(func() {
			defer end()
			var asked stop
			if json.NewDecoder(io.LimitReader(control, maxControl)).Decode(&asked) == nil {
				h.grace.Store(int64(min(max(asked.Grace, 0), h.most)))
			}
		})
		output.Go(func() { send(h.streams, h.p.Stdout) })
		output.Go(func() { send(errs, h.p.Stderr) })
	}
	how := h.p.Wait(running.Done(), func() time.Duration { return time.Duration(h.grace.Load()) })
	left()
	defer input.Wait()
	defer func() { _ = h.conn.Close(0) }()
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = h.conn.Close(0) })()
	output.Wait()
	var status ended
	if how != nil {
		status.Status = how.Error()
	}
	if json.NewEncoder(control).Encode(status) == nil {
		<-h.conn.Context().Done() // the other side closes when it has read everything
	}
}

// open answers, and opens the other streams.
func (h *hosted) open(ctx context.Context, answer func(error) error) (control, errs transport.Stream, err error) {
	if err = answer(nil); err != nil {
		return nil, nil, err
	}
	if control, err = h.conn.Open(ctx); err != nil {
		return nil, nil, err
	}
	if err = json.NewEncoder(control).Encode(started{h.p.PID()}); err != nil {
		return nil, nil, err
	}
	errs, err = h.conn.Open(ctx)
	return control, errs, err
}

// send copies an output of a process until its end.
func send(to transport.Stream, from *os.File) {
	_, _ = io.Copy(to, proc.NewTail(from))
	_ = to.CloseWrite()
}
