package page

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/history"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a page with a trail of these records.
func serve(t *testing.T, records ...audit.Record) (*httptest.Server, *Page) {
	dir := t.TempDir()
	cert := transporttest.NewCA(t).Issue(t, transporttest.Named("spiffe://a.example/swpd"))
	trail, err := audit.Open(audit.Options{
		Dir: dir, Identity: func() string { return "spiffe://a.example/swpd" }, Certificate: func() *tls.Certificate { return cert }, Failed: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		trail.Append(&r)
	}
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	messages := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "swpd_messages_total"}, []string{"profile"})
	r.MustRegister(messages, prometheus.NewCounter(prometheus.CounterOpts{Name: "go_other_total"}))
	messages.WithLabelValues("rpc").Add(7)
	p := New(Source{
		Status:      func() any { return map[string]bool{"ready": true} },
		Sessions:    func() iter.Seq[*endpoint.Session] { return func(func(*endpoint.Session) bool) {} },
		Metrics:     r,
		Permissions: func(identity string) (any, error) { return map[string]string{"identity": identity}, nil },
		Trail:       func() string { return dir },
		History:     history.New(r, history.Charts, "", zap.NewNop()),
		Desk:        func(*http.ServeMux) {},
	})
	mux := http.NewServeMux()
	p.Add(mux)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s, p
}

func get(t *testing.T, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body := new(strings.Builder)
	if _, err := bufio.NewReader(answer.Body).WriteTo(body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, body.String()
}

func TestThePageLoadsNothingFromElsewhereAndIsNotEmbedded(t *testing.T) {
	s, _ := serve(t)
	for _, path := range []string{"/", "/page.js", "/charts.js", "/page.css"} {
		status, header, body := get(t, s.URL+path)
		if status != http.StatusOK || len(body) < 500 {
			t.Errorf("%s: status %d, %d octets", path, status, len(body))
		}
		policy := header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'self'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
		for _, forbidden := range []string{"http://", "https://", "innerHTML", "document.write", "eval("} {
			if strings.Contains(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), forbidden) {
				t.Errorf("%s has %s", path, forbidden)
			}
		}
	}
	if status, _, _ := get(t, s.URL+"/other"); status != http.StatusNotFound {
		t.Errorf("another path: status %d", status)
	}
}

func TestHistoryIsSentFromATimeOnAndBadQueriesAreRefused(t *testing.T) {
	s, _ := serve(t)
	for query, want := range map[string]int{
		"": 200, "?since=1700000000": 200, "?most=1": 200, "?most=500": 200,
		"?since=x": 400, "?since=-1": 400, "?most=0": 400, "?most=501": 400, "?most=x": 400,
	} {
		status, header, body := get(t, s.URL+"/history"+query)
		if status != want {
			t.Errorf("%s: status %d, want %d: %s", query, status, want, body)
		}
		if status != http.StatusOK {
			continue
		}
		var v history.View
		if err := json.Unmarshal([]byte(body), &v); err != nil || len(v.Charts) != len(history.Charts) || header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %v, %d charts, header %v", query, err, len(v.Charts), header)
		}
	}
}

func TestASnapshotHasTheMetricsOfSwpd(t *testing.T) {
	s, _ := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("Content-Type %q", kind)
	}
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var got Snapshot
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Metrics) != 1 || len(got.Metrics["swpd_messages_total"]) != 1 || got.Metrics["swpd_messages_total"][0].Value != 7 {
		t.Errorf("metrics %v, want swpd_messages_total of 7", got.Metrics)
	}
}

func TestAViewerMoreThanTheLimitIsRefused(t *testing.T) {
	s, p := serve(t)
	for range maxViewers - 1 {
		p.viewers <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	last, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = last.Body.Close() }()
	if last.StatusCode != http.StatusOK {
		t.Errorf("viewer %d: status %d", maxViewers, last.StatusCode)
	}
	status, header, _ := get(t, s.URL+"/live")
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("viewer %d: status %d, Retry-After %q", maxViewers+1, status, header.Get("Retry-After"))
	}
}

func TestASnapshotIsMadeOnceASecondForAllViewers(t *testing.T) {
	_, p := serve(t)
	first, err := p.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := p.snapshot(); err != nil || &first[0] != &second[0] {
		t.Errorf("the second viewer got another snapshot, %v", err)
	}
	p.made = p.made.Add(-interval)
	if third, err := p.snapshot(); err != nil || &first[0] == &third[0] {
		t.Errorf("a second later the snapshot is the same, %v", err)
	}
}

func TestTheLatestRecordsThatMatchAreFound(t *testing.T) {
	var records []audit.Record
	for i, of := range [][2]string{{"spiffe://a.example/one", "ok"}, {"spiffe://b.example/two", "denied"}, {"spiffe://a.example/three", "denied"}} {
		records = append(records, audit.Record{Time: time.Unix(int64(i+1), 0), Identity: of[0], Profile: "rpc", Operation: "call", Outcome: of[1]})
	}
	s, _ := serve(t, records...)
	for query, want := range map[string]string{
		"":                               "three two one",
		"?outcome=denied":                "three two",
		"?identity=spiffe://a.example/*": "three one",
		"?outcome=denied&identity=spiffe://b.example/**": "two",
		"?outcome=none": "",
		"?limit=3":      "three two one",
		"?limit=2":      "three two, and more",
	} {
		status, _, body := get(t, s.URL+"/audit"+query)
		var found Found
		if err := json.Unmarshal([]byte(body), &found); status != http.StatusOK || err != nil {
			t.Fatalf("%s: status %d %s", query, status, body)
		}
		var got []string
		for _, line := range found.Records {
			var e audit.Entry
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, path.Base(e.Identity))
		}
		text := strings.Join(got, " ")
		if found.More {
			text += ", and more"
		}
		if text != want {
			t.Errorf("%s: found %s, want %s", query, text, want)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=201", "?limit=x", "?color=red"} {
		if status, _, body := get(t, s.URL+"/audit"+query); status != http.StatusBadRequest || body == "" {
			t.Errorf("%s: status %d %s", query, status, body)
		}
	}
}

func TestPermissionsNeedAnIdentity(t *testing.T) {
	s, _ := serve(t)
	if status, _, body := get(t, s.URL+"/permissions"); status != http.StatusBadRequest || !strings.Contains(body, "identity") {
		t.Errorf("status %d %s", status, body)
	}
	if _, _, body := get(t, s.URL+"/permissions?identity=spiffe://a.example/one"); strings.TrimSpace(body) != `{"identity":"spiffe://a.example/one"}` {
		t.Error(body)
	}
}
