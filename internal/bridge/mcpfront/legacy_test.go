package mcpfront_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/internal/effort"
)

func TestGW07OctetsArriveAsTheyWereSentLegacy(t *testing.T) {
	effort.Unwatched(t)
	l := open(t, mcpfront.Options{}).initialize("", "alice")
	for name, form := range mcptest.Requests {
		sent := fmt.Sprintf(form, `"z":0`)
		want(t, "request with "+name, unhex(t, l.do("POST", sent).all()), sent)
	}
	for name, response := range mcptest.Responses {
		octets := response.Octets
		r := l.call("1", "say", octets)
		want(t, name+": type", r.header.Get("Content-Type"), "application/json")
		want(t, "response with "+name, r.all(), octets)
	}
	note := "{\"jsonrpc\":\"2.0\",\r\n \"method\" : \"notifications/\\u0078\",\"x\":1,\"x\":1e400}"
	r := l.call("1", "progress", note)
	_, data := r.event()
	want(t, "notification", data, mcptest.OneLine(note))
	sent := `{"method":"notifications/x",  "jsonrpc":"2.0","a":1,"a":1.0}`
	want(t, "status", l.do("POST", sent).status, 202)
	want(t, "notification of the client", next(t, "it", l.server.notified), sent)
	question := `{"jsonrpc":"2.0", "id":9007199254740993 ,"method":"ping"}`
	r = l.call("1", "ask", question)
	_, data = r.event()
	want(t, "question", data, question)
	answer := `{ "result":{"a":1,"a":1.0},"id":9007199254740993,"jsonrpc":"2.0"}`
	want(t, "status", l.do("POST", answer).status, 202)
	_, data = r.event()
	want(t, "answer", data, `{"jsonrpc":"2.0","id":1,"result":"{ \"result\":{\"a\":1,\"a\":1.0},\"id\":9007199254740993,\"jsonrpc\":\"2.0\"}"}`)
}

