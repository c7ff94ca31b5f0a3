package p1_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/proto/rpcpb"
)

// readRPC reads any message of the RPC schema with this package.
func readRPC(payload []byte, msgType uint64) (*rpcpb.Payload, error) {
	body, err := p1.Body(payload, msgType, 5)
	if err != nil {
		return nil, err
	}
	var id, a, b, c []byte
	var seq uint64
	var flag bool
	f := p1.Read(body)
	for f.Next() {
		switch n := f.Num(); {
		case n == 1:
			f.Bytes(&id)
		case n == 2 && msgType == 2:
			f.Bytes(&a)
		case n == 2 && msgType == 4:
			f.Uint64(&seq)
		case n == 2:
			f.Text(&a)
		case n == 3 && (msgType == 1 || msgType == 4):
			f.Bytes(&b)
		case n == 3 && msgType == 3:
			f.Bool(&flag)
		case n == 4 && (msgType == 1 || msgType == 3):
			f.Text(&c)
		case n == 4 && msgType == 4:
			f.Bool(&flag)
		}
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	switch msgType {
	case 1:
		return &rpcpb.Payload{Body: &rpcpb.Payload_Req{Req: &rpcpb.RpcReq{RpcId: id, Method: string(a), Params: b, IdempotencyKey: string(c)}}}, nil
	case 2:
		return &rpcpb.Payload{Body: &rpcpb.Payload_Resp{Resp: &rpcpb.RpcResp{RpcId: id, Result: a}}}, nil
	case 3:
		return &rpcpb.Payload{Body: &rpcpb.Payload_Err{Err: &rpcpb.RpcErr{RpcId: id, ErrorCode: string(a), Retryable: flag, ErrorMessage: string(c)}}}, nil
	case 4:
		return &rpcpb.Payload{Body: &rpcpb.Payload_StreamItem{StreamItem: &rpcpb.RpcStreamItem{RpcId: id, SeqNo: seq, Item: b, IsTerminal: flag}}}, nil
	}
	return &rpcpb.Payload{Body: &rpcpb.Payload_Cancel{Cancel: &rpcpb.RpcCancel{RpcId: id, Reason: string(a)}}}, nil
}

// member returns the number of the oneof member that is set, 0 for none.
func member(p *rpcpb.Payload) uint64 {
	m := p.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("body"))
	if field == nil {
		return 0
	}
	return uint64(field.Number())
}

// agree holds this package against the generated code on any octets.
func agree(t *testing.T, payload []byte) {
	t.Helper()
	var want rpcpb.Payload
	theirs := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(payload, &want)
	for msgType := uint64(1); msgType <= 5; msgType++ {
		got, ours := readRPC(payload, msgType)
		if ours == nil {
			// What is accepted means the same to both.
			if theirs != nil && !supersedes(payload) {
				t.Fatalf("type %d: accepted %x, the generated code says %v", msgType, payload, theirs)
			}
			if theirs == nil {
				if diff := cmp.Diff(&want, got, protocmp.Transform()); diff != "" {
					t.Fatalf("type %d: %x: generated code (-), p1 (+):\n%s", msgType, payload, diff)
				}
			}
			continue
		}
		// What is refused is refused by both, or for one of the stricter rules.
		switch detail(t, ours) {
		case p1.DetailWireType, p1.DetailGroup, p1.DetailCount:
		case p1.DetailBody:
			if theirs == nil && member(&want) == msgType {
				t.Fatalf("type %d: refused %x with %v, the generated code reads it", msgType, payload, ours)
			}
		default:
			if theirs == nil {
				t.Fatalf("type %d: refused %x with %v, the generated code reads it", msgType, payload, ours)
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

func TestReadingAgreesWithTheGeneratedCode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4_000 {
		agree(t, random(r, 2))
	}
}

func FuzzReadingAgreesWithTheGeneratedCode(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(random(r, 2))
	}
	f.Add([]byte("\x0a\x01\x08\x0a\x01\x01"))
	f.Add([]byte("\x0a\x00" + groups(17)))
	f.Fuzz(agree)
}
