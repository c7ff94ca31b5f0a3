//go:build abuse

package abuse

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport"
)

// large is the size of a large message.
const large = 7 << 20

// unique returns an id that was not used before.
func unique() []byte { return []byte(rand.Text()) }

func task(size int) []byte {
	m := a2a.TaskBody{TaskID: unique(), Kind: []byte("work"), Input: make([]byte, size)}
	return message(a2a.ProfileID, a2a.TypeTask, m.Append(nil))
}

func publication(topic string, size int) []byte {
	m := relay.Publish{DeliveryID: unique(), Topic: []byte(topic), Payload: make([]byte, size), TTL: 20_000}
	return message(relay.ProfileID, relay.TypePublish, m.Append(nil))
}

func event(size int) []byte {
	m := events.Publish{Event: events.Record{
		EventID: unique(), EventType: []byte("abuse"), Severity: []byte("info"), Timestamp: uint64(time.Now().UnixMilli()), Body: make([]byte, size),
	}}
	return message(events.ProfileID, events.TypePublish, m.Append(nil))
}

func putState(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.Read(content[:16])
	id := sha256.Sum256(content)
	m := state.Put{StateID: id[:], Blob: content}
	return message(state.ProfileID, state.TypePut, m.Append(nil))
}

func call(method string, params []byte) []byte {
	m := rpc.Req{RPCID: unique(), Method: []byte(method), Params: params}
	return message(rpc.ProfileID, rpc.TypeReq, m.Append(nil))
}

// nested is an envelope of A2A-SDL of many small values.
var nested = func() []byte {
	row := "[" + strings.TrimSuffix(strings.Repeat("[],", 9_999), ",") + "]"
	return []byte(`{"sdl":[` + strings.TrimSuffix(strings.Repeat(row+",", 34), ",") + `]}`)
}()

// unread sends requests on a connection of a peer that reads no answer for a while.
func (s *stage) unread(ctx context.Context, who, over string, stay time.Duration, requests ...[]byte) {
	s.within(ctx, who, over, func(conn transport.Conn) {
		for _, r := range requests {
			if send(ctx, conn, r) == nil {
				return
			}
		}
		rest(ctx, conn, stay)
	})
}

// zeros is the content of slow frames.
var zeros = make([]byte, 8<<20)

// trickle sends the front of a frame of a size, and then the rest but for its end, slowly.
func (s *stage) trickle(ctx context.Context, who, over string, size, front int) {
	s.within(ctx, who, over, func(conn transport.Conn) {
		stream := send(ctx, conn, append(frame.AppendHeader(nil, size), zeros[:front]...))
		const step = 20_000
		for at := front; stream != nil && at+step < size && ctx.Err() == nil && conn.Context().Err() == nil; at += step {
			_ = stream.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := stream.Write(zeros[:step]); err != nil {
				return
			}
			rest(ctx, conn, 100*time.Millisecond)
		}
	})
}

// strangers have no credentials.
func (s *stage) strangers(ctx context.Context) {
	front := strings.TrimPrefix(s.http, "http://")
	garbage := strings.Repeat("\x16\x03\x01\x02\x00", 100)
	hello := []string{"GET /mcp HTTP/1.1\r\nHost: localhost\r\n"}
	for range 15 {
		hello = append(hello, "X-A: "+strings.Repeat("a", 4000)+"\r\n")
	}
	// Heads of 60 KiB that do not end, 100/s and each for 4 s.
	s.cast(ctx, 400, 0, func(ctx context.Context, _ int) { visit(ctx, front, 4*time.Second, hello...) })
	s.cast(ctx, 20, time.Second, func(ctx context.Context, _ int) {
		visit(ctx, front, time.Second, head("/mcp/quiet", "unknown", large, ""))
	})
	s.cast(ctx, 64, time.Second, func(ctx context.Context, _ int) { visit(ctx, s.tls, 10*time.Second, "\x16\x03\x01") })
	s.cast(ctx, 20, 200*time.Millisecond, func(ctx context.Context, _ int) { visit(ctx, s.tls, 0, garbage) })
	s.cast(ctx, 80, time.Second, func(ctx context.Context, _ int) { visit(ctx, s.admin, 5*time.Second, "GET /livez HTTP/1.1\r\n") })
}

// unprivileged is an identity that is let in, and that no rule allows anything.
func (s *stage) unprivileged(ctx context.Context, over string) {
	s.cast(ctx, 4, 500*time.Millisecond, func(ctx context.Context, _ int) {
		s.unread(ctx, nobody, over, time.Second, task(large), event(1<<20), publication("abuse", 1<<20), putState(1<<20), call("swp.echo", make([]byte, 1<<20)))
	})
	s.cast(ctx, 8, 100*time.Millisecond, func(ctx context.Context, _ int) { s.trickle(ctx, nobody, over, large, large/2) })
	var small []byte
	for range 16 {
		small = append(append(small, task(100)...), event(100)...)
	}
	s.cast(ctx, 2, 500*time.Millisecond, func(ctx context.Context, _ int) { s.unread(ctx, nobody, over, time.Second, small) })
}

// overHTTP are callers over HTTP: one without rules, and one that may everything.
func (s *stage) overHTTP(ctx context.Context) {
	front := strings.TrimPrefix(s.http, "http://")
	one := strings.Repeat("x", 1<<20)
	for _, token := range []string{"nobody", "loud"} {
		for _, path := range []string{"/mcp/quiet", "/a2a/x"} {
			s.cast(ctx, 16, time.Second, func(ctx context.Context, _ int) {
				visit(ctx, front, 8*time.Second, head(path, token, 6<<20, ""), one, one, one, one, one) // a MiB short
			})
		}
		more, body := callTool("4000000", 0)
		s.cast(ctx, 4, 500*time.Millisecond, func(ctx context.Context, _ int) {
			visit(ctx, front, 4*time.Second, head("/mcp/loud", token, len(body), more)+body) // and reads no answer
		})
	}
	const open = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	s.cast(ctx, 4, 2*time.Second, func(ctx context.Context, _ int) {
		visit(ctx, front, time.Second, head("/mcp/loud", "loud", len(open), "")+open)
	})
}

