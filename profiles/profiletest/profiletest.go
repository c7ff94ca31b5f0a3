// Package profiletest is the contract test that every profile runs. It checks
// what the endpoint relies on, so that no profile has to: the table of types,
// how long a request is valid, the permitted answers, and that no octets from a
// peer make a handler panic or fail as internal.
//
//	func TestContract(t *testing.T) {
//		profiletest.Run(t, newProfile,
//			profiletest.Case{Name: "echo", Type: 1, Payload: …, Answers: []uint64{2}},
//		)
//	}
package profiletest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Case is a valid message, and its expected results.
type Case struct {
	Name       string
	Type       uint64
	Payload    []byte
	Extensions e1.Extensions

	// Answers are the types of the answers that the handler sends, in order.
	Answers []uint64

	// Code is the code that refuses a valid message about an absent object.
	Code profiles.Code

	// Open says that the handler does not end the exchange while the peer is connected.
	Open bool

	// Random says that the octets of the answers differ from run to run.
	Random bool

	// Loose says that a message without its end may be valid.
	Loose bool
}

// maxRefusal is how large the frame of a refusal may be, its prefix included.
const (
	maxRefusal = 512
	prefixSize = 4
)

// Run tests a profile. fresh returns a new instance each time. There must be a
// case for each type that initiates.
func Run(t *testing.T, fresh func(testing.TB) *profiles.Profile, cases ...Case) {
	t.Run("table", func(t *testing.T) { table(t, fresh(t), cases) })
	t.Run("keeps nothing of the request", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { keepsNothing(t, fresh, c) })
		}
	})
	t.Run("every prefix is refused", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) { prefixes(t, fresh(t), c) })
		}
	})
	t.Run("arbitrary octets", func(t *testing.T) {
		p := fresh(t)
		h := New(t, p)
		r := rand.New(rand.NewPCG(1, 1))
		for range 2000 {
			row := p.Types[r.IntN(len(p.Types))]
			Arbitrary(h, row.ID, mutate(r, cases))
		}
	})
	t.Run("large refusals", func(t *testing.T) {
		p := fresh(t)
		for _, c := range cases {
			for _, n := range []int{1, 1000} {
				refuse(t, p, c.Type, c.Payload, n)
			}
		}
	})
}

// Fuzz feeds arbitrary payloads of every type to a profile, with the cases as
// seeds.
func Fuzz(f *testing.F, fresh func(testing.TB) *profiles.Profile, cases ...Case) {
	for _, c := range cases {
		f.Add(c.Type, c.Payload)
	}
	f.Fuzz(func(t *testing.T, msgType uint64, payload []byte) {
		p := fresh(t)
		if _, ok := p.Type(msgType); ok {
			Arbitrary(New(t, p), msgType, payload)
		}
	})
}

// Arbitrary serves any payload of a listed type: neither Serve, Check nor
// Refusal may panic, and bad octets are never an internal failure.
func Arbitrary(h *Harness, msgType uint64, payload []byte) {
	h.t.Helper()
	x := h.Serve(msgType, payload)
	if err := x.Err(); err != nil && err.Code == profiles.Internal {
		h.t.Errorf("type %d, payload %q: %v, want a refusal with a reason", msgType, payload, err)
	}
	if h.profile.Check != nil {
		env := x.Request().Envelope
		if row, _ := h.profile.Type(msgType); row.Role&profiles.Answer != 0 {
			if err := h.profile.Check(&env); err != nil && profiles.AsError(err).Code == profiles.Internal {
				h.t.Errorf("type %d, payload %q: Check: %v, want a refusal with a reason", msgType, payload, err)
			}
		}
	}
	refuse(h.t, h.profile, msgType, payload, 10)
}

func table(t testing.TB, p *profiles.Profile, cases []Case) {
	if _, err := profiles.NewRegistry(p); err != nil {
		t.Fatal(err)
	}
	if p.Name == "" {
		t.Error("the profile has no name")
	}
	names := make(map[string]bool)
	for _, row := range p.Types {
		if got, ok := p.Type(row.ID); !ok || got != row {
			t.Errorf("Type(%d) = %v, %v, want %v", row.ID, got, ok, row)
		}
		if row.Name == "" || names[row.Name] {
			t.Errorf("type %d: name %q is empty or there twice", row.ID, row.Name)
		}
		names[row.Name] = true
		if row.Role&^(profiles.Initiating|profiles.Answer|profiles.Terminal|profiles.Concluding|profiles.Lone|profiles.Within) != 0 {
			t.Errorf("type %d: role %d", row.ID, row.Role)
		}
		if row.Role&profiles.Initiating != 0 && !slices.ContainsFunc(cases, func(c Case) bool { return c.Type == row.ID }) {
			t.Errorf("type %d (%s) initiates and has no case", row.ID, row.Name)
		}
	}
	for _, id := range []uint64{0, uint64(len(p.Types)) + 1, 99, 1<<32 + 1, 1<<64 - 1} {
		if slices.ContainsFunc(p.Types, func(row profiles.Type) bool { return row.ID == id }) {
			continue
		}
		if row, ok := p.Type(id); ok {
			t.Errorf("Type(%d) = %v: an unlisted type is reachable", id, row)
		}
	}
	for _, c := range cases {
		if _, ok := p.Type(c.Type); !ok {
			t.Errorf("case %s: type %d is not listed", c.Name, c.Type)
		}
	}
}

