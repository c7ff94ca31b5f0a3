package workload_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/spiffe"
	"github.com/slimwire/swp/internal/spiffe/spiffetest"
	"github.com/slimwire/swp/internal/spiffe/workload"
	"github.com/slimwire/swp/transport/transporttest"
)

const own = "spiffe://example.org/swpd"

// open opens a Source that ends with the test.
func open(t *testing.T, o workload.Options) *workload.Source {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	s, err := workload.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(transporttest.Patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func faulty(s *workload.Source) bool {
	_, err := s.Fault()
	return err != nil
}

func TestASVIDIsReplacedWhenTheAgentRotatesIt(t *testing.T) {
	transporttest.NoLeaks(t)
	agent, ca, other := spiffetest.NewAgent(t), transporttest.NewCA(t), transporttest.NewCA(t)
	agent.Give(map[string]*transporttest.CA{"spiffe://acme.example": other}, spiffetest.SVID{ID: own, Authority: ca})
	s := open(t, workload.Options{Address: agent.Address()})
	first := s.Given()
	if first.ID != own || first.Certificate.Leaf == nil || len(first.Authorities["example.org"]) != 1 || !first.Authorities["acme.example"][0].Equal(other.Cert) {
		t.Errorf("%+v", first)
	}
	next := transporttest.NewCA(t)
	agent.Give(nil, spiffetest.SVID{ID: own, Authority: next})
	until(t, "the next SVID did not arrive", func() bool { return s.Version() == 1 })
	if now := s.Given(); !now.Authorities["example.org"][0].Equal(next.Cert) || now.Authorities["acme.example"] != nil {
		t.Errorf("what the agent no longer gives was kept: %v", now.Authorities)
	}
}

func TestTheLastSVIDStaysWhileTheAgentIsAway(t *testing.T) {
	transporttest.NoLeaks(t)
	agent, ca := spiffetest.NewAgent(t), transporttest.NewCA(t)
	agent.Give(nil, spiffetest.SVID{ID: own, Authority: ca})
	s := open(t, workload.Options{Address: agent.Address()})
	first := s.Given()
	agent.Stop()
	until(t, "the loss was not noticed", func() bool { return faulty(s) })
	if s.Given() != first || s.Version() != 0 {
		t.Error("the SVID did not stay")
	}
	agent.Start()
	until(t, "the agent was not found again", func() bool { return !faulty(s) })
	if s.Version() != 0 {
		t.Error("the same SVID counts as a change")
	}
	agent.Deny()
	until(t, "the denial was not noticed", func() bool { return faulty(s) })
	if _, err := s.Fault(); !strings.Contains(err.Error(), "no identity for this process") {
		t.Error(err)
	}
	agent.Give(nil, spiffetest.SVID{ID: "spiffe://example.org/other", Authority: ca}, spiffetest.SVID{ID: own, Authority: ca})
	until(t, "two SVIDs were accepted", func() bool {
		_, err := s.Fault()
		return err != nil && strings.Contains(err.Error(), "configure the SPIFFE ID")
	})
	if s.Given() != first {
		t.Error("an answer that cannot be used has replaced the SVID")
	}
}

func TestOneOfSeveralSVIDsIsChosenOrNone(t *testing.T) {
	transporttest.NoLeaks(t)
	agent, ca := spiffetest.NewAgent(t), transporttest.NewCA(t)
	agent.Give(nil,
		spiffetest.SVID{ID: own, Hint: "internal", Authority: ca},
		spiffetest.SVID{ID: own, Hint: "external", Authority: ca},
		spiffetest.SVID{ID: "spiffe://example.org/batch", Authority: ca},
	)
	for _, row := range []struct{ id, hint, want string }{
		{"", "internal", ""}, {own, "external", ""}, {"spiffe://example.org/batch", "", ""},
		{"", "", "it gives 3 SVIDs: spiffe://example.org/swpd (hint \"internal\"), spiffe://example.org/swpd (hint \"external\"), spiffe://example.org/batch; configure"},
		{own, "", "it gives 2 SVIDs"}, {"", "batch", "none of which"}, {"spiffe://example.org/none", "", "none of which"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		o := workload.Options{Address: agent.Address(), ID: row.id, Hint: row.hint}
		if row.want == "" {
			s := open(t, o)
			if id := s.Given().ID; row.id != "" && id != row.id {
				t.Errorf("%+v: %s", row, id)
			}
			cancel(nil)
			continue
		}
		// The answer is there long before the end of the wait, of which only the reason is of interest.
		time.AfterFunc(time.Second, func() { cancel(nil) })
		if _, err := workload.Open(ctx, o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v", row, err)
		}
		cancel(nil)
	}
}

func TestOpenSaysWhyThereIsNoSVID(t *testing.T) {
	transporttest.NoLeaks(t)
	agent, ca := spiffetest.NewAgent(t), transporttest.NewCA(t)
	for name, row := range map[string]struct {
		address string
		give    func()
		want    string
	}{
		"no agent":    {"unix://" + filepath.Join(t.TempDir(), "none.sock"), func() {}, "no such file"},
		"no identity": {agent.Address(), agent.Deny, "no identity for this process"},
		"ended": {agent.Address(), func() {
			agent.Give(nil, spiffetest.SVID{ID: own, Authority: ca, Leaf: transporttest.Leaf{NotAfter: time.Now().Add(-time.Minute)}})
		}, "expired at"},
		"nothing":                         {agent.Address(), func() { agent.Give(nil) }, "no SVIDs in response"},
		"an address that is not a socket": {"tcp://127.0.0.1:1", func() {}, "is not the address of a SPIFFE Workload API"},
		"a variable that is not set":      {spiffe.FromEnvironment, func() {}, "is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SPIFFE_ENDPOINT_SOCKET", "")
			row.give()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := workload.Open(ctx, workload.Options{Address: row.address}); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

func TestTheEnvironmentIsReadOnlyIfTheAddressSaysSo(t *testing.T) {
	transporttest.NoLeaks(t)
	agent, ca := spiffetest.NewAgent(t), transporttest.NewCA(t)
	agent.Give(nil, spiffetest.SVID{ID: own, Authority: ca})
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", agent.Address())
	if id := open(t, workload.Options{Address: spiffe.FromEnvironment}).Given().ID; id != own {
		t.Error(id)
	}
	if _, err := workload.Open(t.Context(), workload.Options{}); err == nil {
		t.Error("an empty address was accepted")
	}
}
