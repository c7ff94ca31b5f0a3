package daemon

import (
	"bytes"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
)

// The table of docs/revocation.md, and the connection that is held in its handshake.

var updateRevocations = flag.Bool("revocations", false, "write the table of docs/revocation.md, and fail above its limit")

const (
	goesOn = "goes on"
	unmet  = "–" // not concerned

	// slowest is the limit of a cell: the requirement is 5 s, and a changed file is noticed
	// within pollEvery. The drain at the expiry of a certificate takes all of it.
	slowest = 5*time.Second - pollEvery
)

// revocations are the cells of the table, by row and column, the slower one of TLS and QUIC.
type revocations struct {
	mu    sync.Mutex
	cells map[[2]string]string
}

func (r *revocations) note(c *column, row, cell string) {
	if !c.own {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cells == nil {
		r.cells = make(map[[2]string]string)
	}
	at := [2]string{row, c.name}
	r.cells[at] = max(r.cells[at], cell) // seconds have one digit before the point, and all below 10
}

// table renders the cells.
func (r *revocations) table() string {
	head, line := "| under way |", "|---|"
	for _, c := range columns {
		if c.own {
			head, line = head+" "+c.name+" |", line+"---|"
		}
	}
	text := head + "\n" + line + "\n"
	for i := range everything {
		name := everything[i].name
		text += "| " + name + " |"
		for _, c := range columns {
			if cell, ok := r.cells[[2]string{name, c.name}]; ok {
				text += " " + cell + " |"
			} else if c.own {
				text += " " + unmet + " |"
			}
		}
		text += "\n"
	}
	return text
}

var seconds = regexp.MustCompile(`[0-9]+\.[0-9] s`)

// compare compares the table with the document, apart from the seconds.
func (r *revocations) compare(t *testing.T) {
	t.Helper()
	own := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return !c.own })
	seen := make(map[string]bool)
	for at, cell := range r.cells {
		seen[at[1]] = true
		limit := slowest
		if at[1] == "expiry" {
			limit = 5 * time.Second
		}
		if took, err := time.ParseDuration(strings.ReplaceAll(cell, " ", "")); err == nil && took > limit && *updateRevocations {
			t.Errorf("%s, %s: %v, want at most %v", at[0], at[1], took, limit)
		}
	}
	if len(seen) < len(own) || t.Failed() {
		return // only some were tested
	}
	t.Logf("\n%s", r.table())
	file := filepath.Join("..", "docs", "revocation.md")
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(octets)
	begin := strings.Index(text, "| under way |")
	if begin < 0 {
		t.Fatalf("%s has no table", file)
	}
	end := len(text)
	if n := strings.Index(text[begin:], "\n\n"); n >= 0 {
		end = begin + n + 1
	}
	if *updateRevocations {
		if err := os.WriteFile(file, []byte(text[:begin]+r.table()+text[end:]), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if got, want := seconds.ReplaceAllString(r.table(), "ends"), seconds.ReplaceAllString(text[begin:end], "ends"); got != want {
		t.Errorf("%s has\n%s, want\n%s (go test ./daemon -run TestTL15RevocationEndsWhatIsUnderWay -revocations)", file, want, got)
	}
}

// holdsHandshake returns an address at which one connection to a daemon can be made, whose
// handshake ends only after release: over TLS the server gets the certificate of the client
// and not its Finished, over QUIC nothing after its first flight.
func holdsHandshake(t *testing.T, address string) (held string, release func()) {
	t.Helper()
	to, err := transport.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	free := make(chan struct{})
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	if to.Transport == "quic" {
		return "swp+quic://" + holdDatagrams(t, to.HostPort(), free), release
	}
	return "swp+tls://" + holdRecords(t, to.HostPort(), free), release
}

// holdRecords passes on the records of a connection, those of the client up to its second
// encrypted one.
func holdRecords(t *testing.T, to string, free <-chan struct{}) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	closes := []io.Closer{ln}
	var mu sync.Mutex
	t.Cleanup(func() {
		mu.Lock()
		for _, c := range closes {
			_ = c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	work.Go(func() {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			_ = in.Close()
			return
		}
		mu.Lock()
		closes = append(closes, in, out)
		mu.Unlock()
		work.Go(func() {
			_, _ = io.Copy(in, out)
			_ = in.Close()
		})
		defer func() { _ = out.Close() }()
		const encrypted = 23
		for n := 0; ; {
			record := make([]byte, 5, 1<<14+512)
			if _, err := io.ReadFull(in, record); err != nil {
				return
			}
			record = record[:5+int(record[3])<<8+int(record[4])]
			if _, err := io.ReadFull(in, record[5:]); err != nil {
				return
			}
			if record[0] == encrypted {
				n++
			}
			if n == 3 {
				<-free
			}
			if _, err := io.Copy(out, bytes.NewReader(record)); err != nil {
				return
			}
		}
	})
	return ln.Addr().String()
}

// holdDatagrams passes on datagrams, those of the client until the first of the server.
func holdDatagrams(t *testing.T, to string, free <-chan struct{}) (address string) {
	t.Helper()
	near, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_, _ = near.Close(), far.Close()
		work.Wait()
	})
	answered, once := make(chan struct{}), sync.Once{}
	from := make(chan net.Addr, 1)
	work.Go(func() {
		client := net.Addr(nil)
		for b := make([]byte, 1<<16); ; {
			n, err := far.Read(b)
			if err != nil {
				return
			}
			if client == nil {
				client = <-from
			}
			once.Do(func() { close(answered) })
			_, _ = near.WriteTo(b[:n], client)
		}
	})
	work.Go(func() {
		for b, known := make([]byte, 1<<16), false; ; known = true {
			n, client, err := near.ReadFrom(b)
			if err != nil {
				return
			}
			if !known {
				from <- client
			}
			select {
			case <-answered:
				<-free
			default:
			}
			_, _ = far.Write(b[:n])
		}
	})
	return near.LocalAddr().String()
}
