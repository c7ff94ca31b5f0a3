package rawtls

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/move"
)

// What a client asks for, in the first octet of a connection.
const (
	opUpload   = 'u' // a head and octets follow; answered by one octet
	opDownload = 'd' // answered by a head and octets
	opClear    = 'c' // answered by one octet
)

// head goes ahead of octets: how many, and their SHA-256, zero where nobody
// verifies it.
type head struct {
	Size int64
	Sum  [sha256.Size]byte
}

// ListenMove starts a server that keeps one file beside the certificates.
func ListenMove(ctx context.Context, files cert.Files) (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(files.CA), "raw-")
	if err != nil {
		return "", err
	}
	k := keeper{path: filepath.Join(dir, "kept")}
	return listen(ctx, files, func(conn *tls.Conn) { _ = k.serve(conn) })
}

// keeper has one file, and serves one connection after the other.
type keeper struct {
	path string

	mu   sync.Mutex
	head head // of the file
}

func (k *keeper) serve(conn *tls.Conn) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var op [1]byte
	if _, err := io.ReadFull(conn, op[:]); err != nil {
		return err
	}
	var err error
	switch op[0] {
	case opUpload:
		k.head, err = receive(conn, k.path)
	case opDownload:
		return send(conn, nil, k.head, k.path)
	case opClear:
		if err = os.Remove(k.path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	default:
		err = fmt.Errorf("rawtls: operation %q", op[0])
	}
	if err != nil {
		return err
	}
	_, err = conn.Write(op[:])
	return err
}

// receive keeps the octets behind a head.
func receive(conn io.Reader, path string) (h head, err error) {
	if err = binary.Read(conn, binary.BigEndian, &h); err != nil {
		return h, err
	}
	from := io.LimitReader(conn, h.Size)
	digest := sha256.New()
	verified := h.Sum != [sha256.Size]byte{}
	if verified {
		from = io.TeeReader(from, digest)
	}
	if err = move.Keep(path, from); err != nil {
		return h, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return h, err
	case info.Size() != h.Size:
		return h, io.ErrUnexpectedEOF
	case verified && [sha256.Size]byte(digest.Sum(nil)) != h.Sum:
		return h, errors.New("rawtls: the octets are not those of the digest")
	}
	return h, nil
}

// send writes what opens a message, a head, and the octets of a file.
func send(conn io.Writer, open []byte, h head, path string) error {
	b, err := binary.Append(open, binary.BigEndian, h)
	if err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	return move.Pass(conn, path)
}

// NewMover moves files to a server of ListenMove without any protocol.
func NewMover(addr string, files cert.Files) move.Mover { return mover{addr, files, false} }

// NewDigestMover is NewMover with a SHA-256 of all octets, as swpd has it: computed
// before they are sent, and by either end as they arrive.
func NewDigestMover(addr string, files cert.Files) move.Mover { return mover{addr, files, true} }

type mover struct {
	addr   string
	files  cert.Files
	digest bool
}

// with calls do with a connection of its own.
func (m mover) with(ctx context.Context, do func(net.Conn) error) error {
	config, err := m.files.ClientTLS()
	if err != nil {
		return err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = do(conn)
	_ = conn.Close() // all octets were confirmed or received
	return err
}

// confirmed reads the octet that says that an operation is done.
func confirmed(conn net.Conn) error {
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

func (m mover) Upload(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	h := head{Size: info.Size()}
	if m.digest {
		digest := sha256.New()
		if err := move.Pass(digest, path); err != nil {
			return err
		}
		digest.Sum(h.Sum[:0])
	}
	return m.with(ctx, func(conn net.Conn) error {
		if err := send(conn, []byte{opUpload}, h, path); err != nil {
			return err
		}
		return confirmed(conn)
	})
}

func (m mover) Download(ctx context.Context, path string) error {
	return m.with(ctx, func(conn net.Conn) error {
		if _, err := conn.Write([]byte{opDownload}); err != nil {
			return err
		}
		_, err := receive(conn, path)
		return err
	})
}

func (m mover) Clear(ctx context.Context) error {
	return m.with(ctx, func(conn net.Conn) error {
		if _, err := conn.Write([]byte{opClear}); err != nil {
			return err
		}
		return confirmed(conn)
	})
}