func TestLifeOfASession(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("/two", "alice")
	want(t, "initialized", l.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`).status, 202)
	next(t, "initialized", s.server.notified)
	stream := l.do("GET", "", "Accept: text/event-stream")
	want(t, "GET", stream.status, 200)
	want(t, "type", stream.header.Get("Content-Type"), "text/event-stream")
	again := l.do("GET", "")
	want(t, "second GET", again.status, 200)
	stream.ended() // the newest wins: the first one may have lost its client without a sign
	stream = again
	want(t, "sessions", s.front.Stats().Sessions, 1)

	want(t, "call", l.call("7", "tell", `{"jsonrpc":"2.0","method":"hello"}`).all(), `{"jsonrpc":"2.0","id":7,"result":"told"}`)
	_, data := stream.event()
	want(t, "on its own account", data, `{"jsonrpc":"2.0","method":"hello"}`)

	want(t, "an answer to nothing", l.do("POST", `{"jsonrpc":"2.0","id":1,"result":{}}`).status, 400)
	want(t, "DELETE", l.do("DELETE", "").status, 204)
	stream.ended()
	next(t, "the end of the conversation", s.server.notified)
	want(t, "POST afterwards", l.call("1", "hex", "").status, 404)
	want(t, "GET afterwards", l.do("GET", "").status, 404)
	want(t, "DELETE afterwards", l.do("DELETE", "").status, 404)
}

// Programs of a caller have left their sessions open. The next one gets the place of the least recently
// used session, but of none with a GET stream.
func TestAnIdleSessionOfACallerEndsInFavourOfItsNext(t *testing.T) {
	s := open(t, mcpfront.Options{MaxSessionsPerCaller: 3})
	heard := s.initialize("", "alice")
	stream := heard.do("GET", "")
	first, second := s.initialize("", "alice"), s.initialize("", "alice")
	other := s.initialize("", "bob")
	want(t, "call", first.call("1", "hex", "").status, 200) // the second is older now
	third := s.initialize("", "alice")
	want(t, "the server hears", next(t, "the end of a session", s.server.notified), "closed")
	want(t, "the one that gave way", second.call("1", "hex", "").status, 404)
	for _, l := range []*legacy{first, third, heard, other} {
		want(t, "the others", l.call("1", "hex", "").status, 200)
	}
	want(t, "sessions", s.front.Stats().Sessions, 4)
	stream.close()
}

// One session ends for one, also if its caller is above its share; a caller within its share gets the place
// of one with more.
func TestOneIdleSessionEndsForEachSessionAboveTheBound(t *testing.T) {
	const all = 16
	s := open(t, mcpfront.Options{MaxSessions: all})
	var alice, bob []*legacy
	for range 14 { // seven eighths
		alice = append(alice, s.initialize("", "alice"))
	}
	for range 2 {
		bob = append(bob, s.initialize("", "bob"))
	}
	ended := 0
	for _, who := range []string{"alice", "bob", "alice"} {
		s.initialize("", who)
		want(t, "the least recently used session of alice", alice[ended].call("1", "hex", "").status, 404)
		ended++
		want(t, "sessions", s.front.Stats().Sessions, all)
	}
	for _, l := range append(alice[ended:], bob...) {
		want(t, "the others", l.call("1", "hex", "").status, 200)
	}
}

func TestWhatIsSaidBeforeTheStreamIsThereIsKept(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	for i := range 300 {
		l.call("1", "tell", fmt.Sprintf(`{"jsonrpc":"2.0","method":"n%d"}`, i)).all()
	}
	// What the server says goes another way than its answers.
	for st := s.front.Stats(); st.Dropped < 44; st = s.front.Stats() {
		l.call("1", "hex", "").all()
	}
	stream := l.do("GET", "")
	for i := range 256 {
		_, data := stream.event()
		want(t, "message", data, fmt.Sprintf(`{"jsonrpc":"2.0","method":"n%d"}`, i))
	}
	want(t, "dropped", s.front.Stats().Dropped, 44)
}

func TestALegacyCallGoesOnWithoutItsResponseAndIsTakenUpAgain(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	r := l.call("5", "wait", "")
	id, data := r.event()
	want(t, "first", data, `{"jsonrpc":"2.0","method":"waiting"}`)
	r.close()

	again := l.do("GET", "", "Last-Event-ID: "+id)
	want(t, "status", again.status, 200)
	s.server.finish(`"late"`)
	last, data := again.event()
	want(t, "answer", data, `{"jsonrpc":"2.0","id":5,"result":"late"}`)
	again.ended()

	again = l.do("GET", "", "Last-Event-ID: "+id)
	_, data = again.event()
	want(t, "the same once more", data, `{"jsonrpc":"2.0","id":5,"result":"late"}`)
	again.ended()
	l.do("GET", "", "Last-Event-ID: "+last).ended()
	for _, bad := range []string{"x", "99-1", id[:1] + "-99", "-", "1", "18446744073709551616-1"} {
		want(t, bad, l.do("GET", "", "Last-Event-ID: "+bad).status, 400)
	}
	want(t, "cancellations", len(s.server.cancelled), 0)
}

// A stream begins with an event without a message, so that a client that loses it before the first message
// can take it up again. The first one of a call comes before long.
func TestAStreamThatIsLostBeforeItsFirstMessageIsTakenUpAgain(t *testing.T) {
	s := open(t, mcpfront.Options{KeepAlive: time.Hour, Soon: time.Millisecond})
	l := s.initialize("", "alice")
	r := l.call("5", "silent", "")
	want(t, "type", r.header.Get("Content-Type"), "text/event-stream")
	id := r.primed()
	r.close()
	s.server.finish(`"late"`)
	again := l.do("GET", "", "Last-Event-ID: "+id)
	want(t, "the id again", again.primed(), id)
	_, data := again.event()
	want(t, "answer", data, `{"jsonrpc":"2.0","id":5,"result":"late"}`)
	again.ended()

	stream := l.do("GET", "")
	id = stream.primed()
	stream.close()
	l.call("1", "tell", `{"jsonrpc":"2.0","method":"hello"}`).all()
	stream = l.do("GET", "", "Last-Event-ID: "+id)
	_, data = stream.event()
	want(t, "message", data, `{"jsonrpc":"2.0","method":"hello"}`)
	stream.close()
}

// Clients of earlier versions may take an event without a message for a message.
func TestAStreamOfAnEarlierVersionBeginsWithAMessage(t *testing.T) {
	s := open(t, mcpfront.Options{})
	s.server.version = "2025-06-18"
	opened := s.send("POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, "Caller: alice")
	opened.all()
	l := &legacy{site: s, id: opened.header.Get("Mcp-Session-Id"), caller: "alice"}
	r := l.call("5", "wait", "")
	line, err := r.body.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	second, _ := r.body.ReadString('\n')
	want(t, "begin", line+second, "id: 2-1\nevent: message\n")
	r.close()
	s.server.finish(`"late"`)
}

func TestTheGetStreamIsTakenUpAgain(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	stream := l.do("GET", "")
	s.server.tell(`{"jsonrpc":"2.0","method":"a"}`)
	s.server.tell(`{"jsonrpc":"2.0","method":"b"}`)
	id, _ := stream.event()
	stream.event()
	// Its client has lost it and this side does not know yet: no 409.
	again := l.do("GET", "", "Last-Event-ID: "+id)
	_, data := again.event()
	want(t, "what came after", data, `{"jsonrpc":"2.0","method":"b"}`)
	stream.ended()
	s.server.tell(`{"jsonrpc":"2.0","method":"c"}`)
	_, data = again.event()
	want(t, "what came then", data, `{"jsonrpc":"2.0","method":"c"}`)
}

func TestALegacyCallIsCancelledByItsNotification(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	r := l.call("5", "wait", "")
	r.event()
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled",  "params":{"requestId":5}}`
	want(t, "status", l.do("POST", cancel).status, 202)
	want(t, "cancellation", next(t, "it", s.server.cancelled), cancel)
	r.ended()
}

func TestQuestionsOfTheServerGoToTheStreamOfTheirCall(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	stream := l.do("GET", "")
	r := l.call("1", "ask", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	_, data := r.event()
	want(t, "question", data, `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	want(t, "another id", l.do("POST", `{"jsonrpc":"2.0","id":"p","result":{}}`).status, 400)
	want(t, "the same id", l.do("POST", `{"jsonrpc":"2.0","id":"\u0071","error":{"code":-1,"message":"no"}}`).status, 202)
	want(t, "once more", l.do("POST", `{"jsonrpc":"2.0","id":"q","result":{}}`).status, 400)
	_, data = r.event()
	want(t, "answer", data, `{"jsonrpc":"2.0","id":1,"result":"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0071\",\"error\":{\"code\":-1,\"message\":\"no\"}}"}`)
	r.ended()
	s.server.tell(`{"jsonrpc":"2.0","method":"n"}`)
	_, data = stream.event()
	want(t, "alone on the GET stream", data, `{"jsonrpc":"2.0","method":"n"}`)
}

func TestGW05ASessionIsItsCallersAlone(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("/one", "alice")
	r := l.call("1", "ask", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`)
	r.event()
	for what, thief := range map[string]*legacy{
		"another caller": {s, "/one", l.id, "bob"},
		"another target": {s, "/two", l.id, "alice"},
		"no such id":     {s, "/one", l.id + "x", "alice"},
	} {
		for _, try := range []*reply{
			thief.call("1", "hex", ""), thief.do("GET", ""), thief.do("DELETE", ""),
			thief.do("GET", "", "Last-Event-ID: 1-0"),
			thief.do("POST", `{"jsonrpc":"2.0","id":1,"result":"stolen"}`),
			thief.do("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`),
		} {
			want(t, what, try.status, 404)
			if body := try.all(); !strings.Contains(body, `"message":"unknown session","data":{"code":"ERR_NOT_FOUND","retryable":false}`) {
				t.Errorf("%s: %s", what, body)
			}
		}
	}
	other := s.initialize("/one", "bob")
	want(t, "the answer of another", other.do("POST", `{"jsonrpc":"2.0","id":1,"result":"stolen"}`).status, 400)
	stream := other.do("GET", "")
	want(t, "the answer", l.do("POST", `{"jsonrpc":"2.0","id":1,"result":"mine"}`).status, 202)
	_, data := r.event()
	if !strings.Contains(data, "mine") {
		t.Error(data)
	}
	s.server.tell(`{"jsonrpc":"2.0","method":"n"}`) // bob's session is the newest
	_, data = stream.event()
	want(t, "bob hears", data, `{"jsonrpc":"2.0","method":"n"}`)
	if len(l.id) < 26 {
		t.Errorf("id %q has less than 128 random bits", l.id)
	}
}

func TestASessionSurvivesTheLossOfItsLink(t *testing.T) {
	s := open(t, mcpfront.Options{})
	l := s.initialize("", "alice")
	r := l.call("1", "wait", "")
	r.event()
	s.cut("http:alice")
	_, data := r.event()
	want(t, "in mid-call", data, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"connection lost","data":{"code":"ERR_INTERNAL_ERROR","retryable":false}}}`)
	want(t, "the next call", l.call("2", "say", `{"jsonrpc":"2.0","id":2,"result":0}`).all(), `{"jsonrpc":"2.0","id":2,"result":0}`)

	stream := l.do("GET", "")
	l.call("3", "tell", `{"jsonrpc":"2.0","method":"a"}`).all()
	stream.event()
	s.cut("http:alice")
	s.server.tell(`{"jsonrpc":"2.0","method":"b"}`) // nothing else says that there is another link
	_, data = stream.event()
	want(t, "on the stream", data, `{"jsonrpc":"2.0","method":"b"}`)
}

func TestABrokenInitializeOpensNothing(t *testing.T) {
	s := open(t, mcpfront.Options{})
	r := s.send("POST", "/three", `{"jsonrpc":"2.0","id":0,"method":"initialize"}`)
	body := r.all()
	if !strings.Contains(body, "unknown target; choose one of: one, two") {
		t.Error(body)
	}
	want(t, "its session", strings.Join(r.header["Mcp-Session-Id"], ","), "")
	until(t, "it is no session any more", func() bool { return s.front.Stats().Sessions == 0 }) // the answer goes first
	r = s.send("POST", "/three", `{"jsonrpc":"2.0","id":0,"method":"initialize"}`, "Accept: text/event-stream, application/json")
	want(t, "its session, told by events", strings.Join(r.header["Mcp-Session-Id"], ","), "")
}
