package claims

import (
	"crypto/tls"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Deployment has the values in force where the claims hold. It names no path,
// no peer and no service: it is for publication.
type Deployment struct {
	Configuration string    `json:"configuration"` // name of the file, or "defaults"
	Channels      []Channel `json:"peer_authentication"`
	Open          []Open    `json:"values"`
	Settings      []Value   `json:"settings"` // every number, duration and switch of the configuration, as in force
}

// Channel is how the peers of a listener are authenticated.
type Channel struct {
	Transport   string   `json:"transport"` // tls, quic or tcp
	Versions    []string `json:"versions"`  // of TLS; empty is plaintext
	ALPN        []string `json:"alpn"`
	Certificate string   `json:"client_certificate"`
	Tickets     bool     `json:"session_tickets"`
	Identity    string   `json:"identity"`
	ErrorPath   bool     `json:"error_path"` // whether refusals are told on profile 4096
}

// Open is a choice that the sources leave to the implementation, with the values in
// force here. docs/conformance.md §3 lists the choices to document; a namespace is
// not claimed while one of its choices has no values.
type Open struct {
	About     string   `json:"about"`
	Namespace string   `json:"namespace"` // that it matters to
	Values    []Value  `json:"values"`
	Vectors   []string `json:"vectors,omitempty"` // that show it
}

// Value is one value in force.
type Value struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // sizes in octets, durations as text
	Source string `json:"source"` // key of the configuration, or name in the code
}

func deploymentOf(c *config.Config) Deployment {
	d := Deployment{Configuration: "defaults", Settings: settings(c.Effective())}
	if c.Source != "" {
		d.Configuration = filepath.Base(c.Source)
	}
	for _, l := range c.Listeners {
		if ch := channel(&l); !slices.ContainsFunc(d.Channels, func(have Channel) bool { return reflect.DeepEqual(have, ch) }) {
			d.Channels = append(d.Channels, ch)
		}
	}
	d.Open = []Open{
		{"limits of frames and envelopes", "core", slices.Concat(d.of("limits.frame_bytes"), d.of("limits.payload_bytes"), d.of("limits.extension_bytes"), envelope()), []string{"core_0005", "core_0012", "core_0019", "core_0020", "e1_0007"}},
		{"freshness: whose policy, and skew", "s1", d.of("freshness."), []string{"core_0014", "core_0015", "s1_0005", "s1_0006"}},
		{"frame rate", "core", append(d.of("rate."), d.of("limits.frame_")...), []string{"core_0016"}},
		{"error path", "core", d.errorPath(), []string{"core_0017", "core_0018"}},
		{"severity set", "events", severities(), []string{"events_0005"}},
		{"bounds of A2A fields, and how a longer one is answered", "a2a", taskBounds(), []string{"a2a_0001"}},
		{"RPC replay window", "rpc", d.of("rpc."), []string{"rpc_0005"}},
		{"policy keys, and unknown ones", "policyhint", policyKeys(), []string{"policyhint_0002"}},
		{"RELAY dedupe window, retry and limits", "relay", d.of("relay."), []string{"relay_0002", "relay_0003", "relay_0005"}},
		{"CRED chain limit and expiry bound", "cred", d.of("cred."), []string{"cred_0001", "cred_0002"}},
		{"TOOLDISC filter and paging", "tooldisc", append(toolPages(), d.of("tooldisc.")...), []string{"tooldisc_0001"}},
	}
	return d
}

// of returns the settings whose keys begin so.
func (d *Deployment) of(prefix string) (list []Value) {
	for _, v := range d.Settings {
		if strings.HasPrefix(v.Source, prefix) {
			list = append(list, v)
		}
	}
	return list
}

// channel reads from the policy itself how it authenticates.
func channel(l *config.Listener) Channel {
	ch := Channel{Transport: l.Address.Transport, ErrorPath: l.ErrorFrames, Versions: []string{}, ALPN: []string{}}
	if ch.Transport == "tcp" {
		ch.Certificate, ch.Identity = "none: plaintext, on loopback addresses only", transport.LoopbackIdentity
		return ch
	}
	policy := (&transport.Policy{}).Server()
	for v := policy.MinVersion; v <= policy.MaxVersion; v++ {
		ch.Versions = append(ch.Versions, tls.VersionName(v))
	}
	ch.ALPN, ch.Tickets, ch.Certificate, ch.Identity = policy.NextProtos, !policy.SessionTicketsDisabled, "not required", "none"
	if policy.ClientAuth >= tls.RequireAnyClientCert && policy.VerifyConnection != nil {
		ch.Certificate, ch.Identity = "required, verified against trust.ca", identityMethod
	}
	return ch
}

