package mcpecho

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
)

// maxMessage bounds a message, in octets.
const maxMessage = 8 << 20

// Listen serves over plain HTTP, at every path, and returns the URL.
func Listen(ctx context.Context, _ cert.Files) (string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(ln) }()
	return "http://" + ln.Addr().String(), nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	octets, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := appendResponse(nil, octets)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case len(out) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(out)))
		_, _ = w.Write(out)
	}
}

// Serve answers messages, one a line, until r ends.
func Serve(r io.Reader, w io.Writer) error {
	in := newLines(r)
	var out []byte
	for in.Scan() {
		var err error
		if out, err = appendResponse(out[:0], in.Bytes()); err != nil {
			return err
		}
		if len(out) == 0 {
			continue
		}
		out = append(out, '\n')
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return in.Err()
}

// newLines reads messages that are one a line.
func newLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxMessage)
	return s
}
