// Package grpcecho is the echo over gRPC, with the options gRPC has by itself
// but for the size of a message: a call for each exchange, or all exchanges on
// one bidirectional stream.
package grpcecho

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/grpcecho/echopb"
)

// Listen starts the server, which serves both forms.
func Listen(ctx context.Context, files cert.Files) (string, error) {
	config, err := files.ServerTLS()
	if err != nil {
		return "", err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.MaxRecvMsgSize(echo.MaxFrame))
	echopb.RegisterEchoServer(s, server{})
	go func() { _ = s.Serve(ln) }()
	return ln.Addr().String(), nil
}

type server struct{ echopb.UnimplementedEchoServer }

func (server) Unary(_ context.Context, m *echopb.Message) (*echopb.Message, error) { return m, nil }

func (server) Stream(stream grpc.BidiStreamingServer[echopb.Message, echopb.Message]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client is done, or gone
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

func dial(addr string, files cert.Files) (*grpc.ClientConn, error) {
	config, err := files.ClientTLS()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(echo.MaxFrame)))
}

// DialUnary connects for a call per exchange.
func DialUnary(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	conn, err := dial(addr, files)
	if err != nil {
		return nil, err
	}
	return unaryConn{ctx, conn}, nil
}

type unaryConn struct {
	ctx  context.Context
	conn *grpc.ClientConn
}

func (c unaryConn) Caller() echo.Caller {
	return unaryCaller{c.ctx, echopb.NewEchoClient(c.conn)}
}

func (c unaryConn) Close() error { return c.conn.Close() }

type unaryCaller struct {
	ctx    context.Context
	client echopb.EchoClient
}

func (w unaryCaller) Echo(payload []byte, use func([]byte) error) error {
	m, err := w.client.Unary(w.ctx, &echopb.Message{Payload: payload})
	if err != nil {
		return err
	}
	return use(m.GetPayload())
}

// DialStream connects and opens the stream that all exchanges share.
func DialStream(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	conn, err := dial(addr, files)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := echopb.NewEchoClient(conn).Stream(ctx)
	if err != nil {
		cancel(err)
		return nil, errors.Join(err, conn.Close())
	}
	c := &streamConn{conn: conn, stream: stream, ctx: ctx, cancel: cancel}
	go c.receive()
	return c, nil
}

type streamConn struct {
	conn   *grpc.ClientConn
	ctx    context.Context
	cancel context.CancelCauseFunc

	sending sync.Mutex // held while sending; taken before mu
	stream  grpc.BidiStreamingClient[echopb.Message, echopb.Message]

	mu      sync.Mutex
	waiting []*streamCaller // in the order of their requests
}

func (c *streamConn) Close() error {
	c.cancel(errors.New("grpcecho: closed"))
	return c.conn.Close()
}

func (c *streamConn) Caller() echo.Caller {
	return &streamCaller{conn: c, done: make(chan struct{}, 1)}
}

// receive hands the answers, which come in order, to their callers.
func (c *streamConn) receive() {
	var due []*streamCaller
	next := 0
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.cancel(err)
			return
		}
		if next == len(due) {
			c.mu.Lock()
			due, c.waiting, next = c.waiting, due[:0], 0
			c.mu.Unlock()
		}
		if next == len(due) {
			c.cancel(errors.New("grpcecho: an answer that nobody asked for"))
			return
		}
		w := due[next]
		next++
		w.answer = m.GetPayload()
		w.done <- struct{}{}
	}
}

type streamCaller struct {
	conn   *streamConn
	answer []byte
	done   chan struct{} // one slot: the answer is there
}

func (w *streamCaller) Echo(payload []byte, use func([]byte) error) error {
	c := w.conn
	c.sending.Lock()
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	err := c.stream.Send(&echopb.Message{Payload: payload})
	c.sending.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-w.done:
		return use(w.answer)
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}
