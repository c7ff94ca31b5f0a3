package sdlserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/agents/sdlagent"
	"github.com/slimwire/swp/internal/bridge/sdlfront"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/transport"
)

// Streams serve programs that speak A2A-SDL without SlimWire: over HTTP, in the front of the
// daemon (Handler), and over the socket of sdl.socket. Each stream has a separate session to this
// endpoint over a pipe, so that rules, limits, the audit trail and the metrics treat it like every
// peer. The events for its agents are given to it directly, so that the sender knows that an event
// was not taken, and stores it in the relay.
type Streams struct {
	part.Passive
	o        StreamOptions
	log      *zap.Logger
	front    *sdlfront.Front // nil: A2A-SDL is not served
	way      *part.Door
	listener net.Listener // nil: no socket
}

// StreamOptions configure Streams.
type StreamOptions struct {
	Config *config.Config
	Log    *zap.Logger
	Door   part.DoorOptions
	Memory *memory.Budget
	Served *Server // for sdl.limits.bytes
	Ways   *Ways   // tell the events for the agents of streams

	// Access decides which callers may send large envelopes, and read topics of the relay.
	Access interface {
		Would(identity, profile, operation, name string) bool
		Serves(identity, profile string) bool
		MayUse(identity, agentID string) bool
	}
}

// NewStreams listens if sdl.socket is set. It serves nothing yet.
func NewStreams(o StreamOptions) (*Streams, error) {
	s := &Streams{o: o, log: o.Log.Named(boundlog.Backend)}
	conf := &o.Config.SDL
	if conf.AgentID == "" && len(conf.Routes) == 0 {
		return s, nil
	}
	var err error
	if s.way, err = part.NewDoor(o.Door, all.Options{}); err != nil {
		return nil, err
	}
	if conf.Socket != "" {
		if s.listener, err = entrances.ListenUnix(conf.Socket); err != nil {
			s.way.Close()
			return nil, fmt.Errorf("sdl.socket: %w", err)
		}
	}
	s.front = sdlfront.New(sdlfront.Options{
		Open: s.open, Memory: o.Memory, MaxBytes: o.Served.bytes, Burst: conf.Rate.Burst, PerSecond: perSecond(conf.Rate.PerSecond),
		Served: func(caller string) bool { return o.Access.Serves(caller, "sdl") },
	})
	return s, nil
}

// perSecond converts sdl.rate.per_second, in which 0 means none.
func perSecond(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Handler returns the handler for envelopes over HTTP, nil if A2A-SDL is not served.
func (s *Streams) Handler(o sdlfront.HTTP) http.Handler {
	if s.front == nil {
		return nil
	}
	return s.front.Handler(o)
}

// open opens a session for a stream.
func (s *Streams) open(caller string, to sdlfront.Program) (*sdlfront.Session, error) {
	session, far, err := s.way.Ends(caller)
	if err != nil {
		return nil, err
	}
	s.o.Ways.ears.add(far, to)
	in := &inbox{Streams: s, session: session, caller: caller, to: to, agents: make(map[string]bool)}
	in.ctx, in.cancel = context.WithCancel(session.Context())
	return &sdlfront.Session{Session: session, Spoke: in.read, End: func() {
		in.end()
		session.Close(profiles.OK)
	}}, nil
}

// Open implements part.Part.
func (s *Streams) Open() error {
	if s.way == nil {
		return nil
	}
	return s.way.Open(exchanges(s.o.Config))
}

// Door implements part.Part.
func (s *Streams) Door() *part.Door { return s.way }

// Serve implements part.Part: it accepts connections on the socket.
func (s *Streams) Serve(context.Context) {
	if s.listener == nil {
		return
	}
	s.log.Info("a2a-sdl socket", zap.String("path", s.o.Config.SDL.Socket))
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			if err := s.front.Stream(conn, transport.LoopbackIdentity); err != nil {
				s.log.Debug("a2a-sdl stream ended", zap.Error(err))
			}
		}()
	}
}

// Recheck implements part.Part.
func (s *Streams) Recheck() (kept, closed int) {
	if s.front == nil {
		return 0, 0
	}
	s.front.Review(s.o.Door.Keeper.Deny)
	return s.way.Recheck()
}

// Retire implements part.Part.
func (s *Streams) Retire() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.front != nil {
		s.front.Drain()
	}
}

