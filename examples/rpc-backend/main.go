// Command rpc-backend is an HTTP server with the RPC methods of the spec kit's
// demonstration, to put behind swpd:
//
//	rpc:
//	  backends:
//	    demo: {url: http://127.0.0.1:8090, methods: [demo.echo, demo.stream.count, demo.fail]}
//
// It is written as any other program would be: with the standard library, and
// without knowing anything of SlimWire.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:8090", "where to listen; port 0 chooses one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rpc-backend:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It says where on out.
func run(ctx context.Context, address string, out io.Writer) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", ln.Addr())
	srv := &http.Server{Handler: methods(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = srv.Close()
	}()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxBody bounds the params of a call.
const maxBody = 8 << 20

func methods() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /demo.echo", echo)
	mux.HandleFunc("POST /demo.stream.count", count)
	mux.HandleFunc("POST /demo.fail", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusInternalServerError, "internal", "forced failure")
	})
	return mux
}

// echo answers with the params.
func echo(w http.ResponseWriter, r *http.Request) {
	// All of it first: once an answer is under way, HTTP/1 reads no more.
	params, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", "the params are too large or cut off")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(params)
}

// count answers {"count": n} with the items 1 to n, one at a time.
func count(w http.ResponseWriter, r *http.Request) {
	params := struct {
		Count int `json:"count"`
	}{5}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &params)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", `want {"count": n}`)
		return
	}
	n := min(params.Count, 100)
	if n < 1 {
		n = 5
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(w, "{\"item\":%d}\n", i)
		if flush.Flush() != nil {
			return // nobody listens any more
		}
	}
	fmt.Fprintf(w, "{\"result\":{\"count\":%d,\"done\":true}}\n", n)
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%q,"message":%q,"retryable":false}`, code, message)
}
