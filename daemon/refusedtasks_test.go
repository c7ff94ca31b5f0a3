package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

func taskOf(id, kind string) e1.Envelope {
	return e1.Envelope{ProfileID: a2a.ProfileID, MsgType: a2a.TypeTask, MsgID: profiles.NewMsgID(), Payload: encode(&a2a.TaskBody{TaskID: []byte(id), Kind: []byte(kind)})}
}

// A Task that is refused is answered by a Result where the profile allows it.
func TestARefusedTaskIsAnsweredUnlessItsIDIsInUse(t *testing.T) {
	t.Parallel()
	r := start(t, workerYAML("sleep 60", ""))
	long := strings.Repeat("x", a2a.MaxText)
	for i, address := range r.addrs[:2] {
		stream := r.raw(address)
		w := &wire{t, stream, frame.NewReader(stream, frame.Options{})}
		// Every Task but the last is answered; one that is not would leave its answer to the next.
		agent := taskOf("long agent", "k")
		agent.Extensions = e1.AppendExtension(nil, a2a.ExtAgent, []byte(long+"x"))
		for _, task := range []e1.Envelope{taskOf(long, long+"x"), agent} {
			w.send(task)
			answer := w.recv(a2a.ProfileID, a2a.TypeResult)
			var result a2a.ResultBody
			if err := result.Decode(answer.Payload); err != nil || result.OK || !strings.HasPrefix(string(result.ErrorMessage), a2a.ReasonMalformed+": ") || string(answer.MsgID) != string(task.MsgID) {
				t.Errorf("answer %+v, %v", result, err)
			}
			if n := answer.Size() + frame.HeaderSize; n > 512 {
				t.Errorf("an answer of %d octets", n)
			}
		}
		id := "in use" + string(rune('0'+i))
		w.send(taskOf(id, "k"))
		w.recv(a2a.ProfileID, a2a.TypeEvent) // accepted
		if i == 1 {
			stream = r.raw(address) // the refusal resets its stream
			w = &wire{t, stream, frame.NewReader(stream, frame.Options{})}
		}
		w.send(taskOf(id, long+"x"))
		if i == 1 {
			w.wantCode(profiles.InvalidProfilePayload)
			continue
		}
		ping := e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: encode(&rpc.Req{RPCID: []byte("ping"), Method: []byte(rpc.MethodPing)})}
		w.send(ping)
		if answer := w.next(); answer.ProfileID != rpc.ProfileID {
			t.Errorf("a Task with an id in use is answered by msg_type %d of profile %d", answer.MsgType, answer.ProfileID)
		}
	}
}

// Another Task under a used task_id is refused without a Result: by the error path, by the
// code of its stream, or in silence. The first one goes on.
func TestAConflictingTaskIsRefusedAsFarAsTheTransportCan(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"false", "true"} {
		r := start(t, "listeners: [{address: 'swp+tls://127.0.0.1:0', error_frames: "+path+"}, {address: 'swp+quic://127.0.0.1:0', error_frames: "+path+"}]\n"+workerYAML("sleep 60", ""))
		for _, address := range r.addrs {
			quic := strings.HasPrefix(address, "swp+quic:")
			stream := r.raw(address)
			first := &wire{t, stream, frame.NewReader(stream, frame.Options{})}
			id := address
			first.send(taskOf(id, "k"))
			first.recv(a2a.ProfileID, a2a.TypeEvent)
			again := first
			if quic {
				stream = r.raw(address)
				again = &wire{t, stream, frame.NewReader(stream, frame.Options{})}
			}
			again.send(taskOf(id, "k2"))
			switch {
			case path == "true":
				if answer := again.next(); answer.ProfileID != endpoint.ErrorProfile || !strings.Contains(string(answer.Payload), profiles.InvalidProfilePayload.String()) {
					t.Errorf("%s: answered by %+v, want the error path", address, answer)
				}
			case quic:
				again.wantCode(profiles.InvalidProfilePayload)
			default:
				again.send(e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: encode(&rpc.Req{RPCID: []byte("ping"), Method: []byte(rpc.MethodPing)})})
				if answer := again.next(); answer.ProfileID != rpc.ProfileID {
					t.Errorf("%s: answered by %+v, want silence", address, answer)
				}
			}
		}
	}
}

// next returns the next message.
func (w *wire) next() e1.Envelope {
	w.t.Helper()
	env, err := w.read()
	if err != nil {
		w.t.Fatal(err)
	}
	return env
}

// wantCode wants the stream to end with a code.
func (w *wire) wantCode(code profiles.Code) {
	w.t.Helper()
	env, err := w.read()
	var closed *transport.CloseError
	if !errors.As(err, &closed) || !closed.Remote || closed.Code != uint64(code) {
		w.t.Errorf("%+v, %v, want the code %v", env, err, code)
	}
}
