package mcpmap_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
)

// narrow connects a caller that keeps few notifications.
func narrow(t *testing.T, served *mcpmap.Mapping) (*link, *mcpmap.Mapping) {
	t.Helper()
	calling := mcpmap.New(mcpmap.Options{MaxDue: 64 << 10})
	near, far := profiletest.Pair("bob", registry(t, calling), "server", registry(t, served), profiletest.SessionOptions{})
	return &link{t: t, served: served, near: near, far: far, client: calling.Client(near)}, calling
}

func (l *link) end() {
	synctest.Wait()
	l.near.Close()
	l.near.Wait()
	l.far.Wait()
}

// count returns a notification with a number.
func count(i int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}`, i)
}

// A server that can wait loses nothing, however slowly its caller takes the notifications of a
// call: they weigh forty times the window here.
func TestNotificationsOfACallWaitForTheCaller(t *testing.T) {
	const notes = 4000
	play(t, func(t *testing.T, l *link) {
		slow, calling := narrow(t, l.served)
		defer slow.end()
		var got []string
		done := slow.do(&mcpmap.Call{Target: "one", Octets: modern("1", "tools/call"), Events: mcpmap.Events{
			Notification: func(octets []byte) { time.Sleep(time.Millisecond); got = append(got, string(octets)) },
		}})
		x := <-l.server.modern
		for i := range notes {
			if err := x.Pace(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !x.Notify(count(i)) {
				t.Fatalf("notification %d was lost", i)
			}
		}
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		if o := <-done; o.err != nil {
			t.Fatal(o.err)
		}
		want(t, "notifications", len(got), notes)
		for i, octets := range got {
			if octets != string(count(i)) {
				t.Fatalf("notification %d is %s", i, octets)
			}
		}
		want(t, "dropped", l.served.Stats().Dropped+calling.Stats().Dropped, 0)
	})
}

// A call at a server that does not wait ends with an error, since some are lost; the server
// hears of it, and other calls go on.
func TestACallThatLosesNotificationsEndsInAnError(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		slow, calling := narrow(t, l.served)
		defer slow.end()
		blocked := make(chan struct{})
		done := slow.do(&mcpmap.Call{Target: "one", Octets: modern("1", "tools/call"), Events: mcpmap.Events{
			Notification: func([]byte) { <-blocked },
		}})
		other := slow.do(&mcpmap.Call{Target: "one", Octets: modern("2", "tools/call")})
		x, y := <-l.server.modern, <-l.server.modern
		if x.Key() != mcpmap.TokenKey([]byte("1")) {
			x, y = y, x
		}
		cancelled := make(chan struct{})
		x.OnCancel(func([]byte) { close(cancelled) })
		for i := range 400 {
			x.Notify(count(i))
		}
		o := <-done
		fault, _ := errors.AsType[*profiles.Error](o.err)
		if fault == nil || fault.Code != profiles.RateLimitExceeded || fault.Detail != "mcp_overrun" {
			t.Errorf("the call ended with %v, want mcp_overrun", o.err)
		}
		<-cancelled
		close(blocked)
		y.Finish([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`))
		if o := <-other; o.err != nil {
			t.Errorf("the other call: %v", o.err)
		}
		if s := calling.Stats(); s.Overrun == 0 || s.Dropped == 0 {
			t.Errorf("counted %+v, want what was lost", s)
		}
	})
}

// The window is the caller's: one octet above it waits, and ends with the exchange.
func TestAServerStopsAtTheWindowOfACallerThatTakesNothing(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		slow, _ := narrow(t, l.served)
		defer slow.end()
		blocked := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := slow.doContext(ctx, &mcpmap.Call{Target: "one", Octets: modern("1", "tools/call"), Events: mcpmap.Events{
			Notification: func([]byte) { <-blocked },
		}})
		x := <-l.server.modern
		sent := make(chan int, 1)
		go func() {
			n := 0
			for x.Pace(t.Context()) == nil {
				x.Notify(count(100))
				n++
			}
			sent <- n
		}()
		synctest.Wait()
		cancel()
		window, weight := 32<<10, len(count(100))+256
		want(t, "notifications", <-sent, (window+weight-1)/weight)
		close(blocked)
		if o := <-done; !errors.Is(o.err, context.Canceled) {
			t.Error(o.err)
		}
	})
}

