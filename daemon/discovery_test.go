package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/rpc"
	stateprofile "github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// startWith starts a daemon in a directory with a file beside the configuration.
func startWith(t *testing.T, yaml, name, content string) *running {
	t.Helper()
	dir := t.TempDir()
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir, yaml)
}

const oddCard = "{ \"version\":\"3\",\n\t\"n\": 9007199254740993 }\r\n"

func TestConfiguredCardsAreServedAndReadAgain(t *testing.T) {
	r := startWith(t, "agdisc: {cards: {agent.demo: {file: card.json, max_age: 1m}}}\n", "card.json", oddCard)
	for _, address := range r.addrs {
		card, err := agdisc.Ask(t.Context(), r.mustDial(address).Session, "agent.demo", "")
		if err != nil || string(card.Payload) != oddCard || card.Revision != "3" || card.ETag != agdisc.HashOf([]byte(oddCard)) || card.MaxAge != time.Minute {
			t.Errorf("%s: card %+v, error %v", address, card, err)
		}
	}
	s := r.mustDial(r.addrs[0])
	result, err := rpc.Call(t.Context(), s.Session, agdisc.MethodList, nil)
	if err != nil || string(result) != `{"agents":[{"agent_id":"agent.demo","schema_revision":"3"}]}` {
		t.Errorf("agents %s, error %v", result, err)
	}

	file := filepath.Join(r.dir, "card.json")
	if err := os.WriteFile(file, []byte("another card"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.reloaded()
	if card, err := agdisc.Ask(t.Context(), s.Session, "agent.demo", agdisc.HashOf([]byte(oddCard))); err != nil || card == nil || string(card.Payload) != "another card" {
		t.Errorf("after a change: card %+v, error %v", card, err)
	}

	// A file that cannot be used is said to be one, and changes nothing.
	if err := os.WriteFile(file, make([]byte, agdisc.MaxCard+1), 0o600); err != nil {
		t.Fatal(err)
	}
	r.reloaded()
	if card, err := agdisc.Ask(t.Context(), s.Session, "agent.demo", ""); err != nil || string(card.Payload) != "another card" {
		t.Errorf("card %+v, error %v", card, err)
	}
	if _, body := r.get("/readyz"); !strings.Contains(body, "agent cards not reloaded") {
		t.Errorf("readiness says %s", body)
	}
}

func TestCardsThatCannotBeReadStopTheStart(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{"empty": nil, "large": make([]byte, agdisc.MaxCard+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		c := config.Default()
		c.Data = dir
		c.AGDISC.Cards = map[string]config.AgentCard{"a": {File: filepath.Join(dir, name)}}
		if _, err := check.Read(c); err == nil || !strings.HasPrefix(err.Error(), "agdisc.cards") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := config.Default()
	c.Data = dir
	c.TOOLDISC.Tools = []config.Tool{{ToolID: "a", Version: "1", SchemaRef: "no reference"}}
	if _, err := check.Read(c); err == nil {
		t.Error("a tool with a bad schema_ref was accepted")
	}
}

// tools returns the tool_ids that a session is told.
func (s *session) tools(t *testing.T) (ids []string) {
	t.Helper()
	ids, err := toolsOf(t.Context(), s.Session)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// unanswered is why the tools of a server are missing that has not had the time to start: a list
// waits for it for some seconds, which a busy machine may exceed.
const unanswered = "it has not answered yet"

// toolsOf returns the tool_ids that a peer lists, when it has read its servers.
func toolsOf(ctx context.Context, on profiles.Caller) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var ids []string
		missing := false
		for tool, err := range tooldisc.List(ctx, on, tooldisc.Query{Unread: func(u tooldisc.Unread) { missing = missing || u.Reason == unanswered }}) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, tool.ID)
		}
		if !missing {
			return ids, nil
		}
	}
}

func TestToolsOfMCPServersAppearByThemselves(t *testing.T) {
	r := startWith(t, childYAML(t)+"tooldisc: {tools: [{tool_id: search, version: '1', schema: card.json}]}\n", "card.json", oddCard)
	if got := r.metric(`swpd_mcp_child_starts_total{server="child"}`); got != "0" {
		t.Errorf("%s children were started though nobody asked", got)
	}
	for _, address := range r.addrs {
		s := r.mustDial(address)
		if got := s.tools(t); !slices.Equal(got, []string{"child/pid", "child/say", "search"}) {
			t.Errorf("%s: tools %v", address, got)
		}
		got, err := tooldisc.Find(t.Context(), s.Session, "child/say", "")
		if err != nil {
			t.Fatal(err)
		}
		_, schema, _ := strings.Cut(sayTool, `"inputSchema" : `)
		sum := sha256.Sum256([]byte(strings.TrimSuffix(schema, " }")))
		if string(got.Payload) != sayTool || got.Name != "say" || got.Version != "1" || got.SchemaRef != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("tool %+v", got)
		}
		// The schema is where the descriptor says.
		resolved, err := stateprofile.Fetch(t.Context(), s.Session, sum)
		if err != nil || string(resolved.Blob) != strings.TrimSuffix(schema, " }") {
			t.Errorf("schema %+v, error %v", resolved, err)
		}
	}
	// It does not tell of changes, so it is left alone when it was read.
	for began := time.Now(); r.metric(`swpd_mcp_children{server="child"}`) != "0"; {
		if time.Since(began) > patience {
			t.Fatal("a child is kept")
		}
	}
}

