package endpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestFR01AStreamMayEndOnlyBetweenFrames(t *testing.T) {
	t.Run("zero length", func(t *testing.T) {
		onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
			r.write(t, make([]byte, 4))
			r.wantVerdict(t, 1, profiles.InvalidFrame, "", r.severed())
			r.wantEnd(t)
		})
	})
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d octets of a prefix", n), func(t *testing.T) {
			onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				r.write(t, []byte{0, 0, 0, 24}[:n])
				r.finish(t)
				v := r.wantVerdict(t, 1, profiles.InvalidFrame, "", r.severed())
				if v.Bytes != n {
					t.Errorf("verdict counts %d octets, want %d", v.Bytes, n)
				}
				r.wantEnd(t)
			})
		})
	}
	t.Run("between frames", func(t *testing.T) {
		onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
			r.send(t, request("0123456789abcdef", "x"))
			r.finish(t)
			r.wantEcho(t, "0123456789abcdef", "x")
			if err := r.ended(); err != io.EOF {
				t.Errorf("the stream ends with %v, want io.EOF", err)
			}
			r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
			if n := r.rec.count(); n != 1 {
				t.Errorf("%d verdicts for one frame", n)
			}
		})
	})
}

// The deadline of a slot is part of FR-01: a connection that ends in a broken
// frame is forgotten within a second.
func TestFR01TheSlotOfABrokenConnectionIsFreedWithinASecond(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		began := time.Now()
		r.write(t, make([]byte, 4))
		r.rec.verdict(t, 1)
		if r.conn.Multiplexed() {
			_ = r.conn.Close(0)
		}
		r.rec.await(t, "session closed", func(r *recorder) bool { return len(r.closed) == 1 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the slot was held for %v", took)
		}
	})
}

func TestFR02OversizedPrefixIsRefusedOnThePrefixAlone(t *testing.T) {
	const limit = 1 << 16
	for _, n := range []uint32{limit + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onEach(t, endpoint.Options{FrameLimit: limit}, func(t *testing.T, r *rig) {
				r.write(t, binary.BigEndian.AppendUint32(nil, n)) // and nothing of the body
				v := r.wantVerdict(t, 1, profiles.InvalidFrame, "ERR_FRAME_TOO_LARGE", r.severed())
				if v.Bytes != 4 {
					t.Errorf("refused after %d octets, want 4", v.Bytes)
				}
				r.wantEnd(t)
			})
		})
	}
}

func TestFR02OversizedPrefixAllocatesNothing(t *testing.T) {
	// Everything that a session costs is in the first measurement, too.
	cost := func(n uint32) uint64 {
		r := newRig(t, endpoint.Options{}, profile(echo))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.write(t, binary.BigEndian.AppendUint32(nil, n))
		r.rec.verdict(t, 1)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small := min(cost(0), cost(0), cost(0))
	for _, n := range []uint32{8<<20 + 1, 1<<32 - 1} {
		if got := min(cost(n), cost(n), cost(n)); got > small+4096 {
			t.Errorf("a prefix of %d costs %d octets more than one of 0", n, got-small)
		}
	}
}

func TestFR04ABodyCutAnywhereIsNeverApplied(t *testing.T) {
	whole := framed(request("0123456789abcdef", "payload"))
	cuts := []struct {
		name string
		cut  func(transport.Stream)
	}{
		{"fin", func(s transport.Stream) { _ = s.CloseWrite() }},
		{"rst", func(s transport.Stream) { s.Reset(1) }},
	}
	for _, how := range cuts {
		t.Run(how.name, func(t *testing.T) {
			served := 0
			p := profile(counting(func(*profiles.Request) { served++ }))
			opts := endpoint.Options{Bounds: endpoint.Bounds{ErrorBudget: 1000}}
			inVirtualTime(t, opts, func(t *testing.T, r *rig) {
				for n := 1; n < len(whole); n++ {
					if n > 1 {
						r.again(t)
					}
					r.write(t, whole[:n])
					synctest.Wait() // a reset takes back what was not read yet
					how.cut(r.raw)
					r.wantVerdict(t, n, profiles.InvalidFrame, "", r.severed())
				}
			}, p)
			if served != 0 {
				t.Errorf("%d cut messages were applied", served)
			}
		})
	}
}

func TestFR05ASlowBodyIsCutOffAtItsDeadline(t *testing.T) {
	// 5 s and 128 s for 8 MiB, counted from the first octet of the prefix.
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		began := time.Now()
		r.write(t, binary.BigEndian.AppendUint32(nil, 8<<20))
		for r.rec.count() == 0 {
			if _, err := r.raw.Write([]byte{1}); err != nil {
				break
			}
			time.Sleep(2 * time.Second)
		}
		r.wantVerdict(t, 1, profiles.InvalidFrame, "slow", r.severed())
		if took := time.Since(began); took < 133*time.Second || took > 136*time.Second {
			t.Errorf("cut off after %v, want 133 s", took)
		}
		r.othersAreServed(t)
	})
}

func TestFR05ASlowPrefixIsCutOffAtItsDeadline(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		began := time.Now()
		r.write(t, []byte{0})
		r.wantVerdict(t, 1, profiles.InvalidFrame, "slow", r.severed())
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("cut off after %v, want 5 s", took)
		}
		r.wantEnd(t)
	})
}