// identityMethod is what transport.Identity does, which a test holds it to.
const identityMethod = "URI SAN if there is exactly one; else DNS SAN if there is exactly one and no URI SAN"

func (d *Deployment) errorPath() (list []Value) {
	for _, ch := range d.Channels {
		list = append(list, Value{"profile of the error path, on " + ch.Transport, map[bool]any{true: endpoint.ErrorProfile, false: "off"}[ch.ErrorPath], "listeners[].error_frames"})
	}
	return list
}

func envelope() []Value {
	return []Value{
		{"msg_id, shortest", e1.DefaultMinMsgID, "e1.DefaultMinMsgID"},
		{"msg_id, longest", e1.DefaultMaxMsgID, "e1.DefaultMaxMsgID"},
		{"uvarint, longest", e1.MaxUvarintSize, "e1.MaxUvarintSize"},
	}
}

func severities() []Value {
	var names []string
	for s := events.Debug; s <= events.Error; s++ {
		names = append(names, s.String())
	}
	return []Value{{"accepted, whatever their case; all other refused", strings.Join(names, ", "), "events.Severity"}}
}

func policyKeys() []Value {
	return []Value{
		{"known keys", strings.Join([]string{policyhint.NoExternalNetwork, policyhint.NoPII, policyhint.CostLimit, policyhint.Region}, ", "), "policyhint"},
		{"an unknown key with MUST", "POLICY_VIOLATION " + policyhint.ReasonUnknownKey, "policyhint.ReasonUnknownKey"},
		{"an unknown key with SHOULD or MAY", "POLICY_HINT_ACK, kept and passed on", "docs/policy-hints.md"},
	}
}

func taskBounds() []Value {
	const source = "docs/conformance.md §3"
	return []Value{
		{"octets of agent_id, of a capability, of task_id and of kind, at most", a2a.MaxText, "a2a.MaxText"},
		{"capabilities of a Handshake, at most", a2a.MaxCapabilities, "a2a.MaxCapabilities"},
		{"a Task with a longer kind or agent_id", "refused, and answered by a Result with ok = false unless its task_id is in use", source},
		{"a Handshake above a bound, a longer task_id", "refused; A2A has no answer to it", source},
		{"another Task under a used task_id", "refused; A2A has no answer to it", source},
	}
}

func toolPages() []Value {
	return []Value{
		{"tools of a page, at most", tooldisc.MaxPage, "tooldisc.MaxPage"},
		{"filter", "part of tool_id or name, in upper or lower case; white space around it does not count", "docs/conformance.md §3"},
	}
}

// enumerated are the settings that are words of a closed set. Other text names
// files, hosts and peers.
var enumerated = []string{"store", "durability", "freshness.owner"}

// settings flattens a configuration by its keys. Lists and maps are left out,
// because they describe services and peers.
func settings(c *config.Config) []Value { return flatten(nil, "", reflect.ValueOf(*c)) }

func flatten(list []Value, key string, v reflect.Value) []Value {
	switch x := v.Interface().(type) {
	case time.Duration:
		return append(list, Value{key, x.String(), key})
	case config.Size:
		return append(list, Value{key, int64(x), key})
	case string:
		if slices.Contains(enumerated, key) {
			list = append(list, Value{key, x, key})
		}
		return list
	}
	switch {
	case v.Kind() == reflect.Struct:
		for i, field := range reflect.VisibleFields(v.Type()) {
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if name == "" || name == "-" {
				continue
			}
			if key != "" {
				name = key + "." + name
			}
			list = flatten(list, name, v.Field(i))
		}
	case v.CanInt() || v.CanUint() || v.CanFloat() || v.Kind() == reflect.Bool:
		list = append(list, Value{key, v.Interface(), key})
	}
	return list
}
