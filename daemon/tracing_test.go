package daemon

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/rpc"
)

// collected is a collector, and the spans that it took.
func collected(t *testing.T) (url string, spans func() []*tracepb.Span) {
	t.Helper()
	var mu sync.Mutex
	var all []*tracepb.Span
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				all = append(all, ss.Spans...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []*tracepb.Span {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestSpansOfADaemonJoinTheTracesOfItsPeers(t *testing.T) {
	t.Parallel()
	const traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	url, spans := collected(t)
	r := start(t, "telemetry: {otlp: '"+url+"'}\n")
	for _, address := range r.addrs {
		s, err := r.dial(address)
		if err != nil {
			t.Fatal(err)
		}
		lane, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := obs.Bind(t.Context(), lane, profiles.Trace{Parent: "00-" + traceID + "-" + parentID + "-01"}, obs.IDs{}); err != nil {
			t.Fatal(err)
		}
		if _, err := rpc.Call(t.Context(), s.Session, rpc.MethodPing, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.end() // which sends what is left
	all := spans()
	if len(all) != len(r.addrs) {
		t.Fatalf("%d spans, want one for each transport", len(all))
	}
	for _, s := range all {
		if s.Name != "rpc RPC_REQ" || hex.EncodeToString(s.TraceId) != traceID || hex.EncodeToString(s.ParentSpanId) != parentID {
			t.Errorf("span %q of trace %x below %x", s.Name, s.TraceId, s.ParentSpanId)
		}
	}
	if !strings.Contains(r.log.String(), `"traces":"`+url+`"`) {
		t.Error("the start line does not say where traces go")
	}
}

func TestACollectorThatIsGoneIsSaidOnce(t *testing.T) {
	srv := httptest.NewServer(nil)
	srv.Close()
	r := start(t, "telemetry: {otlp: '"+srv.URL+"'}\n")
	s, err := r.dial(r.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := rpc.Call(t.Context(), s.Session, rpc.MethodPing, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.await("spans not taken by the collector")
	if code, body := r.get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %s", code, body)
	}
	r.end()
	if n := strings.Count(r.log.String(), "spans not taken"); n != 1 {
		t.Errorf("said %d times in less than a minute", n)
	}
}
