package p1_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/proto/prototest"
)

// readRPC reads any message of the RPC schema with this package.
func readRPC(schema protoreflect.MessageDescriptor, payload []byte, msgType uint64) (proto.Message, error) {
	body, err := p1.Body(payload, msgType, 5)
	if err != nil {
		return nil, err
	}
	member := schema.Fields().ByNumber(protoreflect.FieldNumber(msgType))
	whole := dynamicpb.NewMessage(schema)
	m := whole.Mutable(member).Message()
	f := p1.Read(body)
	for f.Next() {
		fd := member.Message().Fields().ByNumber(protoreflect.FieldNumber(f.Num()))
		if fd == nil {
			continue
		}
		switch fd.Kind() {
		case protoreflect.BytesKind:
			var v []byte
			f.Bytes(&v)
			m.Set(fd, protoreflect.ValueOfBytes(v))
		case protoreflect.StringKind:
			var v []byte
			f.Text(&v)
			m.Set(fd, protoreflect.ValueOfString(string(v)))
		case protoreflect.Uint64Kind:
			var v uint64
			f.Uint64(&v)
			m.Set(fd, protoreflect.ValueOfUint64(v))
		default:
			var v bool
			f.Bool(&v)
			m.Set(fd, protoreflect.ValueOfBool(v))
		}
	}
	return whole, f.Err()
}

// member returns the number of the oneof member that is set, 0 for none.
func member(m protoreflect.Message) uint64 {
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("body"))
	if field == nil {
		return 0
	}
	return uint64(field.Number())
}

// agree holds this package against the Go runtime of Protocol Buffers on any
// octets.
func agree(t *testing.T, payload []byte) {
	t.Helper()
	schema := prototest.Payload(t, "rpc")
	want := dynamicpb.NewMessage(schema)
	theirs := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(payload, want)
	for msgType := uint64(1); msgType <= 5; msgType++ {
		got, ours := readRPC(schema, payload, msgType)
		if ours == nil {
			// What is accepted means the same to both.
			if theirs != nil && !supersedes(payload) {
				t.Fatalf("type %d: accepted %x, the runtime says %v", msgType, payload, theirs)
			}
			if theirs == nil {
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Fatalf("type %d: %x: runtime (-), p1 (+):\n%s", msgType, payload, diff)
				}
			}
			continue
		}
		// What is refused is refused by both, or for one of the stricter rules.
		switch detail(t, ours) {
		case p1.DetailWireType, p1.DetailGroup, p1.DetailCount:
		case p1.DetailBody:
			if theirs == nil && member(want) == msgType {
				t.Fatalf("type %d: refused %x with %v, the runtime reads it", msgType, payload, ours)
			}
		default:
			if theirs == nil {
				t.Fatalf("type %d: refused %x with %v, the runtime reads it", msgType, payload, ours)
			}
		}
	}
}

// supersedes reports whether the payload has several members. A member that
// another replaces is not decoded here, so a string in it may be anything.
func supersedes(payload []byte) bool {
	members := 0
	for len(payload) > 0 {
		num, typ, n := protowire.ConsumeField(payload)
		if n < 0 {
			return false
		}
		if num <= 5 && typ == protowire.BytesType {
			members++
		}
		payload = payload[n:]
	}
	return members > 1
}

// random returns octets that are often a message: fields of small numbers, with
// nested ones, sometimes damaged.
func random(r *rand.Rand, depth int) []byte {
	var b []byte
	for range r.IntN(4) {
		num := protowire.Number(1 + r.IntN(6))
		switch k := r.IntN(10); {
		case k < 4 && depth > 0:
			b = protowire.AppendTag(b, num, protowire.BytesType)
			b = protowire.AppendBytes(b, random(r, depth-1))
		case k < 6:
			b = protowire.AppendTag(b, num, protowire.BytesType)
			b = protowire.AppendString(b, "é swp.echo"[:r.IntN(11)])
		case k < 8:
			b = protowire.AppendTag(b, num, protowire.VarintType)
			b = protowire.AppendVarint(b, r.Uint64()>>r.IntN(64))
		case k == 8:
			b = protowire.AppendTag(b, num+8, protowire.StartGroupType)
			b = append(b, random(r, 0)...)
			b = protowire.AppendTag(b, num+8, protowire.EndGroupType)
		default:
			b = protowire.AppendTag(b, num+8, protowire.Fixed32Type)
			b = protowire.AppendFixed32(b, r.Uint32())
		}
	}
	if depth == 2 && len(b) > 0 && r.IntN(3) == 0 {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	return b
}

func TestReadingAgreesWithProtocolBuffers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4_000 {
		agree(t, random(r, 2))
	}
}

func FuzzReadingAgreesWithProtocolBuffers(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(random(r, 2))
	}
	f.Add([]byte("\x0a\x01\x08\x0a\x01\x01"))
	f.Add([]byte("\x0a\x00" + groups(17)))
	f.Fuzz(agree)
}
