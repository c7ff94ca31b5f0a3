package rpc_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// The calls of ST-09: what is asked, and how it ended. An end is the words of a
// terminal answer, "unavailable" if the caller was told to try again, or
// "unknown" if it never heard of it.
type asked struct{ key, params string }

// kept is what a key stands for.
type kept struct {
	params string // empty: the key is free
	end    string // empty: a run was begun, and how it ended nobody was told
}

// keyModel is what calls under one key look like to their callers.
var keyModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range history {
			key := op.Input.(asked).key
			byKey[key] = append(byKey[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{kept{}} },
	Step: func(s, in, out any) []any {
		state, params, end := s.(kept), in.(asked).params, out.(string)
		conflict := "err invalid_request"
		switch {
		case end == "unavailable" || end == "unknown":
			if state.params == "" { // it may have begun
				return []any{state, kept{params: params}}
			}
			return []any{state}
		case state.params != "" && state.params != params:
			if end == conflict {
				return []any{state}
			}
			return nil
		case end == conflict:
			return nil
		case state.end == "" || state.end == end:
			return []any{kept{params, end}}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a.(kept) == b.(kept) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%v → %v", in, out)
	},
}

// flaky is a store that fails at random, before or after it has committed, and
// not at all once the process that has it is gone.
type flaky struct {
	rpc.Outcomes
	gone atomic.Bool
}

func (f *flaky) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	switch n := rand.IntN(20); {
	case f.gone.Load():
	case n == 0:
		go done(store.PutResult{Err: store.ErrUnavailable})
	default:
		f.Outcomes.Put(space, key, was, owner, value, expires, func(r store.PutResult) {
			switch {
			case f.gone.Load():
			case n == 1:
				done(store.PutResult{Err: store.ErrUnavailable})
			default:
				done(r)
			}
		})
	}
}

// process is a service on a store, until it is killed.
type process struct {
	t       *testing.T
	db      *sqlstore.Store
	f       *flaky
	profile *profiles.Profile

	mu    sync.Mutex
	peers map[int]*peer // by client; nil once killed
}

func startProcess(t *testing.T, dir string, methods map[string]rpc.Method) *process {
	db := openStore(t, dir, nil)
	p := &process{t: t, db: db, f: &flaky{Outcomes: db}, peers: make(map[int]*peer)}
	p.profile = newProfile(t, rpc.Options{Methods: methods, Outcomes: p.f})
	return p
}

// serve returns the connection of a client, or nil.
func (p *process) serve(client int) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peers != nil && p.peers[client] == nil {
		p.peers[client] = dial(p.t, "spiffe://test/a", p.profile)
	}
	return p.peers[client]
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.f.gone.Store(true)
	for _, c := range p.peers {
		c.Close()
	}
	p.peers = nil
	_ = p.db.Close()
}

// request makes one call and says how it ended for the caller.
func (p *peer) request(id string, in asked, method string) string {
	payload := rpc.Req{RPCID: []byte(id), Method: []byte(method), Params: []byte(in.params), IdempotencyKey: []byte(in.key)}
	call, err := p.Call(context.Background(), e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: payload.Append(nil)})
	if err != nil {
		return "unknown"
	}
	defer call.Close()
	env, err := call.Recv(context.Background())
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(spell(p.t, []e1.Envelope{*env})[0])
	if len(words) == 4 && words[3] == "retryable" {
		return words[2]
	}
	return strings.Join(append(words[:1], words[2:]...), " ")
}

