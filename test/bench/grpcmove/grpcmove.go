// Package grpcmove moves a file over gRPC, with the options gRPC has by itself but
// for the size of a message: as a stream of pieces, one call each way.
package grpcmove

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/grpcmove/movepb"
	"github.com/slimwire/swp/test/bench/move"
)

// most is the maximum size of a message: a piece and its overhead.
const most = move.Piece + 1<<10

// Listen starts a server that keeps one file beside the certificates.
func Listen(ctx context.Context, files cert.Files) (string, error) {
	config, err := files.ServerTLS()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(files.CA), "grpc-")
	if err != nil {
		return "", err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.MaxRecvMsgSize(most))
	movepb.RegisterMoveServer(s, &server{path: filepath.Join(dir, "kept")})
	go func() { _ = s.Serve(ln) }()
	return ln.Addr().String(), nil
}

type server struct {
	movepb.UnimplementedMoveServer
	path string
}

func (s *server) Upload(stream grpc.ClientStreamingServer[movepb.Piece, movepb.Nothing]) error {
	if err := move.Keep(s.path, &reader{recv: stream.Recv}); err != nil {
		return err
	}
	return stream.SendAndClose(&movepb.Nothing{})
}

func (s *server) Download(_ *movepb.Nothing, stream grpc.ServerStreamingServer[movepb.Piece]) error {
	return move.Pass(writer(stream.Send), s.path)
}

func (s *server) Clear(context.Context, *movepb.Nothing) (*movepb.Nothing, error) {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &movepb.Nothing{}, nil
}

// reader reads the pieces of a stream.
type reader struct {
	recv func() (*movepb.Piece, error)
	rest []byte // of the last one
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		m, err := r.recv()
		if err != nil {
			return 0, err
		}
		r.rest = m.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// writer sends each write as a piece, which is encoded by the time that it returns.
type writer func(*movepb.Piece) error

func (w writer) Write(p []byte) (int, error) {
	if err := w(&movepb.Piece{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// NewMover moves files to a server of Listen.
func NewMover(addr string, files cert.Files) move.Mover { return mover{addr, files} }

type mover struct {
	addr  string
	files cert.Files
}

// with calls do with a connection of its own.
func (m mover) with(do func(movepb.MoveClient) error) error {
	config, err := m.files.ClientTLS()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+m.addr,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most)))
	if err != nil {
		return err
	}
	return errors.Join(do(movepb.NewMoveClient(conn)), conn.Close())
}

func (m mover) Upload(ctx context.Context, path string) error {
	return m.with(func(c movepb.MoveClient) error {
		stream, err := c.Upload(ctx)
		if err != nil {
			return err
		}
		if err := move.Pass(writer(stream.Send), path); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err = stream.CloseAndRecv() // says why, if sending has ended early
		return err
	})
}

func (m mover) Download(ctx context.Context, path string) error {
	return m.with(func(c movepb.MoveClient) error {
		stream, err := c.Download(ctx, &movepb.Nothing{})
		if err != nil {
			return err
		}
		return move.Keep(path, &reader{recv: stream.Recv})
	})
}

func (m mover) Clear(ctx context.Context) error {
	return m.with(func(c movepb.MoveClient) error {
		_, err := c.Clear(ctx, &movepb.Nothing{})
		return err
	})
}
