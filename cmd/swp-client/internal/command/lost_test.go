package command

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
)

// What an endpoint has answered is said in its words, not as a lost connection.
func TestWorkersSayWhatTheAnswerWas(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"an answer":         {&client.AnswerError{Text: "no agent there", Code: "ERR_SECURITY_POLICY", By: client.Author{Endpoint: "spiffe://x/swpd"}}, "no agent there; refused by spiffe://x/swpd; trying again in 1s"},
		"a lost connection": {io.ErrUnexpectedEOF, "connection lost (unexpected EOF); trying again in 1s"},
	} {
		var said bytes.Buffer
		log := workLog{f: &flags{errOut: &said}}
		log.lost(test.err, time.Second)
		if got := strings.TrimSpace(said.String()); got != "swp-client: "+test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
