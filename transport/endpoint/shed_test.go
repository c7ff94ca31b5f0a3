package endpoint_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestAHeldRequestCanReleaseItsOctetsAndBeAnswered(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		held := make(chan profiles.Responder, 1)
		ep, rec := newEndpoint(t, endpoint.Options{}, profile(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.Hold()
			if err == nil {
				held <- w
			}
			return err
		}))
		here, there := pipe()
		r := attach(t, ep, rec, here, there)
		r.send(t, request("request-00000001", string(bytes.Repeat([]byte("x"), 1<<20))))
		w := <-held
		synctest.Wait()
		before := ep.Stats().InFlightBytes
		for range 2 { // the second time there is nothing left
			w.(profiles.Shedder).Shed()
		}
		synctest.Wait()
		if after := ep.Stats().InFlightBytes; before-after < 1<<20-65<<10 { // the first window is not counted
			t.Errorf("%d octets in flight before, %d after", before, after)
		}
		if err := w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte("done")}); err != nil {
			t.Fatal(err)
		}
		w.(profiles.Shedder).Shed()
		if env := r.recv(t); string(env.MsgID) != "request-00000001" || string(env.Payload) != "done" {
			t.Errorf("answer %+v", env)
		}
		synctest.Wait()
		if got := ep.Stats().InFlightBytes; got >= 1<<20 {
			t.Errorf("%d octets are still in flight", got)
		}
	})
}
