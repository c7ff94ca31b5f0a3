package rpc

import (
	"context"
	"sync"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/room"
	"github.com/slimwire/swp/profiles"
)

// Extension types of this profile.
const (
	ExtWindow = 16 // uvarint: on a REQ, the weight of the items that the caller keeps; on an item, the number to confirm
	ExtTaken  = 17 // uvarint, on a CANCEL: the number of an ExtWindow that is confirmed. The call goes on
)

// callWindow is the window of a Stream. An item weighs its octets and perItem, so that an endpoint,
// which keeps 1,024 answers of a call and the first 4,096 octets of each without a charge, has room.
const (
	callWindow = 2 << 20
	perItem    = 4096
)

// flow is the way of the items of one call to its caller. It is safe for concurrent use.
type flow struct {
	mu     sync.Mutex
	window profiles.Window
	room   room.Gate // opened when the caller confirms items, and at the end
	over   bool
	seq    uint64 // of the last item
}

// wait waits until the caller has room for another item, or the call has ended.
func (f *flow) wait(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.over && f.window.Full() {
		if err := f.room.Wait(ctx, &f.mu); err != nil {
			return err
		}
	}
	return nil
}

// confirm notes that the caller has taken the items up to a weight.
func (f *flow) confirm(sent uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.window.Confirm(sent) {
		f.room.Open()
	}
}

// end lets nobody wait for the caller any more.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.room.Open()
}

// send sends an item.
func (f *flow) send(w profiles.Responder, rpcID, item []byte, keeps profiles.EndToEnd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	m := StreamItem{RPCID: rpcID, SeqNo: f.seq, Item: item}
	env := e1.Envelope{MsgType: TypeStreamItem, Payload: m.Append(make([]byte, 0, m.Size()))}
	sent, mark := f.window.After(len(item) + perItem)
	if mark {
		env.Extensions = e1.AppendExtensionUvarint(nil, ExtWindow, sent)
	}
	keeps.Put(&env)
	if err := w.Send(env); err != nil {
		return err
	}
	f.window.Sent(sent, mark)
	return nil
}
