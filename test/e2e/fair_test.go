package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/fair/fairtest"
)

// as returns swp-client with the certificate of a name, which is made for it.
func (n *node) as(t *testing.T, name string) func(stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(n.bin+"/swpd", "cert", "new", "--name", "spiffe://localhost/"+name, "--pki", "pki")
	cmd.Dir = n.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(stdin string, args ...string) (string, error) {
		cmd := exec.Command(n.bin+"/swp-client", append([]string{"--identity", filepath.Join(n.dir, name)}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			return out.String(), fmt.Errorf("%w: %s", err, errs.String())
		}
		return out.String(), nil
	}
}

func TestRS25DeliveriesOfOneIdentityDoNotHoldUpThoseOfAnother(t *testing.T) {
	t.Parallel()
	got := map[bool]int{}
	for _, flooded := range []bool{false, true} {
		n := configured(t, "")
		publish := func(name, payload string, many int) {
			if _, err := n.as(t, name)(strings.Repeat(payload+"\n", many), "relay", "publish", n.tls, "jobs", "--lines"); err != nil {
				t.Fatal(err)
			}
		}
		if flooded {
			publish("mallory", "mallory", 400)
		}
		publish("alice", "alice", 100)
		out, err := n.as(t, "worker")("", "relay", "consume", n.quic, "jobs", "--count", "40")
		if err != nil {
			t.Fatal(err)
		}
		got[flooded] = strings.Count(out, "alice")
	}
	fairtest.Row(t, "swpd: deliveries of a topic", "deliveries of 40", got[false], got[true])
}

func TestRS26UploadsOfOneIdentityLeaveRoomForAnother(t *testing.T) {
	t.Parallel()
	got := map[bool]int{}
	const size = 200_000
	for _, flooded := range []bool{false, true} {
		n := configured(t, fmt.Sprintf("artifact: {quota: {total: %d, per_identity: %d}}\n", 8*size, 8*size))
		upload := func(as func(string, ...string) (string, error), from int) (i int) {
			for i = from; i < 9; i++ {
				_, err := as(strings.Repeat("x", size), "artifact", "put", n.tls, "-", "--id", fmt.Sprint(i), "--patience", "100ms")
				switch {
				case err != nil && !strings.Contains(err.Error(), "room for this now") && !strings.Contains(err.Error(), "other identities use"):
					t.Fatal(err)
				case err != nil:
					return i
				}
			}
			return i
		}
		alice := n.as(t, "alice")
		if flooded {
			mallory := n.as(t, "mallory")
			has := upload(mallory, 0)
			got[true] = upload(alice, 0)
			for has > 4 { // what goes is replaced at once, if that is allowed
				has--
				if _, err := mallory("", "artifact", "forget", n.tls, fmt.Sprint(has)); err != nil {
					t.Fatal(err)
				}
				if more := upload(mallory, has); more > has && got[true] > 0 {
					t.Errorf("mallory has %d of 8 again beside %d of alice", more, got[true])
				}
				got[true] = upload(alice, got[true])
			}
			continue
		}
		got[false] = upload(alice, 0)
	}
	fairtest.Row(t, "swpd: octets of artifacts", "uploads of 8", got[false], got[true])
}
