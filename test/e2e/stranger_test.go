package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/test/stranger"
	"github.com/slimwire/swp/transport/transporttest"
)

// clerk is what a stranger does for swpd.
func clerk() stranger.Options {
	return stranger.Options{
		Answer: func(method string, params json.RawMessage) any {
			switch method {
			case "server/discover":
				return map[string]any{
					"resultType": "complete", "supportedVersions": []string{"2026-07-28"}, "capabilities": map[string]any{"tools": map[string]any{}},
					"serverInfo": map[string]string{"name": "stranger", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
				}
			case "tools/call":
				return map[string]any{"resultType": "complete", "content": []any{map[string]string{"type": "text", "text": "from the stranger"}}}
			}
			return map[string]any{}
		},
		Work: func(t *stranger.Task, event func(string)) ([]byte, error) {
			event("on it")
			if string(t.Input) == "fail" {
				return nil, errors.New("no more paper")
			}
			return append([]byte("done "), t.Input...), nil
		},
	}
}

// trusting is the TLS of a stranger that trusts the authority of a node.
func trusting(t *testing.T, n *node, cert tls.Certificate) *tls.Config {
	t.Helper()
	octets, err := os.ReadFile(filepath.Join(n.dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(octets) {
		t.Fatal("no authority in pki/ca.crt")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"swp/1"}, SessionTicketsDisabled: true,
	}
}

// listens has a stranger listen, and hands over each connection.
func listens(t *testing.T, config *tls.Config) (addr string, peers <-chan *stranger.Peer) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan *stranger.Peer, 10)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			came <- stranger.New(conn, clerk())
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
		close(came)
		for p := range came {
			p.Close()
		}
	})
	return ln.Addr().String(), came
}

// next returns the next connection of a stranger.
func next(t *testing.T, peers <-chan *stranger.Peer) *stranger.Peer {
	t.Helper()
	select {
	case p := <-peers:
		t.Cleanup(p.Close)
		return p
	case <-time.After(patience):
		t.Fatal("swpd does not connect")
		return nil
	}
}

// says runs swp-client until its output has a text: what it asks for may not be there yet.
func (n *node) says(t *testing.T, want string, args ...string) {
	t.Helper()
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, _ = n.client(args...).CombinedOutput()
		if strings.Contains(string(out), want) {
			return
		}
	}
	t.Fatalf("swp-client %v says\n%swant %q", args, out, want)
}

// serves has a stranger ask for what swpd has: its default MCP server, and a worker.
func serves(t *testing.T, p *stranger.Peer) {
	t.Helper()
	answer, err := p.Call(t.Context(), "tools/call", map[string]any{"name": "add", "arguments": map[string]int{"a": 2, "b": 40}})
	if err != nil || !strings.Contains(string(answer), "42") {
		t.Errorf("a call by the stranger: %s, %v", answer, err)
	}
	result, err := p.Send(t.Context(), "greet", []byte("x"))
	if err != nil || !result.OK || string(result.Output) != `"hello"` || len(result.Events) == 0 || result.Events[len(result.Events)-1] != "about to" {
		t.Errorf("a task of the stranger: %+v, %v", result, err)
	}
}

// A peer of MCP and A2A that was written from the documents alone is a partner, and an agent.
func TestAStrangerIsAPartnerAndAnAgent(t *testing.T) {
	for name, entry := range map[string]string{"known": "profiles: [mcp, a2a], ", "unknown": ""} {
		t.Run(name, func(t *testing.T) {
			n := prepared(t)
			const identity = "spiffe://stranger.example/peer"
			ca := transporttest.NewCA(t)
			theirs := filepath.Join(n.dir, "stranger.pem")
			if err := os.WriteFile(theirs, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			addr, peers := listens(t, trusting(t, n, *ca.Issue(t, transporttest.Named(identity))))
			n.more = fmt.Sprintf("partners:\n  stranger: {identity: %q, trust: [%q], %saddresses: [\"swp+tls://%s\"]}\n", identity, theirs, entry, addr) +
				fmt.Sprintf("mcp:\n  servers:\n    modern: {command: %q, default: true}\n", n.bin+"/mcp-modern") +
				"a2a:\n  workers:\n    greeter: {kinds: [greet], command: /bin/sh, args: [-c, 'echo about to; echo \"{\\\"output\\\": \\\"hello\\\"}\"']}\n"
			n.untilEnd(t)
			p := next(t, peers)
			if entry == "" { // it is asked once what it offers, and hangs up
				<-p.Done()
				if !strings.Contains(p.Err().Error(), "profile_id 12") {
					t.Errorf("the first connection has ended by %v", p.Err())
				}
				p = next(t, peers)
			}
			serves(t, p)
			n.says(t, "from the stranger", "mcp", "call", n.tls+"/stranger", "anything")
			n.says(t, "done it", "a2a", "send", n.quic, "--kind", "stranger/report", "--input", "it")
			n.says(t, "no more paper", "a2a", "send", n.tls, "--kind", "stranger/report", "--input", "fail")

			cert, err := tls.LoadX509KeyPair(filepath.Join(n.dir, "pki", "client.crt"), filepath.Join(n.dir, "pki", "client.key"))
			if err != nil {
				t.Fatal(err)
			}
			_, hostport, _ := strings.Cut(n.tls, "://")
			conn, err := tls.Dial("tcp", hostport, trusting(t, n, cert))
			if err != nil {
				t.Fatal(err)
			}
			agent := stranger.New(net.Conn(conn), clerk())
			t.Cleanup(agent.Close)
			if err := agent.Declare("clerk", "file"); err != nil {
				t.Fatal(err)
			}
			serves(t, agent)
			n.says(t, "done it", "a2a", "send", n.tls, "--kind", "file", "--input", "it")
			n.says(t, "NOT_FOUND", "agents", "get", n.tls, "clerk")
			serves(t, agent)
			serves(t, p)
			for what, one := range map[string]*stranger.Peer{"partner": p, "agent": agent} {
				select {
				case <-one.Done():
					t.Errorf("the connection of the %s has ended: %v", what, one.Err())
				default:
				}
			}
			if len(peers) > 0 {
				t.Error("the partner was dialled again")
			}
		})
	}
}