// Concurrent calls under a few keys, while the store fails at random and the
// process is killed again and again: for its callers each key looks as if its
// calls had been made one after the other, and no method that must not runs
// twice.
func TestST09HistoriesOfKeysAreLinearizable(t *testing.T) {
	const clients, keys, kills = 4, 12, 8
	each := effort.Rounds(50)
	for _, repeatable := range []bool{false, true} {
		t.Run(fmt.Sprintf("repeatable %v", repeatable), func(t *testing.T) {
			dir := t.TempDir()
			var runs atomic.Int64
			effects := new(tally)
			var doubled sync.Map
			methods := map[string]rpc.Method{"test.effect": {
				Repeatable: repeatable,
				Detached: func(ctx context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
					n := runs.Add(1)
					if key := string(params); effects.add(key) > 1 {
						doubled.Store(key, n)
					}
					select {
					case <-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond):
						return fmt.Appendf(nil, "#%d", n), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				},
			}}
			var now atomic.Pointer[process]
			now.Store(startProcess(t, dir, methods))
			var mu sync.Mutex
			var history []porcupine.Operation
			var work sync.WaitGroup
			var made atomic.Int64
			began := time.Now()
			for client := range clients {
				work.Go(func() {
					for i := range each * kills {
						// Keys come into use one after the other, so that there is always a
						// fresh one for a kill to hit.
						in := asked{key: fmt.Sprint("key", (i/each+rand.IntN(keys))%(keys+kills))}
						in.params = in.key + []string{"p", "p", "p", "q"}[rand.IntN(4)]
						op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(began))}
						p := now.Load().serve(client)
						for ; p == nil; p = now.Load().serve(client) {
							runtime.Gosched() // killed: the next one starts
						}
						out := p.request(fmt.Sprintf("%d-%d", client, i), in, "test.effect")
						op.Output, op.Return = out, int64(time.Since(began))
						if out == "unknown" {
							op.Return = 1<<63 - 1 // if it ever takes effect, then at any time
						}
						mu.Lock()
						history = append(history, op)
						mu.Unlock()
						made.Add(1)
					}
				})
			}
			done := make(chan struct{})
			go func() { work.Wait(); close(done) }()
			for kill := range kills {
				for made.Load() < int64((kill+1)*clients*each*9/10) {
					runtime.Gosched()
				}
				now.Load().kill()
				now.Store(startProcess(t, dir, methods))
			}
			<-done
			// The model is nondeterministic, and its histories short.
			if result := porcupine.CheckOperationsTimeout(keyModel.ToModel(), history, time.Minute); result != porcupine.Ok {
				t.Errorf("the history of %d calls is %v", len(history), result)
			}
			if !repeatable {
				doubled.Range(func(key, _ any) bool {
					t.Errorf("the effect of %v happened %d times", key, effects.of(key.(string)))
					return true
				})
			}
			count := make(map[string]int)
			for _, op := range history {
				word := op.Output.(string)
				if strings.HasPrefix(word, "resp") {
					word = "resp"
				}
				count[word]++
			}
			t.Logf("%d calls, %d runs: %v", len(history), runs.Load(), count)
		})
	}
}

func TestTheModelRefusesWhatMustNotBe(t *testing.T) {
	at := func(call int64, params, end string) porcupine.Operation {
		return porcupine.Operation{Input: asked{"key", params}, Output: end, Call: call, Return: call + 1}
	}
	for name, test := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"a replay":                  {[]porcupine.Operation{at(0, "p", "resp #1"), at(2, "p", "resp #1"), at(4, "q", "err invalid_request")}, porcupine.Ok},
		"run twice":                 {[]porcupine.Operation{at(0, "p", "resp #1"), at(2, "p", "resp #2")}, porcupine.Illegal},
		"forgotten":                 {[]porcupine.Operation{at(0, "p", "resp #1"), at(2, "q", "resp #2")}, porcupine.Illegal},
		"a conflict with nothing":   {[]porcupine.Operation{at(0, "q", "err invalid_request"), at(2, "p", "resp #1")}, porcupine.Illegal},
		"a conflict not told":       {[]porcupine.Operation{at(0, "p", "resp #1"), at(2, "q", "resp #1")}, porcupine.Illegal},
		"an outcome that changes":   {[]porcupine.Operation{at(0, "p", "unknown"), at(2, "p", "err internal"), at(4, "p", "resp #1")}, porcupine.Illegal},
		"a call cut off":            {[]porcupine.Operation{at(0, "p", "unknown"), at(2, "p", "err internal"), at(4, "p", "err internal")}, porcupine.Ok},
		"a call that never arrived": {[]porcupine.Operation{at(0, "p", "unknown"), at(2, "q", "resp #1")}, porcupine.Ok},
	} {
		if got := porcupine.CheckOperationsTimeout(keyModel.ToModel(), test.history, time.Minute); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
