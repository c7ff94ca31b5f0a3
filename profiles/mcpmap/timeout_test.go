package mcpmap_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// timed is a server whose owner says how long calls may take.
type timed struct {
	*server
	mcpmap.Timeouts
}

// A call may be silent as long as the owner of its server says: each call, or those of a tool, in
// both eras, for minutes or days. Without a word of the owner it is ten minutes.
func TestTheOwnerOfAServerBoundsTheSilenceOfACall(t *testing.T) {
	build := func(era func(id, method string) []byte) []byte {
		return []byte(strings.Replace(string(era("1", "tools/call")), `"params":{`, `"params":{"name":"build",`, 1))
	}
	for name, tt := range map[string]struct {
		owner  mcpmap.Timeouts
		octets []byte
		want   time.Duration
	}{
		"nothing":        {mcpmap.Timeouts{}, modern("1", "tools/call"), 10 * time.Minute},
		"shorter":        {mcpmap.Timeouts{Each: 5 * time.Second}, modern("1", "tools/call"), 5 * time.Second},
		"days":           {mcpmap.Timeouts{Each: 168 * time.Hour}, modern("1", "tools/call"), 168 * time.Hour},
		"a tool":         {mcpmap.Timeouts{Each: time.Minute, Tools: map[string]time.Duration{"build": 4 * time.Hour}}, build(modern), 4 * time.Hour},
		"another method": {mcpmap.Timeouts{Each: time.Minute, Tools: map[string]time.Duration{"build": time.Hour}}, modern("1", "tools/list"), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer()
				table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": &timed{srv, tt.owner}}, "")
				if err != nil {
					t.Fatal(err)
				}
				served := mcpmap.New(mcpmap.Options{Backend: table})
				l := dial(t, served, "alice")
				began := time.Now()
				done := l.do(&mcpmap.Call{Target: "one", Octets: tt.octets})
				x := <-srv.modern
				time.Sleep(tt.want - time.Second)
				x.Notify(count(1)) // which begins the time again
				o := <-done
				if o.err != nil || !strings.Contains(string(o.Octets), "did not answer in time") {
					t.Errorf("ended with %v", o)
				}
				want(t, "after", time.Since(began).Round(time.Second), 2*tt.want-time.Second)
				synctest.Wait()
				l.near.Close()
				served.Close()
			})
		})
	}
}

// A call with progress has an end all the same: an hour, or six times what it may be silent.
func TestACallWithProgressHasAnEnd(t *testing.T) {
	for silence, whole := range map[time.Duration]time.Duration{time.Minute: time.Hour, 2 * time.Hour: 12 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer()
			table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": &timed{srv, mcpmap.Timeouts{Each: silence}}}, "")
			if err != nil {
				t.Fatal(err)
			}
			served := mcpmap.New(mcpmap.Options{Backend: table})
			l := dial(t, served, "alice")
			began := time.Now()
			done := l.do(&mcpmap.Call{Target: "one", Octets: modern("1", "tools/call")})
			x := <-srv.modern
			ended := make(chan struct{})
			x.OnCancel(func([]byte) { close(ended) })
			for progress := time.NewTicker(silence / 2); ; {
				select {
				case <-progress.C:
					x.Notify(count(1))
					continue
				case <-ended:
				}
				progress.Stop()
				break
			}
			<-done
			want(t, "after", time.Since(began).Round(time.Second), whole)
			synctest.Wait()
			l.near.Close()
			served.Close()
		})
	}
}
