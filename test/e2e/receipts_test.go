package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// crossing is the record of an exchange between partners.
type crossing struct {
	Sequence uint64 `json:"event.sequence"`
	MsgID    string `json:"swp.msg_id"`

	// The request may not have arrived: the other end was killed.
	Incomplete bool `json:"swp.incomplete"`
}

// crossings returns the records of a trail that are about answered calls between partners.
func (n *node) crossings(t *testing.T, flags ...string) (list []crossing) {
	t.Helper()
	args := append([]string{"audit", "find", "--config", filepath.Join(n.dir, "swpd.yaml"), "--profile", "rpc", "--json"}, flags...)
	out, err := exec.Command(n.bin+"/swpd", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var c crossing
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if c.MsgID != "" && !c.Incomplete {
			list = append(list, c)
		}
	}
	return list
}

// repeated repeats what has no event to wait for.
func repeated(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// proven proves an exchange by a file, and has it checked with the authority of the other
// end and nothing else.
func (n *node) proven(t *testing.T, sequence uint64, other *node, signer string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proof.json")
	var out []byte
	repeated(t, "the receipt of "+signer, func() bool {
		var err error
		out, err = exec.Command(n.bin+"/swpd", "audit", "prove", fmt.Sprint(sequence), "--config", filepath.Join(n.dir, "swpd.yaml"), "--to", file).CombinedOutput()
		return err == nil
	})
	check := func(args ...string) (string, error) {
		cmd := exec.Command(n.bin+"/swp-client", append([]string{"audit", "check", file}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"HOME=" + cmd.Dir}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	ca := filepath.Join(other.dir, "pki", "ca.crt")
	if got, err := check("--ca", ca, "--signer", signer); err != nil || !strings.Contains(got, "proven") || !strings.Contains(got, signer) {
		t.Errorf("record %d, %s: %v, %s", sequence, out, err, got)
	}
	if got, err := check("--ca", ca, "--json"); err != nil || !strings.HasPrefix(got, `{"proven":true,"signer":"`+signer+`"`) {
		t.Errorf("%v, %s", err, got)
	}
	if got, err := check("--ca", ca, "--request", file); err == nil || !strings.Contains(got, "is not the request of this exchange") {
		t.Errorf("with another payload: %v, %s", err, got)
	}
	if got, err := check("--ca", filepath.Join(n.dir, "pki", "ca.crt")); err == nil || !strings.Contains(got, "does not count") {
		t.Errorf("with another authority: %v, %s", err, got)
	}
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	octets[bytes.Index(octets, []byte(`"request_sha256"`))+20] ^= 1
	if err := os.WriteFile(file, octets, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := check("--ca", ca); err == nil || !strings.Contains(got, "the file was changed") {
		t.Errorf("with a changed octet: %v, %s", err, got)
	}
}

func TestExchangesBetweenPartnersAreProvenAlsoAfterAKillOfEitherEnd(t *testing.T) {
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			a, b := prepared(t, "--name", "spiffe://a.example/swpd"), prepared(t, "--name", "spiffe://b.example/swpd")
			const receipts = "audit: {receipts: true}\npartners:\n"
			b.more = receipts + fmt.Sprintf("  a: {identity: 'spiffe://a.example/swpd', trust: [%q]}\n", filepath.Join(a.dir, "pki", "ca.crt"))
			b.untilEnd(t)
			a.more = receipts + fmt.Sprintf("  b: {identity: 'spiffe://b.example/swpd', trust: [%q], addresses: [%q]}\n",
				filepath.Join(b.dir, "pki", "ca.crt"), b.transports()[transport])
			a.untilEnd(t)
			sent := func() []crossing { return a.crossings(t, "--action", "exchange-sent") }
			call := func() {
				t.Helper()
				before := len(sent())
				repeated(t, "a call with receipts", func() bool {
					return a.client("rpc", "call", a.transports()[transport]+"/b", "swp.agents.list").Run() == nil && len(sent()) > before
				})
			}
			call()
			a.kill(t)
			a.launch(t)
			call()
			b.kill(t)
			b.launch(t)
			call()
			there := make(map[string]uint64)
			for _, c := range b.crossings(t, "--action", "exchange", "--identity", "spiffe://a.example/swpd") {
				there[c.MsgID] = c.Sequence
			}
			for _, c := range sent() {
				a.proven(t, c.Sequence, b, "spiffe://b.example/swpd")
				if there[c.MsgID] == 0 {
					t.Errorf("b has no record of exchange %s", c.MsgID)
					continue
				}
				b.proven(t, there[c.MsgID], a, "spiffe://a.example/swpd")
			}
			for _, n := range []*node{a, b} {
				run(t, n.bin+"/swpd", "audit", "verify", "--config", filepath.Join(n.dir, "swpd.yaml"))
				if out := run(t, n.bin+"/swpd", "audit", "find", "--config", filepath.Join(n.dir, "swpd.yaml"), "--action", "receipt-finding"); strings.Contains(out, "receipt:") {
					t.Errorf("findings: %s", out)
				}
			}
		})
	}
}
