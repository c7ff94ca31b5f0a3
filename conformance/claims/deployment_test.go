package claims

import (
	"crypto/x509"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/transport"
)

// value finds what an Open or the settings say.
func value(t *testing.T, list []Value, name string) any {
	t.Helper()
	i := slices.IndexFunc(list, func(v Value) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no value %q in %v", name, list)
	}
	return list[i].Value
}

// What is not set follows from something else, and that is what is claimed.
func TestValuesThatFollowFromOthersAreInForce(t *testing.T) {
	c := config.Default()
	d := deploymentOf(c)
	for name, want := range map[string]any{
		"limits.frame_burst": 2 * c.Limits.FrameRate, "relay.max_payload": int64(8183 << 10), "artifact.max_size": int64(c.Artifact.Quota.PerIdentity),
	} {
		if got := value(t, d.Settings, name); got != want || got == 0 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	c.Limits.FrameBurst, c.Relay.MaxPayload, c.Artifact.MaxSize = 7, 8, 9
	d = deploymentOf(c)
	for name, want := range map[string]any{"limits.frame_burst": 7, "relay.max_payload": int64(8), "artifact.max_size": int64(9)} {
		if got := value(t, d.Settings, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestValuesInForceAreThoseOfTheConfiguration(t *testing.T) {
	c := config.Default()
	c.Source = "/etc/swpd/edge.yaml"
	c.Limits.FrameBytes = 1 << 20
	c.Freshness = config.Freshness{Owner: "s1", Skew: 30 * time.Second, Required: true}
	c.RPC.ReplayWindow = time.Hour
	c.Listeners[0].ErrorFrames = true
	c.Listeners = append(c.Listeners, config.Listener{Address: config.Address{Addr: transport.Addr{Transport: "tcp", Host: "127.0.0.1", Port: 1}}})
	d := deploymentOf(c)
	for name, want := range map[string]any{
		"limits.frame_bytes": int64(1 << 20), "freshness.owner": "s1", "freshness.skew": "30s", "freshness.required": true,
		"rpc.replay_window": "1h0m0s", "store": "embedded", "limits.in_flight": 128,
	} {
		if got := value(t, d.Settings, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if d.Configuration != "edge.yaml" || len(d.Channels) != 3 {
		t.Fatalf("%q, %+v", d.Configuration, d.Channels)
	}
	tls, quic, tcp := d.Channels[0], d.Channels[1], d.Channels[2]
	if !slices.Equal(tls.Versions, []string{"TLS 1.3"}) || !slices.Equal(tls.ALPN, []string{"swp/1"}) || tls.Tickets ||
		tls.Certificate != "required, verified against trust.ca" || tls.Identity != identityMethod || !tls.ErrorPath {
		t.Errorf("%+v", tls)
	}
	if quic.Transport != "quic" || quic.ErrorPath || quic.Certificate != tls.Certificate {
		t.Errorf("%+v", quic)
	}
	if len(tcp.Versions) != 0 || tcp.Identity != "loopback" || !strings.HasPrefix(tcp.Certificate, "none") {
		t.Errorf("%+v", tcp)
	}
}

// What docs/conformance.md §3 documents, by values that are really there.
func TestWhatSourcesLeaveOpenIsStated(t *testing.T) {
	d := deploymentOf(config.Default())
	open := make(map[string][]Value)
	for _, o := range d.Open {
		open[o.Namespace] = append(open[o.Namespace], o.Values...)
	}
	for namespace, names := range map[string][]string{
		"core": {"limits.frame_bytes", "limits.payload_bytes", "limits.extension_bytes", "msg_id, shortest", "msg_id, longest", "uvarint, longest", "rate.frames", "profile of the error path, on tls"},
		"s1":   {"freshness.owner", "freshness.skew", "freshness.required"}, "rpc": {"rpc.replay_window"},
		"relay":    {"relay.window", "relay.backoff", "relay.max_attempts", "relay.ack_timeout", "relay.waiting", "relay.max_in_flight"},
		"tooldisc": {"filter", "tools of a page, at most"}, "policyhint": {"an unknown key with MUST"}, "events": {"accepted, whatever their case; all other refused"},
	} {
		for _, name := range names {
			value(t, open[namespace], name)
		}
	}
	for _, ns := range unserved(t) {
		delete(open, ns)
	}
	for ns, values := range open {
		if len(values) == 0 {
			t.Errorf("%s: nothing says what is in force", ns)
		}
	}
	// "show" what they show as far as they are there.
	for _, o := range d.Open {
		for _, id := range o.Vectors {
			if !played(t, conformance.NamespaceOf(id)) {
				continue
			}
			if found, err := filepath.Glob(filepath.Join("..", "..", "vectors", id+"_*.json")); err != nil || len(found) != 1 {
				t.Errorf("%s: %d vectors %s, %v", o.About, len(found), id, err)
			}
		}
	}
}

// played says whether there are vectors of a namespace.
func played(t *testing.T, namespace string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "vectors", namespace+"_*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// A deployment is published, so nothing that is somebody's goes into it.
func TestDeploymentNamesNoPathPeerOrSecret(t *testing.T) {
	c := config.Default()
	const secret = "s3cret"
	c.Source = "/" + secret + "/swpd.yaml"
	c.Data, c.Admin.Address, c.Identity.Cert, c.Identity.Key, c.Trust.CA, c.Telemetry.OTLP = secret, secret, secret, secret, []string{secret}, secret
	c.MCP.Servers = map[string]config.MCPServer{secret: {Command: secret, Args: []string{secret}, Env: map[string]string{secret: secret}}}
	c.Access = config.Everything(secret)
	c.Listeners[0].Address.Host = secret
	text, err := json.Marshal(deploymentOf(c))
	if err != nil || strings.Contains(string(text), secret) {
		t.Errorf("%s, %v", text, err)
	}
}

// Every number, duration and switch outside of lists and maps is a setting.
func TestEverySettingIsDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := settings(config.Default())
	if len(list) < 40 {
		t.Errorf("only %d settings", len(list))
	}
	for _, v := range list {
		if !strings.Contains(string(doc), "`"+v.Source+"`") {
			t.Errorf("%s is not in docs/configuration.md", v.Source)
		}
		switch reflect.TypeOf(v.Value).Kind() {
		case reflect.Int, reflect.Int64, reflect.Bool, reflect.Float64, reflect.String:
		default:
			t.Errorf("%s is a %T", v.Name, v.Value)
		}
	}
}

// identityMethod is text; this is what it says.
func TestIdentityMethodIsWhatIsDone(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	one, two := uri("spiffe://a.example/x"), uri("spiffe://a.example/y")
	for _, tt := range []struct {
		cert x509.Certificate
		want string // empty: refused
	}{
		{x509.Certificate{URIs: []*url.URL{one}}, "spiffe://a.example/x"},
		{x509.Certificate{URIs: []*url.URL{one}, DNSNames: []string{"a.example", "b.example"}}, "spiffe://a.example/x"},
		{x509.Certificate{DNSNames: []string{"a.example"}}, "a.example"},
		{x509.Certificate{URIs: []*url.URL{one, two}, DNSNames: []string{"a.example"}}, ""},
		{x509.Certificate{DNSNames: []string{"a.example", "b.example"}}, ""},
		{x509.Certificate{}, ""},
	} {
		if got, err := transport.Identity(&tt.cert); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%v %v: %q, %v", tt.cert.URIs, tt.cert.DNSNames, got, err)
		}
	}
}