// keepsNothing serves a case twice: as the endpoint does, and with the request
// left alone. A handler that kept a window answers differently.
func keepsNothing(t testing.TB, fresh func(testing.TB) *profiles.Profile, c Case) {
	run := func(keep bool) []e1.Envelope {
		h := New(t, fresh(t))
		h.KeepRequests = keep
		x := h.Serve(c.Type, c.Payload, c.Extensions...)
		if !c.Open {
			x.Wait()
		}
		if err := x.Err(); err != nil && err.Code != c.Code {
			t.Fatalf("refused: %v, want code %v", err, c.Code)
		} else if err == nil && c.Code != profiles.OK {
			t.Fatalf("accepted, want code %v", c.Code)
		}
		if c.Open && !x.Open() {
			t.Error("the exchange ended, want it open")
		}
		return x.Answers()
	}
	want, got := run(true), run(false)
	var types []uint64
	for _, env := range got {
		types = append(types, env.MsgType)
	}
	if !c.Open && !slices.Equal(types, c.Answers) {
		t.Errorf("answers of types %v, want %v", types, c.Answers)
	}
	if !c.Open && !c.Random {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers differ when the request is overwritten after Serve:\n%s", diff)
		}
	}
}

// prefixes serves every strict prefix of a case's payload; of long ones those
// near either end.
func prefixes(t testing.TB, p *profiles.Profile, c Case) {
	const near = 256
	h := New(t, p)
	for n := 0; n < len(c.Payload); n++ {
		if n == near {
			n = max(n, len(c.Payload)-near)
		}
		prefix := c.Payload[:n]
		Arbitrary(h, c.Type, prefix)
		if c.Loose {
			continue
		}
		x := h.Serve(c.Type, prefix, c.Extensions...)
		if x.mode != modeInline && !c.Open {
			x.Wait()
		}
		if x.Err() == nil {
			t.Errorf("prefix of %d octets: accepted, want it refused", n)
		}
	}
}

// refuse builds the refusal of a message and measures its frame.
func refuse(t testing.TB, p *profiles.Profile, msgType uint64, payload []byte, text int) {
	t.Helper()
	if p.Refusal == nil {
		return
	}
	req := &profiles.Request{Exchange: taken{}, Envelope: e1.Envelope{
		Version: e1.Version, ProfileID: p.ID, MsgType: msgType, MsgID: make([]byte, e1.DefaultMaxMsgID), Payload: slices.Clone(payload),
	}}
	for code := profiles.InvalidFrame; code <= profiles.CompatibilityPolicy; code++ {
		fault := &profiles.Error{Code: code, Text: fmt.Sprintf("%0*d", text, 7)}
		answer, ok := p.Refusal(req, fault)
		if !ok {
			continue
		}
		if row, listed := p.Type(answer.MsgType); !listed || row.Role&profiles.Answer == 0 {
			t.Errorf("type %d: Refusal has type %d, which is no answer", msgType, answer.MsgType)
		}
		answer.Version, answer.ProfileID, answer.MsgID, answer.Timestamp = e1.Version, p.ID, req.MsgID, 1<<42
		if n := prefixSize + answer.Size(); n > maxRefusal {
			t.Errorf("type %d: Refusal has %d octets as a frame, want %d at most", msgType, n, maxRefusal)
		}
		if p.Check != nil {
			if err := p.Check(&answer); err != nil {
				t.Errorf("type %d: Check refuses the Refusal: %v", msgType, err)
			}
		}
	}
}

// mutate returns random octets, or a damaged payload of a case.
func mutate(r *rand.Rand, cases []Case) []byte {
	if len(cases) == 0 || r.IntN(4) == 0 {
		b := make([]byte, r.IntN(64))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	b := slices.Clone(cases[r.IntN(len(cases))].Payload)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			break
		}
		switch i := r.IntN(len(b)); r.IntN(3) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b = slices.Delete(b, i, min(i+1+r.IntN(4), len(b)))
		case 2:
			b = slices.Insert(b, i, byte(r.Uint32()))
		}
	}
	return b
}
