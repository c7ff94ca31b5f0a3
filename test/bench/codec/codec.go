// Package codec compares reading an SWP message with reading the same envelope
// as a protobuf message.
package codec

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/test/bench/codec/envelopepb"
)

// Case is a way to read a message.
type Case struct {
	Name  string
	Run   func(n int) error // reads the message n times
	Batch int               // how many are read between two looks at the clock, default 1000
}

// The names of the cases.
const (
	E1       = "E1 decode"
	FrameE1  = "frame read + E1 decode"
	PBFresh  = "protobuf decode, fresh message"
	PBReused = "protobuf decode, reused message"
)

// message returns the message that all codecs read: an envelope of the RPC profile.
func message(payload int) e1.Envelope {
	return e1.Envelope{
		Version:   e1.Version,
		ProfileID: 12,
		MsgType:   1,
		Timestamp: 1_763_700_000_000,
		MsgID:     bytes.Repeat([]byte{0xa5}, 16),
		Payload:   bytes.Repeat([]byte{0x5a}, payload),
	}
}

// Cases returns the ways to read a message with a payload of so many octets.
func Cases(payload int) ([]Case, error) {
	env := message(payload)
	body := env.Append(nil)
	pb, err := proto.Marshal(&envelopepb.Envelope{
		Version: env.Version, ProfileId: env.ProfileID, MsgType: env.MsgType, Flags: env.Flags,
		TsUnixMs: env.Timestamp, MsgId: env.MsgID, Extensions: env.Extensions, Payload: env.Payload,
	})
	if err != nil {
		return nil, err
	}
	limits := e1.Limits{}.WithDefaults()
	var view e1.Envelope
	var reused envelopepb.Envelope
	frames := frame.NewReader(&endless{frames: bytes.Repeat(frame.Append(nil, body), 512)}, frame.Options{})
	return []Case{
		{Name: E1, Run: func(n int) error {
			for range n {
				if err := view.Decode(body, &limits); err != nil {
					return err
				}
			}
			return check(len(view.Payload), payload)
		}},
		{Name: FrameE1, Run: func(n int) error {
			for range n {
				body, err := frames.Next()
				if err != nil {
					return err
				}
				if err := view.Decode(body, &limits); err != nil {
					return err
				}
			}
			return check(len(view.Payload), payload)
		}},
		{Name: PBFresh, Run: func(n int) error {
			var last *envelopepb.Envelope
			for range n {
				last = new(envelopepb.Envelope)
				if err := proto.Unmarshal(pb, last); err != nil {
					return err
				}
			}
			return check(len(last.GetPayload()), payload)
		}},
		{Name: PBReused, Run: func(n int) error {
			for range n {
				if err := proto.Unmarshal(pb, &reused); err != nil {
					return err
				}
			}
			return check(len(reused.GetPayload()), payload)
		}},
	}, nil
}

func check(got, want int) error {
	if got != want {
		return fmt.Errorf("codec: payload of %d octets, want %d", got, want)
	}
	return nil
}

// endless is a stream that repeats the same frames. It gives as much as is asked
// for, in one piece, as a busy connection does.
type endless struct {
	frames []byte
	at     int
}

func (s *endless) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, io.ErrShortBuffer
	}
	n := copy(p, s.frames[s.at:])
	s.at = (s.at + n) % len(s.frames)
	return n, nil
}

// Measure times each case rounds times, alternating, so that a drift of the machine affects
// all cases alike. The result is nanoseconds a message, by case and round.
func Measure(cases []Case, rounds int, window time.Duration) ([][]float64, error) {
	times := make([][]float64, len(cases))
	for i := range rounds {
		for j := range cases {
			c := (i + j) % len(cases)
			batch := cases[c].Batch
			if batch == 0 {
				batch = 1000
			}
			n, began := 0, time.Now()
			for time.Since(began) < window {
				if err := cases[c].Run(batch); err != nil {
					return nil, err
				}
				n += batch
			}
			times[c] = append(times[c], float64(time.Since(began))/float64(n))
		}
	}
	return times, nil
}