// deafAndLoud are calls of an MCP server that reads nothing, and of one that writes much.
func (s *stage) deafAndLoud(ctx context.Context) {
	front := strings.TrimPrefix(s.http, "http://")
	more, body := callTool("x", 1<<20)
	s.cast(ctx, 24, time.Second, func(ctx context.Context, _ int) {
		visit(ctx, front, 20*time.Second, head("/mcp/deaf", "loud", len(body), more)+body)
	})
	more, answered := callTool("7000000", 0)
	s.cast(ctx, 8, time.Second, func(ctx context.Context, _ int) {
		visit(ctx, front, 2*time.Second, head("/mcp/loud", "loud", len(answered), more)+answered)
	})
}

// partner sends large deliveries, and asks and does not read, also for callers of its own.
func (s *stage) partner(ctx context.Context, over string) {
	s.cast(ctx, 2, time.Second, func(ctx context.Context, _ int) {
		s.unread(ctx, acme, over, 2*time.Second, publication("abuse", large), call("swp.echo", make([]byte, 4<<20)), event(1<<20), event(1<<20))
	})
	s.cast(ctx, 4, time.Second, func(ctx context.Context, _ int) {
		s.within(ctx, acme, over, func(conn transport.Conn) {
			for range 8 {
				octets := e1.AppendBytes(nil, make([]byte, 1<<20))
				if send(ctx, conn, call("swp.echo", octets)) == nil {
					return
				}
			}
			rest(ctx, conn, 2*time.Second)
		})
	})
}

// privileged is an identity that may everything, and takes as much as it gets.
func (s *stage) privileged(ctx context.Context, over string) {
	s.cast(ctx, 32, time.Second, func(ctx context.Context, _ int) { s.trickle(ctx, loud, over, 7_900_000, 4096) })
	s.cast(ctx, 8, time.Second, func(ctx context.Context, _ int) {
		s.unread(ctx, loud, over, 5*time.Second, call("swp.echo", make([]byte, large)), call("swp.echo", make([]byte, large)))
	})
	s.cast(ctx, 2, 2*time.Second, func(ctx context.Context, _ int) {
		s.unread(ctx, loud, over, time.Second, task(large), task(1<<20), putState(1<<20))
	})
	s.cast(ctx, 2, time.Second, func(ctx context.Context, _ int) { // deferred until they are stored
		s.unread(ctx, loud, over, time.Second, event(1<<20), event(1<<20), event(1<<20), publication("abuse", large), publication("acme/abuse", 1<<20))
	})
	s.cast(ctx, 8, 500*time.Millisecond, func(ctx context.Context, _ int) { // many at once
		var list [][]byte
		for range 8 {
			list = append(list, message(sdl.ProfileID, sdl.TypeReq, nested))
		}
		s.unread(ctx, loud, over, time.Second, list...)
	})
	s.cast(ctx, 2, time.Second, func(ctx context.Context, _ int) { s.upload(ctx, over) })
	s.cast(ctx, 4, time.Second, func(ctx context.Context, _ int) { // read nothing of what they get
		get := artifact.Get{ArtifactID: []byte("abuse"), End: 64 << 20}
		sub := events.Subscribe{}
		attach, _ := json.Marshal(map[string]any{"topic": "abuse"})
		s.unread(ctx, loud, over, 10*time.Second,
			message(artifact.ProfileID, artifact.TypeGet, get.Append(nil)), message(events.ProfileID, events.TypeSubscribe, sub.Append(nil)), call(relay.MethodAttach, attach))
	})
	if over == "quic" { // streams full of partial frames
		front := append(frame.AppendHeader(nil, large), zeros[:512<<10]...)
		s.cast(ctx, 8, time.Second, func(ctx context.Context, _ int) {
			s.within(ctx, loud, over, func(conn transport.Conn) {
				for range 32 {
					stream, err := conn.Open(ctx)
					if err != nil {
						return
					}
					_ = stream.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
					_, _ = stream.Write(front)
				}
				rest(ctx, conn, 4*time.Second)
			})
		})
	}
}

// upload offers an artifact of 64 MiB, and sends its chunks at once.
func (s *stage) upload(ctx context.Context, over string) {
	const size, chunk = 64 << 20, 1 << 20
	s.within(ctx, loud, over, func(conn transport.Conn) {
		id := []byte("abuse" + fmt.Sprint(time.Now().UnixNano()))
		sum := sha256.Sum256(id)
		offer := artifact.Offer{ArtifactID: id, TotalSize: size, HashAlg: []byte("sha256"), Hash: sum[:]}
		stream := send(ctx, conn, message(artifact.ProfileID, artifact.TypeOffer, offer.Append(nil)))
		for i := range uint64(size / chunk) {
			if stream == nil || conn.Context().Err() != nil || ctx.Err() != nil {
				return
			}
			m := artifact.Chunk{ArtifactID: id, ChunkIndex: i, Offset: i * chunk, Data: make([]byte, chunk)}
			_ = stream.SetWriteDeadline(time.Now().Add(5 * time.Second))
			if _, err := stream.Write(message(artifact.ProfileID, artifact.TypeChunk, m.Append(nil))); err != nil {
				return
			}
			rest(ctx, conn, 50*time.Millisecond)
		}
	})
}
