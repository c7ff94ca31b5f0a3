package daemon

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
)

// raw is a connection that sends whatever octets it is given.
func (r *running) raw(address string) transport.Stream {
	r.t.Helper()
	conn, err := connect(r.t, address, devpki.Client(filepath.Join(r.dir, "pki")))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close(0) })
	s, err := conn.Open(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := s.SetReadDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func message(profile, msgType, flags uint64, id, payload string) []byte {
	env := e1.Envelope{Version: 1, ProfileID: profile, MsgType: msgType, Flags: flags, MsgID: []byte(id), Payload: []byte(payload)}
	return env.Append(frame.AppendHeader(nil, env.Size()))
}

func send(t *testing.T, s transport.Stream, octets []byte) {
	t.Helper()
	if _, err := s.Write(octets); err != nil {
		t.Fatal(err)
	}
}

// hungUp waits until the other side has closed.
func hungUp(t *testing.T, s transport.Stream) {
	t.Helper()
	buf := make([]byte, 4096)
	for {
		if _, err := s.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("still connected")
		} else if err != nil {
			return
		}
	}
}

func TestI6EachRejectIsCountedOnceUnderFixedLabels(t *testing.T) {
	r := start(t, "")
	tcp := r.addrs[2]
	for i := range 3 {
		s := r.raw(tcp)
		send(t, s, message(uint64(1<<40+i), 1, 0, "12345678", ""))
		hungUp(t, s)
	}
	s := r.raw(tcp)
	send(t, s, message(12, 99, 1<<63, "12345678", ""))                                             // unsupported type, a flag
	send(t, s, message(12, 2, 0, "87654321", string((&rpc.Resp{RPCID: []byte("x")}).Append(nil)))) // of a call that was never made
	send(t, s, message(1, 2, 0, "87654321", `{"jsonrpc":"2.0","id":1,"result":{}}`))               // an answer that nobody asked for
	send(t, s, []byte{0, 0, 0, 0})
	hungUp(t, s)
	for series, want := range map[string]string{
		`swpd_rejects_total{code="ERR_UNKNOWN_PROFILE",detail="",profile="other"}`:                     "3",
		`swpd_rejects_total{code="ERR_UNSUPPORTED_MSG_TYPE",detail="",profile="rpc"}`:                  "1",
		`swpd_rejects_total{code="ERR_INVALID_FRAME",detail="",profile="other"}`:                       "1",
		`swpd_rejects_total{code="ERR_INVALID_PROFILE_PAYLOAD",detail="unknown_rpc_id",profile="rpc"}`: "1",
		`swpd_unknown_flags_total`:                    "1",
		`swpd_unsolicited_total`:                      "1",
		`swpd_messages_total{profile="rpc"}`:          "2",
		`swpd_messages_total{profile="mcp"}`:          "1",
		`swpd_sessions_opened_total{transport="tcp"}`: "4",
	} {
		r.counts(series, want)
	}
}

func TestRS08MetricSeriesDoNotGrowWithWhatPeersSend(t *testing.T) {
	r := start(t, "")
	count := func() int {
		_, text := r.get("/metrics")
		n := 0
		for line := range strings.Lines(text) {
			if strings.Contains(line, "name-") {
				t.Errorf("a name of a peer: %s", line)
			}
			// One series for each outcome that there was; see TestLatencyHasLabelsOfAClosedSet.
			if strings.HasPrefix(line, "swpd_") && !strings.HasPrefix(line, "swpd_exchange_seconds") {
				n++
			}
		}
		return n
	}
	flood := func(salt int) {
		s := r.raw(r.addrs[2])
		for i := range 20 {
			name := fmt.Appendf(nil, "name-%d-%05d", salt, i)
			id := "id-" + string(name)
			send(t, s, message(rpc.ProfileID, rpc.TypeReq, 0, id, string((&rpc.Req{RPCID: name, Method: name}).Append(nil))))
			send(t, s, message(a2a.ProfileID, a2a.TypeTask, 0, id+"t", string((&a2a.TaskBody{TaskID: name, Kind: name}).Append(nil))))
			event := events.Publish{Event: events.Record{EventID: name, Timestamp: 1, EventType: name, Severity: []byte("info"), TaskID: name}}
			send(t, s, message(events.ProfileID, events.TypePublish, 0, id+"e", string(event.Append(nil))))
			other := r.raw(r.addrs[2])
			send(t, other, message(uint64(5000+100*salt+i), 1, 0, fmt.Sprintf("id-%05d", i), ""))
			hungUp(t, other)
		}
		send(t, s, message(5000, 1, 0, "the-last", "")) // behind which nothing is left to count
		hungUp(t, s)
	}
	flood(0)
	before := count()
	flood(1)
	if after := count(); after != before {
		t.Errorf("%d series before, %d after", before, after)
	}
}

