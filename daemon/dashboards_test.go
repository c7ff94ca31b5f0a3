package daemon

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/internal/history"
	"github.com/slimwire/swp/profiles/rpc"
)

// The alerts, the dashboard and the charts of the page ask for metrics that a running swpd has, and promtool
// finds no fault with the metrics.
func TestAlertsAndDashboardUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	r := start(t, "partners: {acme: {identity: 'spiffe://acme.example/swpd'}}\naudit: {exchanges: all}\n"+
		"access: {rules: [{identity: 'spiffe://localhost/**', profile: mcp}]}\n")
	// Some metrics are there from the first event on: a request is denied, another
	// rejected, and a stranger speaks no TLS.
	s := r.mustDial(r.addrs[0])
	if _, err := rpc.Call(t.Context(), s.Session, "demo.denied", nil); err == nil {
		t.Fatal("the rules allow the call")
	}
	raw := r.raw(r.addrs[2])
	send(t, raw, message(1<<40, 1, 0, "12345678", "")) // a profile that nobody has
	hungUp(t, raw)
	stranger := dialTCP(t, strings.TrimPrefix(r.addrs[0], "swp+tls://"))
	if _, err := stranger.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var text string
	for _, metric := range []string{"denials", "rejects", "security_events"} {
		r.eventually(metric, func() bool {
			_, text = r.get("/metrics")
			return strings.Contains(text, "\nswpd_"+metric+"_total{")
		})
	}
	described := make(map[string]bool)
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)`).FindAllStringSubmatch(text, -1) {
		described[found[1]] = true
		if found[2] == "histogram" {
			described[found[1]+"_bucket"], described[found[1]+"_count"] = true, true
		}
	}
	for _, elsewhere := range []string{
		"swpd_workload_api_up", "swpd_partner_bundle_fetched_timestamp_seconds", // with SPIFFE
		"swpd_cluster_node_silent_seconds", "swpd_cluster_nodes_differing", // with other nodes
		"swpd_partner_refused",                               // by a partner
		"swpd_partner_streams", "swpd_partner_streams_limit", // over QUIC
		"swpd_mcp_seconds", "swpd_partner_seconds", // with exchanges that were passed on
	} {
		described[elsewhere] = true // whose tests look for them
	}
	for _, c := range history.Charts {
		if !described[c.Metric] {
			t.Errorf("the chart %s asks for %s, which does not exist", c.Name, c.Metric)
		}
	}
	name := regexp.MustCompile(`\bswpd_[a-z0-9_]+\b`)
	for _, file := range []string{"../deploy/prometheus/swpd.rules.yaml", "../deploy/grafana/swpd.json"} {
		octets, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(octets) {
			t.Errorf("%s is no JSON", file)
		}
		asked := name.FindAllString(string(octets), -1)
		slices.Sort(asked)
		if asked = slices.Compact(asked); len(asked) < 8 {
			t.Errorf("%s asks for %q only", file, asked)
		}
		for _, metric := range asked {
			if !described[metric] {
				t.Errorf("%s asks for %s, which is not in /metrics", file, metric)
			}
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