func TestPR04ToolsAreSeenByWhoMayCallThem(t *testing.T) {
	r := start(t, "access: {rules: [{identity: loopback, profile: mcp, operation: tools/call, name: child/say}]}\n"+childYAML(t))
	if got := r.mustDial(r.addrs[0]).tools(t); len(got) != 0 {
		t.Errorf("an identity without rules sees %v", got)
	}
	if got := r.metric(`swpd_mcp_child_starts_total{server="child"}`); got != "0" {
		t.Errorf("%s children were started for an identity without rules", got)
	}
	s := r.mustDial(r.addrs[2])
	if got := s.tools(t); !slices.Equal(got, []string{"child/say"}) {
		t.Errorf("tools %v, want the one that may be called", got)
	}
	for _, id := range []string{"child/pid", "child/none", "none"} {
		var unknown *profiles.PeerError
		if _, err := tooldisc.Find(t.Context(), s.Session, id, ""); !errors.As(err, &unknown) || unknown.Message != "tool not found" {
			t.Errorf("%s: %v", id, err)
		}
	}
	// Nor is the schema of a tool that is not seen, whose octets everybody knows.
	hidden := sha256.Sum256([]byte(`{"type":"object"}`))
	if _, err := stateprofile.Fetch(t.Context(), s.Session, hidden); err == nil {
		t.Error("the schema of a tool that may not be called is told")
	}
	// A listing is no attempt to call what is not in it.
	if got := r.metric(`swpd_denials_total{profile="mcp"}`); got != "" && got != "0" {
		t.Errorf("%s denials are counted", got)
	}
}

func TestGW02AServerThatCannotBeReadIsSaidToBeOne(t *testing.T) {
	r := start(t, "mcp: {servers: {broken: {command: 'false'}}}\n"+"tooldisc: {eager: true}\n")
	r.await("tools of a server are not all known")
	s := r.mustDial(r.addrs[2])
	if got := s.tools(t); len(got) != 0 {
		t.Errorf("tools %v", got)
	}
	var unread []tooldisc.Unread
	if _, _, err := tooldisc.Page(t.Context(), s.Session, tooldisc.Query{Unread: func(u tooldisc.Unread) { unread = append(unread, u) }}); err != nil {
		t.Error(err)
	}
	if len(unread) != 1 || unread[0].Name != "broken" || !strings.Contains(unread[0].Reason, `server "broken"`) {
		t.Errorf("a peer is told %q", unread)
	}
	if _, body := r.get("/readyz"); !strings.Contains(body, "mcp server broken: ") {
		t.Errorf("readiness says %s", body)
	}
}
