package serve_test

import (
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/serve"
)

// BenchmarkHandle answers a task: plain; signed; and encrypted too, which is verified,
// decrypted and validated. Nonces are not looked at, so that the same message counts.
func BenchmarkHandle(b *testing.B) {
	o := guarded(b)
	o.Policy.Replay = nil
	o.Signer.Key = nil
	task := request(b, sdl.CTTask, taskPayload)
	for _, bench := range []struct {
		name string
		o    serve.Options
		body []byte
	}{
		{"plain", serve.Options{}, task.AppendJSON(nil)},
		{"signed", o, sign(b, task, "n").AppendJSON(nil)},
		{"encrypted", o, sign(b, encrypt(b, task), "n").AppendJSON(nil)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newServer(b, bench.o)
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.body)))
			for b.Loop() {
				if out := s.Handle(b.Context(), bench.body, sdl.JSON, serve.Caller{}); out.Err != nil {
					b.Fatal(out.Err)
				}
			}
		})
	}
}
