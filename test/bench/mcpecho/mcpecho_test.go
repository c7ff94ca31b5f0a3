package mcpecho

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// TestMain lets the test binary be the server on stdio.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stdio" {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestCallsReturnTheirPayload(t *testing.T) {
	for name, dial := range map[string]func() (echo.Conn, error){
		"http": func() (echo.Conn, error) {
			url, err := Listen(context.Background(), cert.Files{})
			if err != nil {
				return nil, err
			}
			return DialHTTP(t.Context(), url, cert.Files{})
		},
		"stdio": func() (echo.Conn, error) { return Command(t.Context(), os.Args[0], "stdio") },
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			caller := conn.Caller()
			for _, payload := range [][]byte{{0}, []byte("\"\\\n\u2028"), bytes.Repeat([]byte{7}, 1<<20)} {
				err := caller.Echo(payload, func(answer []byte) error {
					if !bytes.Equal(answer, payload) {
						return fmt.Errorf("%d octets came back as %d others", len(payload), len(answer))
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServerAnswersWhatIsAskedBeforeACall(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":"a","method":"server/discover"}`, `"supportedVersions":["2026-07-28"]`},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, `"name":"echo"`},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"other","arguments":{"text":""}}}`, `"code":-32601`},
		{`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo"}}`, `"code":-32601`},
	} {
		got, err := appendResponse(nil, []byte(row.in))
		if err != nil || !strings.Contains(string(got), row.want) || !strings.HasPrefix(string(got), `{"jsonrpc":"2.0","id":"a",`) {
			t.Errorf("%s: %s, %v", row.in, got, err)
		}
	}
	if got, err := appendResponse(nil, []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)); err != nil || len(got) > 0 {
		t.Errorf("a notification is answered: %s, %v", got, err)
	}
}

func TestClientRefusesAnotherResponse(t *testing.T) {
	for _, octets := range []string{
		`{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"AA=="}]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"%"}]}}`,
		`{`,
	} {
		if got, err := readResponse([]byte(octets), 1); err == nil {
			t.Errorf("%s: %q", octets, got)
		}
	}
}