// Messages of a session that belong to no call wait for a client that is connected.
func TestMessagesOfASessionWaitForTheClient(t *testing.T) {
	const notes = 2000 // MaxPending is 256
	play(t, func(t *testing.T, l *link) {
		var got []string
		done := l.do(&mcpmap.Call{Target: "one", Octets: legacy("1", "initialize"), Events: mcpmap.Events{
			Notification: func(octets []byte) { got = append(got, string(octets)) },
		}})
		c := <-l.server.opened
		(<-c.requests).Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		if o := <-done; o.err != nil {
			t.Fatal(o.err)
		}
		for i := range notes {
			if err := c.client.Pace(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !c.client.Notify(count(i)) {
				t.Fatalf("notification %d was lost", i)
			}
		}
		synctest.Wait()
		want(t, "notifications", len(got), notes)
		l.near.Close() // without a client nobody waits
		synctest.Wait()
		kept := 0
		for i := range notes {
			if err := c.client.Pace(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.client.Notify(count(i)) {
				kept++
			}
		}
		want(t, "kept for a client that may come back", kept, 256)
		want(t, "dropped", l.served.Stats().Dropped, notes-256)
	})
}

// A peer that confirms more than was sent, or notifications of no call of its own, gains nothing.
func TestAConfirmationOfMoreThanWasSentOpensNoWindow(t *testing.T) {
	begun := make(chan *mcpmap.Exchange, 1)
	l := lineTo(t, talkative{func(x *mcpmap.Exchange) { begun <- x }})
	send := func(typ uint64, id, payload string, ext e1.Extensions) {
		env := e1.Envelope{Version: 1, ProfileID: mcpmap.ProfileID, MsgType: typ, MsgID: []byte(id), Payload: []byte(payload), Extensions: ext}
		if _, err := l.stream.Write(frame.Append(nil, env.Append(nil))); err != nil {
			t.Fatal(err)
		}
	}
	weight := uint64(len(count(0)) + 256)
	send(1, "the-request", string(modern("1", "tools/call")), e1.AppendExtensionUvarint(nil, mcpmap.ExtWindow, 2*weight))
	x := <-begun
	taken := func(id string, call string, n uint64) {
		ext := e1.AppendExtension(nil, mcpmap.ExtRelated, []byte(call))
		send(3, id, `{"jsonrpc":"2.0","method":"swp.mcp.taken"}`, e1.AppendExtensionUvarint(ext, mcpmap.ExtTaken, n))
	}
	x.Notify(count(0))
	x.Notify(count(1))
	taken("confirms-1", "another-one", 2*weight)
	taken("confirms-2", "the-request", 1<<60)
	if err := x.Pace(t.Context()); err != nil { // it was two, and has room for two more
		t.Fatal(err)
	}
	x.Notify(count(2))
	x.Notify(count(3))
	full, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Pace(full); err == nil {
		t.Error("a confirmation of more than was sent is a larger window")
	}
	x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	if n, _ := l.answer(); n != 4 {
		t.Errorf("%d notifications, want 4", n)
	}
}

// A server that can wait loses none of the messages of a session that belong to no call either.
func TestMessagesOfASessionWaitUntilTheirClientTakesThem(t *testing.T) {
	const notes = 4000
	play(t, func(t *testing.T, l *link) {
		slow, calling := narrow(t, l.served)
		slow.server = l.server
		defer slow.end()
		got := 0
		all := make(chan struct{})
		_, conv := slow.initialize(mcpmap.Events{Notification: func(octets []byte) {
			time.Sleep(time.Millisecond)
			want(t, "message", string(octets), string(count(got)))
			if got++; got == notes {
				close(all)
			}
		}})
		for i := range notes {
			if err := conv.client.Pace(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !conv.client.Notify(count(i)) {
				t.Fatalf("message %d was lost", i)
			}
		}
		<-all
		want(t, "dropped", l.served.Stats().Dropped+calling.Stats().Dropped, 0)
	})
}

// A client that takes nothing gets no more than its window, 32 KiB here; what it misses counts when the
// queue behind that is full.
func TestMessagesOfASessionEndAtTheWindowOfAClientThatTakesNothing(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		slow, calling := narrow(t, l.served)
		slow.server = l.server
		defer slow.end()
		taken := make(chan struct{})
		got := 0
		_, conv := slow.initialize(mcpmap.Events{Notification: func([]byte) { <-taken; got++ }})
		kept := 0
		for i := range 4000 {
			if conv.client.Notify(count(i)) {
				kept++
			}
			synctest.Wait()
		}
		weight := 256 + len(count(1000))
		window, pending := 32<<10/weight+1, 256 // mcpmap.Options.MaxPending
		if most := window + pending; kept > most+1 || kept < most-2 {
			t.Errorf("%d messages were kept, want %d for the client and %d in the queue", kept, window, pending)
		}
		want(t, "dropped", l.served.Stats().Dropped, uint64(4000-kept))
		close(taken)
		synctest.Wait()
		want(t, "taken", got, kept)
		want(t, "dropped by the client", calling.Stats().Dropped, 0)
	})
}

// The messages that a client does not want do not hold up those behind them, nor its server.
func TestMessagesOfASessionThatNobodyHearsHoldNobodyUp(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		slow, calling := narrow(t, l.served)
		slow.server = l.server
		defer slow.end()
		_, conv := slow.initialize(mcpmap.Events{})
		for i := range 4000 {
			if err := conv.client.Pace(t.Context()); err != nil {
				t.Fatal(err)
			}
			conv.client.Notify(count(i))
		}
		synctest.Wait()
		want(t, "dropped", calling.Stats().Dropped, 4000)
	})
}

// What was on its way when a connection was lost is not waited for on the next one.
func TestTheWindowOfASessionBeginsAgainOnAnotherConnection(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		slow, _ := narrow(t, l.served)
		slow.server = l.server
		blocked := make(chan struct{})
		id, conv := slow.initialize(mcpmap.Events{Notification: func([]byte) { <-blocked }})
		for i := range 200 { // above the window
			conv.client.Notify(count(i))
		}
		synctest.Wait()
		slow.near.Close()
		slow.near.Wait()
		slow.far.Wait()
		close(blocked)
		again, _ := narrow(t, l.served)
		defer again.end()
		got := 0
		if err := again.client.Resume(t.Context(), "one", id, mcpmap.Events{Notification: func([]byte) { got++ }}); err != nil {
			t.Fatal(err)
		}
		lane, err := again.far.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release, err := l.served.Listen(again.far, again.far.Peer(), lane, mcpmap.SessionParams("one", id), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		for i := range 1000 {
			if err := conv.client.Pace(t.Context()); err != nil {
				t.Fatal(err)
			}
			conv.client.Notify(count(i))
		}
		synctest.Wait()
		if got < 1000 {
			t.Errorf("%d messages came, want all 1,000", got)
		}
	})
}
