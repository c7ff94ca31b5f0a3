package endpoint_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// fields is an envelope as its octets, field by field, so that one of them can
// be wrong in a way that no encoder writes.
type fields [8][]byte

var fieldNames = [8]string{"version", "profile_id", "msg_type", "flags", "ts_unix_ms", "msg_id", "extensions", "payload"}

// good returns a request with an extension.
func good() fields {
	return fields{
		{1}, {testProfile}, {typeRequest}, {0}, {0},
		e1.AppendBytes(nil, []byte("0123456789abcdef")),
		e1.AppendBytes(nil, []byte{16, 1, 'x'}),
		e1.AppendBytes(nil, []byte("payload")),
	}
}

func (f fields) frame() []byte { return frame.Append(nil, bytes.Join(f[:], nil)) }

// with returns f with one field, and nothing after it if last, replaced.
func (f fields) with(i int, octets []byte, last bool) fields {
	f[i] = octets
	if last {
		for j := i + 1; j < len(f); j++ {
			f[j] = nil
		}
	}
	return f
}

// fault is a frame that is refused, and how.
type fault struct {
	name   string
	octets []byte
	code   profiles.Code
	detail string
}

// refuseEach sends each frame on a connection of its own and wants it refused,
// with the stream if fatal, and nothing applied.
func refuseEach(t *testing.T, fatal bool, faults []fault) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			served := 0
			onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				r.write(t, f.octets)
				action := endpoint.Kept
				if fatal || r.conn.Multiplexed() {
					action = r.severed()
				}
				r.wantVerdict(t, 1, f.code, f.detail, action)
				if action != endpoint.Kept {
					r.wantEnd(t)
					return
				}
				r.send(t, request("still-in-step---", "x"))
				r.wantEcho(t, "still-in-step---", "x")
				served--
			}, profile(counting(func(*profiles.Request) { served++ })))
			if served != 0 {
				t.Errorf("%d refused messages were applied", served)
			}
		})
	}
}

func TestEN01MalformedUvarintsInEveryPosition(t *testing.T) {
	long := append(bytes.Repeat([]byte{0x80}, 10), 0)
	over := append(bytes.Repeat([]byte{0xff}, 9), 2)
	cut := []byte{0x80}
	var faults []fault
	add := func(name string, f fields) {
		faults = append(faults, fault{name, f.frame(), profiles.InvalidFrame, "ERR_INVALID_UVARINT"})
	}
	for i, name := range fieldNames {
		add(name+" of 11 octets", good().with(i, long, false))
		add(name+" above 64 bits", good().with(i, over, false))
		add(name+" cut off", good().with(i, cut, true))
	}
	for name, bad := range map[string][]byte{"of 11 octets": long, "above 64 bits": over, "cut off": cut} {
		add("extension type "+name, good().with(6, e1.AppendBytes(nil, bad), false))
		add("extension length "+name, good().with(6, e1.AppendBytes(nil, append([]byte{16}, bad...)), false))
	}
	refuseEach(t, true, faults)
}

func TestEN02OverlongUvarintsMeanTheSame(t *testing.T) {
	overlong := func(short []byte) []byte {
		v, n, err := e1.Uvarint(short)
		if err != nil {
			t.Fatal(err)
		}
		var long []byte
		for range 9 {
			long = append(long, byte(v)|0x80)
			v >>= 7
		}
		return append(append(long, byte(v)), short[n:]...)
	}
	want := e1.Envelope{}
	limits := e1.Limits{}.WithDefaults()
	if err := want.Decode(good().frame()[4:], &limits); err != nil {
		t.Fatal(err)
	}
	for i, name := range fieldNames {
		t.Run(name, func(t *testing.T) {
			var got []e1.Envelope
			p := profile(counting(func(req *profiles.Request) { got = append(got, req.Clone()) }))
			r := newRig(t, endpoint.Options{}, p)
			r.write(t, good().with(i, overlong(good()[i]), false).frame())
			r.wantEcho(t, "0123456789abcdef", "payload")
			if len(got) != 1 || !bytes.Equal(got[0].Append(nil), want.Append(nil)) {
				t.Errorf("decoded as %+v, want %+v", got, want)
			}
		})
	}
}

// The table of messages in flight is keyed by decoded values: two spellings of
// one id are one id.
func TestEN02ADuplicateInAnotherSpellingIsADuplicate(t *testing.T) {
	r := newRig(t, endpoint.Options{}, telling(profile(hold(nil))))
	r.write(t, good().frame())
	r.write(t, good().with(5, append([]byte{0x90, 0x00}, "0123456789abcdef"...), false).frame())
	r.wantError(t, "0123456789abcdef", profiles.DuplicateMsgID)
}

