package natsecho

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

const stream = "bench"

// ListenDurable starts a server with one JetStream stream in files, which are
// synchronised before a publication is acknowledged. They lie beside the
// certificates.
func ListenDurable(ctx context.Context, files cert.Files) (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(files.CA), "nats-")
	if err != nil {
		return "", err
	}
	s, err := start(files, func(o *server.Options) {
		o.JetStream, o.StoreDir, o.SyncAlways = true, dir, true
	})
	if err != nil {
		return "", err
	}
	addr := s.Addr().String()
	nc, err := connect(addr, files)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: stream, Subjects: []string{stream}, Storage: jetstream.FileStorage, MaxAge: 24 * time.Hour,
	})
	return addr, err
}

// DialPublish connects a publisher. An exchange is one message with the payload,
// and the acknowledgement that it is stored.
func DialPublish(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	nc, err := connect(addr, files)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &publishing{conn: conn{nc: nc, stop: context.AfterFunc(ctx, nc.Close)}, js: js}, nil
}

type publishing struct {
	conn
	js jetstream.JetStream
}

func (p *publishing) Caller() echo.Caller { return publisher{p.js} }

type publisher struct{ js jetstream.JetStream }

func (p publisher) Echo(payload []byte, use func([]byte) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if _, err := p.js.PublishMsg(ctx, &nats.Msg{Subject: stream, Data: payload}); err != nil {
		return err
	}
	return use(payload)
}
