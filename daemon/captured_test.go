package daemon

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

func TestAPartnerThatCapturesLocalNamesIsReported(t *testing.T) {
	b := open(t, "b", "")
	a := open(t, "a", withCard(t)+"a2a: {workers: {one: {kinds: [b/report, report], command: cat}}}\n")
	s := a.mustDial(a.addrs[0])
	for i, topic := range []string{"b/t", "t", "bb/t", "b/u"} {
		if _, err := relay.Send(t.Context(), s.Session, &relay.Publication{ID: fmt.Append(nil, i), Topic: topic}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 101 {
		octets, sum := octetsOf(1)
		u := artifact.Upload{ArtifactID: fmt.Sprintf("b/%03d", i), Size: 1, Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
		if err := u.Send(t.Context(), s.Session); err != nil {
			t.Fatal(err)
		}
	}
	a.agent("b/worker", func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) { return nil, nil }, "k")
	want := []string{
		`partners.b captures local names`, `kind of a2a.workers (1): \"b/report\"`, `relay topic (2): \"b/t\", \"b/u\"`,
		`artifact_id (100): \"b/000\", \"b/001\", \"b/002\"`,
	}
	reported := func() {
		t.Helper()
		a.await("captures local names")
		_, health := a.get("/readyz?verbose")
		_, status := a.get("/status")
		for _, text := range want {
			if !strings.Contains(a.log.String(), text) {
				t.Errorf("the log does not have %s", text)
			}
			if plain := strings.ReplaceAll(text, `\"`, `"`); !strings.Contains(health+status, plain) && !strings.Contains(health+status, text) {
				t.Errorf("neither readyz nor the status has %s: %s", plain, health)
			}
		}
	}
	a.trusting("b", b, b.addrs[0])
	reported()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.again()
	want = append(want, `agent_id of a connected agent (1): \"b/worker\"`) // is stored when it was declared, at the latest by the end
	reported()
	a.rewrite("\npartners:\n  b: {", "\npartners:\n  other: {")
	a.reloaded()
	if _, health := a.get("/readyz?verbose"); strings.Contains(health, "captures local names") {
		t.Errorf("after the partner has another name: %s", health)
	}
}