func TestEN03LengthsAreComparedBeforeAnythingIsAllocated(t *testing.T) {
	var faults []fault
	for i := 5; i <= 7; i++ {
		all := good()
		rest := len(bytes.Join(all[i+1:], nil))
		for _, n := range []uint64{1 << 31, 1 << 63, math.MaxUint64, uint64(rest) + 1} {
			octets := good().with(i, e1.AppendUvarint(nil, n), false).frame()
			faults = append(faults, fault{fmt.Sprintf("%s of %d", fieldNames[i], n), octets, profiles.InvalidFrame, ""})
		}
	}
	for _, n := range []uint64{1 << 31, 1 << 63, math.MaxUint64, 1} {
		block := e1.AppendUvarint([]byte{16}, n)
		octets := good().with(6, e1.AppendBytes(nil, block), false).frame()
		faults = append(faults, fault{fmt.Sprintf("extension value of %d", n), octets, profiles.InvalidFrame, ""})
	}
	refuseEach(t, true, faults)
}

func TestEN04ForeignVersionsAreRefusedOnTheFirstField(t *testing.T) {
	var faults []fault
	for _, v := range []uint64{0, 2, math.MaxUint64} {
		octets := good().with(0, e1.AppendUvarint(nil, v), false).frame()
		faults = append(faults, fault{fmt.Sprint(v), octets, profiles.UnsupportedVersion, ""})
	}
	// Another version need not have this layout.
	faults = append(faults, fault{"2 and nothing else", frame.Append(nil, []byte{2}), profiles.UnsupportedVersion, ""})
	refuseEach(t, true, faults)
}

func TestEN05UnknownProfiles(t *testing.T) {
	ids := []uint64{0, 3, 4, 5, 6, 7, 8, 9, 20, 4096, math.MaxUint64}
	t.Run("close without an error path", func(t *testing.T) {
		var faults []fault
		for _, id := range ids {
			octets := good().with(1, e1.AppendUvarint(nil, id), false).frame()
			faults = append(faults, fault{fmt.Sprint(id), octets, profiles.UnknownProfile, ""})
		}
		refuseEach(t, true, faults)
	})
	t.Run("are answered with one", func(t *testing.T) {
		onEach(t, endpoint.Options{ErrorFrames: true}, func(t *testing.T, r *rig) {
			n := 0
			for _, id := range ids {
				if id == endpoint.ErrorProfile {
					continue // known where the error path is on
				}
				n++
				r.write(t, good().with(1, e1.AppendUvarint(nil, id), false).frame())
				r.wantErrorFrame(t, "0123456789abcdef", profiles.UnknownProfile, id)
				r.wantVerdict(t, n, profiles.UnknownProfile, "", endpoint.Kept)
			}
		})
	})
}

// dozen are the profiles of C0 and the extended family, with tables as long as
// theirs: the last type of each is an answer.
func dozen(served *int) []*profiles.Profile {
	var list []*profiles.Profile
	for _, id := range []uint64{1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19} {
		p := profile(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			*served++
			return echo(ctx, req, w)
		})
		p.ID, p.Name = id, fmt.Sprintf("p%d", id)
		p.Types = p.Types[:2]
		list = append(list, p)
	}
	return list
}

func TestEN06TypesAreCheckedBeforeThePayload(t *testing.T) {
	for _, k := range kinds {
		for i, p := range dozen(new(int)) {
			for _, typ := range []uint64{0, typeAnswer, 99, math.MaxUint64} {
				t.Run(fmt.Sprintf("%s/%s type %d", k.name, p.Name, typ), func(t *testing.T) {
					served := 0
					list := dozen(&served)
					list[i].Check = func(*e1.Envelope) error { return profiles.Errorf(profiles.InvalidProfilePayload, "garbage") }
					ep, rec := newEndpoint(t, endpoint.Options{}, list...)
					here, there := k.pipe()
					r := attach(t, ep, rec, here, there)
					f := good().with(1, []byte{byte(p.ID)}, false).with(2, e1.AppendUvarint(nil, typ), false)
					r.write(t, f.with(7, e1.AppendBytes(nil, []byte{0xff, 0xff}), false).frame())
					code, detail := profiles.UnsupportedMsgType, ""
					switch typ {
					case 0:
						code = profiles.InvalidEnvelope
					case typeAnswer:
						// Nobody asked, and it is not even well-formed.
						code = profiles.InvalidProfilePayload
					}
					action := endpoint.Kept
					if r.conn.Multiplexed() {
						action = endpoint.Reset
					}
					r.wantVerdict(t, 1, code, detail, action)
					if served != 0 {
						t.Errorf("the handler saw it")
					}
				})
			}
		}
	}
}

