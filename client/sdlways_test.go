package client_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Rows 73 to 76 of A2A-SDL §15.
func TestAddressesWithoutSWPAreChecked(t *testing.T) {
	for address, want := range map[string]string{
		"http://h":              "http://h/a2a",
		"https://h:1/":          "https://h:1/a2a",
		"wss://h/other":         "wss://h/other",
		"unix:/run/s":           "unix:///run/s",
		"unix:///run/s":         "unix:///run/s",
		"http://me:secret@h":    "no user name",
		"http://h/#a":           "fragment",
		"ws://h?a=b":            "query",
		"http://":               "without a host",
		"http://:1":             "without a host",
		"unix:":                 "without the path",
		"http://h:port/":        "invalid port",
		"https://h/a2a#":        "fragment",
		"http://h/a\x7f":        "invalid control",
		"ws://h:99999999999999": "ws://h:99999999999999/a2a", // the dial refuses it
	} {
		u, err := client.CheckWithoutSWP(address)
		switch {
		case err != nil && !strings.Contains(err.Error(), want), err == nil && u.String() != want:
			t.Errorf("%s: %v, %v; want %s", address, u, err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the secret is in %v", address, err)
		}
	}
	for _, address := range []string{"swp+tls://h:1", "ftp://h", "h:1", "/run/s", "httpx://h"} {
		if client.WithoutSWP(address) {
			t.Errorf("%s is taken for an address without SWP", address)
		}
	}
	for address, o := range map[string]client.SDLDial{
		"http://127.0.0.1:1": {TLS: new(tls.Config)},
		"unix:/nowhere":      {Token: "secret"},
	} {
		if c, err := client.DialSDL(t.Context(), address, o); err == nil || !strings.Contains(err.Error(), "no effect") {
			t.Errorf("%s: %v, %v", address, c, err)
		}
	}
}

// ping is a request.
func ping() canonical.Value {
	who := func(id string) sdl.Identity { return sdl.Identity{AgentID: id, Name: id, Instance: "1", Role: "agent"} }
	payload, err := canonical.ParseJSON([]byte(`{"tool":"sys.ping","call_id":"1","args":{},"expect":{}}`))
	if err != nil {
		panic(err)
	}
	return sdl.New(sdl.TypeReq, sdl.CTToolCall, who("did:key:a"), who("did:web:b"), payload, sdl.Writing{})
}

// Answers of HTTP that are not envelopes are errors that say so, and redirects are not followed.
func TestAnHTTPAnswerThatIsNoEnvelopeIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"refused":      {401, "a bearer token is required", "401 Unauthorized: a bearer token is required"},
		"a page":       {200, "<html>", "not a valid envelope"},
		"moved":        {307, "", "307 Temporary Redirect"},
		"too long":     {200, strings.Repeat(" ", 8<<20+1), "more than 8388608 octets"},
		"not an error": {200, `{"type":"res"}`, "not a valid envelope"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization"))
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			defer server.Close()
			c, err := client.DialSDL(t.Context(), server.URL, client.SDLDial{Token: "key"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.AskSDL(t.Context(), sdl.JSON, ping(), client.SDLTrust{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if want := "POST /a2a application/json Bearer key"; len(asked) != 1 || asked[0] != want {
				t.Errorf("%q, want %s", asked, want)
			}
		})
	}
}

// What a server of a socket announces is not read above the limit, and its end is an error.
func TestASocketThatAnnouncesTooMuchOrEndsIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		answer []byte
		want   string
	}{
		"too much": {binary.BigEndian.AppendUint32(nil, 8<<20+1), "exceeds limit 8388608"},
		"nothing":  {nil, "EOF"},
		"half":     {append(binary.BigEndian.AppendUint32(nil, 10), "half"...), "ends inside a frame"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			go func() {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 64<<10))
				_, _ = conn.Write(test.answer)
				_ = conn.Close()
			}()
			c, err := client.DialSDL(t.Context(), "unix:"+path, client.SDLDial{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := c.AskSDL(ctx, sdl.JSON, ping(), client.SDLTrust{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}