func TestRejectsAreLoggedWithTheirFields(t *testing.T) {
	r := start(t, "")
	s := r.raw(r.addrs[2])
	send(t, s, message(4242, 7, 0, "\r\n\x00\x1b\"\\ab", ""))
	hungUp(t, s)
	r.await(`"msg":"message refused"`)
	for line := range strings.Lines(r.log.String()) {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if got["msg"] != "message refused" {
			continue
		}
		for key, want := range map[string]any{
			"err_code": "ERR_UNKNOWN_PROFILE", "err_detail": "", "profile": "other", "profile_id": 4242.0, "msg_type": 7.0,
			"msg_id": "0d0a001b225c6162", "peer": "loopback", "action": "closed", "class": "reject",
		} {
			if got[key] != want {
				t.Errorf("%s is %v, want %v", key, got[key], want)
			}
		}
	}
}

func TestFailedHandshakesAreSecurityEvents(t *testing.T) {
	r := start(t, "")
	stranger := devpki.Client(foreign(t))
	stranger.CA = filepath.Join(r.dir, "pki", "ca.crt")
	for i, name := range []string{"tls", "quic"} {
		if s, err := dialWith(t, r.addrs[i], stranger); err == nil && echo(t, s) == nil {
			t.Fatalf("%s: a stranger was let in", name)
		}
		r.await(`"msg":"security event","err_code":"ERR_SECURITY_POLICY","reason":"untrusted","transport":"` + name + `"`)
		r.await(`issued by \"CN=`)
		r.await(`"issuer":"CN=swpd development authority"`)
		r.await(`"do":"for another organisation: make it a partner, with the authority that its swpd cert bundle prints in partners.NAME.trust (partners.md); for a program of your own: add its authority to trust.ca"`)
		r.counts(`swpd_security_events_total{reason="untrusted",transport="`+name+`"}`, "1")
	}
}

// A certificate that claims to be a partner names the key of that partner.
func TestFailedHandshakesOfPartnersNameTheirKey(t *testing.T) {
	for name, trust := range map[string]string{"own": ", trust: [pki/ca.crt]", "common": ""} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "partners: {b: {identity: spiffe://other/swp-client"+trust+"}}\n")
			stranger := devpki.Client(foreign(t))
			stranger.CA = filepath.Join(r.dir, "pki", "ca.crt")
			for i := range r.addrs[:2] {
				if s, err := dialWith(t, r.addrs[i], stranger); err == nil && echo(t, s) == nil {
					t.Fatalf("a stranger was let in at %s", r.addrs[i])
				}
				r.await(`"peer":"spiffe://other/swp-client","issuer":"CN=swpd development authority"`)
				r.await(`"do":"if you trust this authority, add its certificate to partners.b.trust, then run swpd reload"`)
			}
		})
	}
}

func TestOP02SecretsAndPayloadsAppearNowhere(t *testing.T) {
	const canary = "c4n4ry"
	r := start(t, childYAML(t, ", TOKEN: "+canary+"-env")+"      args: ["+canary+"-arg]\nlog: {level: debug}\n")
	s := r.mustDial(r.addrs[0])
	name := s.initialize(t)
	s.tool(t, name, "pid", `{"secret":"`+canary+`-payload"}`)

	// Messages that are refused at every stage, each with a payload.
	plain := r.raw(r.addrs[2])
	for _, m := range [][]byte{
		message(12, 1, 0, "12345678", canary),                                            // no P1 payload
		message(12, 99, 0, "12345678", canary),                                           // unknown type
		message(1, 1, 0, "12345678", `{"jsonrpc":"1.0","id":"`+canary+`","method":"x"}`), // malformed
		message(1, 1, 0, "12345679", canary),                                             // not JSON
		message(77, 1, 0, "12345678", canary),                                            // unknown profile
	} {
		send(t, plain, m)
	}
	hungUp(t, plain)

	plan, err := check.Read(mustLoad(t, filepath.Join(r.dir, "swpd.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{"check": string(shown)}
	for _, path := range []string{"/livez", "/readyz", "/status", "/metrics"} {
		_, outputs[path] = r.get(path)
	}
	key, err := os.ReadFile(filepath.Join(r.dir, "pki", "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(key)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	outputs["log"] = r.log.String()
	for where, text := range outputs {
		for _, secret := range []string{canary, base64.StdEncoding.EncodeToString(block.Bytes)[:40]} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s shows %q: …%s…", where, secret, text[max(0, i-120):min(len(text), i+60)])
			}
		}
	}
	if !strings.Contains(outputs["log"], "message refused") {
		t.Error("the log has no refusal, so the test shows nothing")
	}
}

func mustLoad(t *testing.T, file string) *config.Config {
	t.Helper()
	c, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOP01WhatChildrenSayIsCutAndEscaped(t *testing.T) {
	r := start(t, childYAML(t))
	s := r.mustDial(r.addrs[0])
	name := s.initialize(t)
	text, err := json.Marshal("\x1b[31m\x00" + strings.Repeat("long ", 400))
	if err != nil {
		t.Fatal(err)
	}
	s.tool(t, name, "say", fmt.Sprintf(`{"text":%s}`, text))
	r.await(`"msg":"child says"`) // start's cleanup parses and measures every line
}