func TestEN06AnAnswerNobodyAskedForIsCountedAndDropped(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		const budget = 16
		answer := request("0123456789abcdef", "x")
		answer.MsgType = typeAnswer
		for i := range budget {
			r.send(t, answer)
			r.wantVerdict(t, i+1, profiles.OK, "unsolicited", endpoint.Kept)
		}
		r.send(t, answer)
		r.wantVerdict(t, budget+1, profiles.OK, "unsolicited", endpoint.Closed)
		r.wantEnd(t)
	})
}

func TestEN07LengthsOfMsgID(t *testing.T) {
	var faults []fault
	for _, n := range []int{0, 7, 65, 4096} {
		octets := good().with(5, e1.AppendBytes(nil, make([]byte, n)), false).frame()
		faults = append(faults, fault{fmt.Sprint(n), octets, profiles.InvalidEnvelope, "ERR_MSG_ID_INVALID"})
	}
	refuseEach(t, false, faults)
}

func TestEN07ContentOfMsgIDIsOpaque(t *testing.T) {
	for _, id := range []string{"\x00\x00\x00\x00\x00\x00\x00\x00", "\r\n\r\nHTTP/", `"'"'"'"'`, "\xff\xfe\xfd\x1b[31mred" + string(make([]byte, 51))} {
		t.Run(hex.EncodeToString([]byte(id)), func(t *testing.T) {
			onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
				r.send(t, request(id, "x"))
				r.wantEcho(t, id, "x")
				if v := r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept); string(v.MsgID) != id {
					t.Errorf("the verdict has msg_id %x", v.MsgID)
				}
			})
		})
	}
}

func TestEN08ExtensionBlocks(t *testing.T) {
	ext := func(block []byte) []byte { return good().with(6, e1.AppendBytes(nil, block), false).frame() }
	t.Run("above the limit, before it is parsed", func(t *testing.T) {
		refuseEach(t, true, []fault{
			{"entries", ext(bytes.Repeat([]byte{16, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 241)), profiles.InvalidEnvelope, "ERR_EXT_TOO_LARGE"},
			{"garbage", ext(bytes.Repeat([]byte{0xff}, 4097)), profiles.InvalidEnvelope, "ERR_EXT_TOO_LARGE"},
		})
	})
	t.Run("overrun", func(t *testing.T) {
		refuseEach(t, true, []fault{
			{"value", ext([]byte{16, 5, 0}), profiles.InvalidFrame, ""},
		})
	})
	accepted := map[string][]byte{
		"empty entries":  bytes.Repeat([]byte{16, 0}, 2048),
		"unknown types":  {0, 1, 'a', 7, 0, 15, 1, 'b', 16, 0, 99, 1, 'c', 0xff, 0xff, 0x7f, 0},
		"repeated types": {16, 1, 'a', 16, 1, 'b', 16, 1, 'a'},
		"exactly 4096":   append([]byte{16, 0xfd, 0x1f}, make([]byte, 4093)...),
	}
	for name, block := range accepted {
		t.Run(name, func(t *testing.T) {
			var got []byte
			r := newRig(t, endpoint.Options{}, profile(counting(func(req *profiles.Request) { got = slices.Clone(req.Extensions) })))
			r.write(t, ext(block))
			r.wantEcho(t, "0123456789abcdef", "payload")
			if !bytes.Equal(got, block) {
				t.Errorf("the handler saw %x", got)
			}
		})
	}
}

func TestEN08EmptyEntriesCostNoAllocation(t *testing.T) {
	var env e1.Envelope
	limits := e1.Limits{}.WithDefaults()
	body := good().with(6, e1.AppendBytes(nil, bytes.Repeat([]byte{16, 0}, 2048)), false).frame()[4:]
	allocs := testing.AllocsPerRun(100, func() {
		if err := env.Decode(body, &limits); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestEN09TrailingOctetsAreRefused(t *testing.T) {
	refuseEach(t, true, []fault{
		{"one", good().with(7, append(e1.AppendBytes(nil, []byte("payload")), 0), false).frame(), profiles.InvalidFrame, ""},
	})
}

func TestEN09UnknownFlagsChangeNothing(t *testing.T) {
	onEach(t, endpoint.Options{}, func(t *testing.T, r *rig) {
		r.write(t, good().with(3, e1.AppendUvarint(nil, math.MaxUint64), false).frame())
		r.wantEcho(t, "0123456789abcdef", "payload")
		if v := r.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept); v.Flags != math.MaxUint64 {
			t.Errorf("the verdict shows flags %x", v.Flags)
		}
	})
}

// hold returns a handler that holds every request and, if it is not nil, tells
// the responder to held.
func hold(held func(*profiles.Request, profiles.Responder)) profiles.HandlerFunc {
	return func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		if req.Unsolicited {
			return nil
		}
		kept, w, err := req.Hold()
		if err != nil {
			return err
		}
		if held != nil {
			held(kept, w)
			return nil
		}
		context.AfterFunc(w.Context(), func() { w.Fail(nil) })
		return nil
	}
}