// Drain implements part.Part.
func (s *Streams) Drain(ctx context.Context) error {
	if s.front == nil {
		return nil
	}
	for s.front.Stats().Streams > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// Close implements part.Part.
func (s *Streams) Close() error {
	if s.front == nil {
		return nil
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.front.Close()
	s.way.End()
	s.way.Close()
	return nil
}

// inbox reads the relay for the agents that a stream speaks as.
type inbox struct {
	*Streams
	session profiles.Session
	caller  string
	to      sdlfront.Program
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex
	agents map[string]bool
	work   sync.WaitGroup
}

const (
	// streamAgents bounds the agents of one stream whose stored events it gets.
	streamAgents = 8

	// attachTime is how long the relay may take to attach a reader.
	attachTime = 10 * time.Second
)

// read begins to deliver the events that the relay has stored for an agent, if the rules let the
// caller read them.
func (in *inbox) read(agentID string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.agents[agentID] || len(in.agents) >= streamAgents || in.ctx.Err() != nil {
		return
	}
	in.agents[agentID] = true
	topic := sdlagent.Topic(agentID)
	if in.o.Access.MayUse(in.caller, agentID) && in.o.Access.Would(in.caller, relay.Name, "consume", topic) {
		in.work.Go(func() { in.deliver(topic) })
	}
}

// deliver delivers the events under a topic. The relay forgets an event that the stream has taken.
func (in *inbox) deliver(topic string) {
	attaching, cancel := context.WithTimeout(in.ctx, attachTime)
	defer cancel()
	from, err := in.way.Profiles().Relay.Consume(attaching, in.session, topic, 1)
	if err != nil {
		in.log.Debug("a2a-sdl: stored events are not delivered", zap.String("topic", topic), zap.Error(err))
		return
	}
	defer from.Close()
	for {
		d, err := from.Recv(in.ctx)
		if err != nil {
			return
		}
		if in.to.Hear(d.Payload) != nil {
			_ = d.Nack(true, "stream_ended") // if that is lost, the relay delivers it again
			return
		}
		_ = d.Ack() // likewise
	}
}

// end stops the delivery.
func (in *inbox) end() {
	in.mu.Lock()
	in.cancel()
	in.mu.Unlock()
	in.work.Wait()
}

// ears receive the events for the agents of streams. The zero value has none.
type ears struct {
	mu   sync.Mutex
	open map[profiles.Session]sdlfront.Program // by the far end of the pipe of a stream
}

var errDeaf = errors.New("sdl: a caller with a POST receives no events")

// add delivers each event for a session to a program, until the session ends.
func (e *ears) add(session profiles.Session, to sdlfront.Program) {
	e.mu.Lock()
	if e.open == nil {
		e.open = make(map[profiles.Session]sdlfront.Program)
	}
	e.open[session] = to
	e.mu.Unlock()
	context.AfterFunc(session.Context(), func() {
		e.mu.Lock()
		delete(e.open, session)
		e.mu.Unlock()
	})
}

// tell sends an event to the program at the other end of a stream.
func (e *ears) tell(session profiles.Session, body []byte) error {
	to := e.of(session)
	if to == nil {
		return errDeaf
	}
	return to.Hear(body)
}

// answered is Answered of the program at the other end of a stream, nil for other sessions.
func (e *ears) answered(session profiles.Session) <-chan struct{} {
	to := e.of(session)
	if to == nil {
		return nil
	}
	return to.Answered()
}

func (e *ears) of(session profiles.Session) sdlfront.Program {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open[session]
}

// Collectors implements part.Part.
func (s *Streams) Collectors() []prometheus.Collector {
	var list []prometheus.Collector
	stats := func() (now sdlfront.Stats) {
		if s.front != nil {
			now = s.front.Stats()
		}
		return now
	}
	list = append(list, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swpd_sdl_streams", Help: "Streams of programs that speak A2A-SDL without SWP, now.",
	}, func() float64 { return float64(stats().Streams) }))
	for _, row := range []struct {
		name, help string
		value      func(sdlfront.Stats) int64
	}{
		{"posted", "Envelopes over HTTP that went on.", func(s sdlfront.Stats) int64 { return s.Posted }},
		{"streamed", "Envelopes of streams that went on.", func(s sdlfront.Stats) int64 { return s.Streamed }},
		{"refused", "Envelopes over HTTP and of streams that were refused for their size, form, time or rate.", func(s sdlfront.Stats) int64 { return s.Refused }},
		{"events", "Events delivered over streams.", func(s sdlfront.Stats) int64 { return s.Events }},
		{"dropped", "Answers and events without room, or that no program took.", func(s sdlfront.Stats) int64 { return s.Dropped }},
	} {
		list = append(list, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "swpd_sdl_front_" + row.name + "_total", Help: row.help,
		}, func() float64 { return float64(row.value(stats())) }))
	}
	return list
}
