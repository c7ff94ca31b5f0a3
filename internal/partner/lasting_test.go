package partner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// lasting is a server whose owner says how long its calls may take, and that answers after a while; never
// if that is 0.
type lasting struct {
	attentive
	bound, takes time.Duration
}

func (l *lasting) Timeout(*mcpmap.Message) time.Duration { return l.bound }

func (l *lasting) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return lastingSession{attending{&l.attentive}, l}, nil
}

func (l *lasting) Do(x *mcpmap.Exchange) {
	if l.takes > 0 {
		answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, x.Message.ID())
		time.AfterFunc(l.takes, func() { x.Finish(answer) })
	}
}

type lastingSession struct {
	attending
	l *lasting
}

func (s lastingSession) Do(x *mcpmap.Exchange) {
	if x.Message.Is(mcpmap.MethodInitialize) {
		s.attending.Do(x)
		return
	}
	s.l.Do(x)
}

// The owner of a server sets the time of its calls, without a message from it in between: neither the link nor the
// endpoint of the caller ends one earlier, and one without an answer ends at that bound with the error of
// the owner's endpoint.
func TestACallAtAPartnerLastsAsLongAsItsOwnerPermits(t *testing.T) {
	const late = `{"code":-32603,"message":"the server did not answer in time","data":{"code":"ERR_INTERNAL_ERROR","retryable":false`
	for _, row := range []struct{ bound, takes, ends time.Duration }{
		{10 * time.Minute, 61 * time.Second, 61 * time.Second},
		{10 * time.Minute, 10*time.Minute - time.Second, 10*time.Minute - time.Second},
		{10 * time.Minute, 10*time.Minute + time.Second, 10 * time.Minute},
		{time.Minute, 0, time.Minute},
		{2 * time.Hour, 2*time.Hour - time.Second, 2*time.Hour - time.Second},
		{2 * time.Hour, 0, 2 * time.Hour},
		{168 * time.Hour, 168*time.Hour - time.Second, 168*time.Hour - time.Second},
		{168 * time.Hour, 0, 168 * time.Hour},
	} {
		if row.bound > 24*time.Hour && !effort.Long() {
			continue // a week of pings of a link takes 20 s to compute
		}
		for _, era := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(fmt.Sprintf("%v, permitted %v, %s", row.takes, row.bound, era), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLinked(t, &lasting{bound: row.bound, takes: row.takes}, 16)
					call, version := &mcpmap.Call{Target: "b/tools"}, ""
					if era == "2025-11-25" {
						call.Session = l.call(t, "", "initialize", mcpmap.Events{}).Session
					} else {
						version = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
					}
					call.Octets = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s}}`, strings.Join(append([]string{`"name":"long"`}, strings.Fields(version)...), ","))
					began := time.Now()
					result, err := l.client.Do(t.Context(), call)
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began).Round(time.Second); took != row.ends {
						t.Errorf("the call ended after %v, want %v", took, row.ends)
					}
					answered := row.takes > 0 && row.takes < row.bound
					if got := string(result.Octets); answered != strings.Contains(got, `"result":{"content":[]}`) || !answered && !strings.Contains(got, late) {
						t.Errorf("answer %s", got)
					}
				})
			})
		}
	}
}
