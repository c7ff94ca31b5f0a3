package mcptransport

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxQueued is how many messages wait for the SDK to read them.
const maxQueued = 1024

// queue is the reading half of an mcp.Connection.
type queue struct {
	messages chan jsonrpc.Message
	closed   chan struct{}
	once     sync.Once
}

func newQueue() *queue {
	return &queue{messages: make(chan jsonrpc.Message, maxQueued), closed: make(chan struct{})}
}

// Read returns the next message. After close it returns the remaining messages, then
// io.EOF.
func (q *queue) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-q.messages:
		return m, nil
	default:
	}
	select {
	case m := <-q.messages:
		return m, nil
	case <-q.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// push waits for room. After close the message is dropped.
func (q *queue) push(m jsonrpc.Message) {
	select {
	case q.messages <- m:
	case <-q.closed:
	}
}

// offer is push without waiting. It returns false if there is no room.
func (q *queue) offer(m jsonrpc.Message) bool {
	select {
	case <-q.closed:
		return false
	default:
	}
	select {
	case q.messages <- m:
		return true
	default:
		return false
	}
}

func (q *queue) close() { q.once.Do(func() { close(q.closed) }) }