// The buffer that a large frame needed is given back in a pause, however long. The
// time of the next frame begins with its first octets.
func TestAPauseAfterALargeFrameIsNoSlowFrame(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		payload := string(make([]byte, 200<<10))
		for i, pause := range []time.Duration{0, time.Second, time.Minute} {
			time.Sleep(pause)
			id := fmt.Sprintf("%016d", i)
			go func() { _, _ = r.raw.Write(framed(request(id, payload))) }()
			r.wantEcho(t, id, payload)
		}
	})
}

// A peer that is slow but above the slowest permitted pace is served.
func TestFR05AFrameWithinItsDeadlineIsServed(t *testing.T) {
	inVirtualTime(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		payload := string(make([]byte, 300<<10))
		frame := framed(request("0123456789abcdef", payload))
		for len(frame) > 0 {
			n := min(64<<10, len(frame))
			r.write(t, frame[:n])
			frame = frame[n:]
			time.Sleep(time.Second)
		}
		r.wantEcho(t, "0123456789abcdef", payload)
	})
}

func TestFR06SplitsAndCoalescingChangeNothing(t *testing.T) {
	var stream []byte
	var ids, payloads []string
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		ids = append(ids, fmt.Sprintf("msg-id-%09d", i))
		payloads = append(payloads, string(bytes.Repeat([]byte{byte(i)}, rnd.IntN(300))))
		stream = append(stream, framed(request(ids[i], payloads[i]))...)
	}
	splits := map[string]func() int{
		"one octet a write":   func() int { return 1 },
		"all in one write":    func() int { return len(stream) },
		"random split":        func() int { return 1 + rnd.IntN(500) },
		"another split":       func() int { return 1 + rnd.IntN(20) },
		"at the frame prefix": func() int { return 4 },
	}
	for name, next := range splits {
		t.Run(name, func(t *testing.T) {
			onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				go func() {
					for rest := stream; len(rest) > 0; {
						n := min(next(), len(rest))
						if _, err := r.raw.Write(rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
				}()
				for i := range ids {
					r.wantEcho(t, ids[i], payloads[i])
				}
			})
		})
	}
}

func TestFR07GarbageAfterAGoodFrame(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.write(t, append(framed(request("0123456789abcdef", "first")), 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff))
		r.wantEcho(t, "0123456789abcdef", "first")
		r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
		r.wantVerdict(t, 2, profiles.InvalidFrame, "ERR_INVALID_UVARINT", r.severed())
		r.wantEnd(t)
	})
}

func TestFR07ExactLimitsAreAccepted(t *testing.T) {
	const frameLimit, payloadLimit = 70_000, 60_000
	opts := endpoint.Options{FrameLimit: frameLimit, Envelope: e1.Limits{MaxPayload: payloadLimit}}
	// An envelope of the given size, by its extensions and payload.
	exact := func(size int) e1.Envelope {
		env := request("0123456789abcdef", "")
		env.Version = 1
		ext := bytes.Repeat([]byte{16, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 100)
		env.Extensions = e1.Extensions(ext)
		env.Payload = make([]byte, size-env.Size()-2)
		if env.Size() != size {
			panic(env.Size())
		}
		return env
	}
	t.Run("frame", func(t *testing.T) {
		wide := opts
		wide.Envelope.MaxPayload = frameLimit
		onEach(t, wide, func(t *testing.T, r *rig) {
			env := exact(frameLimit)
			r.send(t, env)
			r.wantEcho(t, "0123456789abcdef", string(env.Payload))
			_, _ = r.raw.Write(framed(exact(frameLimit + 1))) // refused by its first octets
			r.wantVerdict(t, 2, profiles.InvalidFrame, "ERR_FRAME_TOO_LARGE", r.severed())
		})
	})
	t.Run("payload", func(t *testing.T) {
		onEach(t, opts, func(t *testing.T, r *rig) {
			r.send(t, request("0123456789abcdef", string(make([]byte, payloadLimit))))
			r.wantEcho(t, "0123456789abcdef", string(make([]byte, payloadLimit)))
			r.send(t, request("0123456789abcdef", string(make([]byte, payloadLimit+1))))
			r.wantVerdict(t, 2, profiles.InvalidEnvelope, "ERR_PAYLOAD_TOO_LARGE", r.severed())
		})
	})
}

func TestFR08AnAnswerAboveTheLimitBecomesAnError(t *testing.T) {
	const limit = 1000
	huge := e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, limit+1)}
	how := []struct {
		name    string
		handler profiles.HandlerFunc
	}{
		{"inline", func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(huge)
		}},
		{"detached", func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			return req.Detach(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
				return w.Finish(huge)
			})
		}},
		{"held", func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.Hold()
			if err == nil {
				go func() { _ = w.Finish(huge) }()
			}
			return err
		}},
	}
	for _, h := range how {
		t.Run(h.name, func(t *testing.T) {
			opts := endpoint.Options{Envelope: e1.Limits{MaxPayload: limit}}
			onEach(t, opts, func(t *testing.T, r *rig) {
				for i := range 20 { // more often than the error budget: it is no fault of the peer
					id := fmt.Sprintf("msg-id-%09d", i)
					r.send(t, request(id, "x"))
					r.wantError(t, id, profiles.Internal)
					r.wantVerdict(t, i+1, profiles.Internal, "ERR_PAYLOAD_TOO_LARGE", endpoint.Kept)
				}
			}, telling(profile(h.handler)))
		})
	}
}
