package endpoint_test

import (
	"bytes"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestEndToEndExtensionsAreDroppedWhereThereIsNoRoom(t *testing.T) {
	const limit, frameLimit = 200, 400
	own := e1.AppendExtension(nil, 20, []byte("own"))
	filled := func(size int) e1.Extensions { // own, and end-to-end extensions up to size
		end := e1.AppendExtension(nil, profiles.ExtEndToEnd, []byte("first"))
		rest := size - len(own) - len(end) - 3 // type, length in two octets
		return append(append(bytes.Clone(end), own...), e1.AppendExtension(nil, profiles.ExtEndToEndLast, bytes.Repeat([]byte("x"), rest))...)
	}
	for name, test := range map[string]struct {
		ext     e1.Extensions
		size    int // of the message
		dropped bool
	}{
		"at the limit of extensions":    {filled(limit), 0, false},
		"above the limit of extensions": {filled(limit + 1), 0, true},
		"at the limit of a frame":       {filled(150), frameLimit, false},
		"above the limit of a frame":    {filled(150), frameLimit + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan e1.Extensions, 1)
			here, there := transport.Pipe()
			one, _ := newEndpoint(t, endpoint.Options{FrameLimit: frameLimit, Envelope: e1.Limits{MaxExtensions: limit}}, profile(echo))
			two, _ := newEndpoint(t, endpoint.Options{}, profile(counting(func(req *profiles.Request) { got <- bytes.Clone(req.Extensions) })))
			two.Attach(there)
			env := request("", "")
			env.Version, env.Timestamp, env.MsgID, env.Extensions = 1, 1<<40, make([]byte, 16), test.ext
			if test.size > 0 {
				env.Payload = make([]byte, test.size-env.Size()-1)
			}
			if test.size > 0 && env.Size() != test.size {
				t.Fatalf("a message of %d octets, want %d", env.Size(), test.size)
			}
			c, err := one.Attach(here).Call(t.Context(), env)
			if err == nil {
				_, err = c.Recv(t.Context())
				c.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			want, curtailed := test.ext, uint64(0)
			if test.dropped {
				want, curtailed = own, 1
			}
			if ext := <-got; !bytes.Equal(ext, want) || one.Curtailed() != curtailed {
				t.Errorf("%d octets of extensions arrive, want %d; %d messages curtailed, want %d", len(ext), len(want), one.Curtailed(), curtailed)
			}
		})
	}
}
