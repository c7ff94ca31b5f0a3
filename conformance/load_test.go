package conformance_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/conformance"
)

const sample = "core_0027_duplicate_inflight_msg_id" // has steps, siblings and several fixtures

func TestLoadRefusesKeysItDoesNotKnow(t *testing.T) {
	m := newModule(t, sample)
	text, err := os.ReadFile(m.path(sample))
	if err != nil {
		t.Fatal(err)
	}
	// One object after the other gets a key too many.
	for at := range text {
		if text[at] != '{' {
			continue
		}
		for _, key := range []string{`"surprise": 1`, `"Outcome": "accept"`} {
			more := bytes.Join([][]byte{text[:at+1], []byte(key + ","), text[at+1:]}, nil)
			m.write(t, m.path(sample), more)
			if _, err := conformance.Load(m.path(sample)); err == nil {
				t.Errorf("loaded with %s at %d", key, at)
			}
		}
	}
}

func TestLoadRefusesRepeatedKeysAndWhatFollows(t *testing.T) {
	m := newModule(t, sample)
	text, err := os.ReadFile(m.path(sample))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"repeated":  strings.Replace(string(text), `"outcome": "accept"`, `"outcome": "reject", "outcome": "accept"`, 1),
		"following": string(text) + "{}",
		"cut":       string(text[:len(text)/2]),
		"empty":     "",
	} {
		m.write(t, m.path(sample), []byte(bad))
		if _, err := conformance.Load(m.path(sample)); err == nil {
			t.Errorf("loaded a descriptor with something %s", name)
		}
	}
}

func TestLoadRefusesIncompleteDescriptors(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(d, expected, fixture map[string]any)
		want string
	}{
		"no id":               {func(d, _, _ map[string]any) { delete(d, "vector_id") }, "missing vector_id"},
		"no outcome":          {func(_, e, _ map[string]any) { delete(e, "outcome") }, "missing expected.outcome"},
		"no evidence type":    {func(_, e, _ map[string]any) { delete(e, "evidence_type") }, "missing expected.evidence_type"},
		"odd outcome":         {func(_, e, _ map[string]any) { e["outcome"] = "ok" }, `expected.outcome is "ok"`},
		"odd evidence":        {func(_, e, _ map[string]any) { e["evidence_type"] = "rumour" }, `expected.evidence_type is "rumour"`},
		"no evidence file":    {func(_, e, _ map[string]any) { e["outcome"] = "process_check" }, "without an evidence_file"},
		"no bin":              {func(_, _, f map[string]any) { delete(f, "bin_file"); delete(f, "transcript") }, "no bin_file"},
		"missing bin":         {func(_, _, f map[string]any) { f["bin_file"] = "gone.bin"; delete(f, "transcript") }, "gone.bin"},
		"bin elsewhere":       {func(_, _, f map[string]any) { f["bin_file"] = "../go.mod"; delete(f, "transcript") }, "not beside its descriptor"},
		"bin in no step":      {func(_, _, f map[string]any) { f["bin_file"] = sample + ".01.bin" }, "named by no step"},
		"bin in two steps":    {func(_, _, f map[string]any) { step(f, 0)["bin_file"] = f["bin_file"]; delete(step(f, 0), "hex") }, "named by two steps"},
		"missing step bin":    {func(_, _, f map[string]any) { step(f, 0)["bin_file"] = "gone.bin"; delete(step(f, 0), "hex") }, "gone.bin"},
		"step without octets": {func(_, _, f map[string]any) { delete(step(f, 0), "hex") }, "no bin_file and no hex"},
		"bin and hex":         {func(_, _, f map[string]any) { step(f, 0)["bin_file"] = sample + ".01.bin" }, "hex beside a bin_file"},
		"half an octet":       {func(_, _, f map[string]any) { step(f, 0)["hex"] = "0" }, "odd length"},
		"no digits":           {func(_, _, f map[string]any) { step(f, 0)["hex"] = "zz" }, "invalid byte"},
		"hex in a wait": {func(_, _, f map[string]any) {
			step(f, 0)["dir"], step(f, 0)["at_ms"] = "wait", 1
			delete(step(f, 0), "expect")
		}, "a wait says at_ms"},
		"no expect":        {func(_, _, f map[string]any) { delete(step(f, 0), "expect") }, "no expect"},
		"empty expect":     {func(_, _, f map[string]any) { step(f, 0)["expect"] = map[string]any{} }, "no expect.outcome"},
		"odd step outcome": {func(_, _, f map[string]any) { step(f, 0)["expect"] = map[string]any{"outcome": "fine"} }, `outcome is "fine"`},
		"odd direction":    {func(_, _, f map[string]any) { step(f, 0)["dir"] = "sideways" }, `dir is "sideways"`},
		"two verdicts":     {func(_, _, f map[string]any) { step(f, 1)["expect"] = map[string]any{"outcome": "accept"} }, "are those of the vector"},
		"same as later": {func(_, _, f map[string]any) {
			step(f, 0)["expect"] = map[string]any{"outcome": "accept", "same_as": map[string]any{"step": 2}}
		}, "same_as names step 2"},
		"sibling twice": {func(_, _, f map[string]any) { sibling(f)["bin_file"] = f["bin_file"] }, "a transcript beside"},
		"sibling hex":   {func(_, _, f map[string]any) { sibling(f)["hex"] = "00" }, "a transcript beside"},
		"sibling empty": {func(_, _, f map[string]any) { delete(sibling(f), "transcript") }, "no bin_file"},
	} {
		m := newModule(t, sample)
		d := parsed(t, m.path(sample))
		expected := object(d["expected"])
		c.edit(d, expected, object(expected["fixture"]))
		m.put(t, sample, d)
		_, err := conformance.Load(m.path(sample))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func step(fixture map[string]any, i int) map[string]any {
	steps, _ := fixture["transcript"].([]any)
	return object(steps[i])
}

func sibling(fixture map[string]any) map[string]any {
	list, _ := fixture["siblings"].([]any)
	return object(list[0])
}

func TestBrokenDescriptorFailsTheRunAndNothingElse(t *testing.T) {
	m := newModule(t, "core_0003_invalid_zero_length")
	m.write(t, filepath.Join(m.dir, "broken.json"), []byte("{"))
	var lines []string
	results := conformance.Run(t.Context(), conformance.Local{},
		[]string{filepath.Join(m.dir, "broken.json"), m.path("core_0003_invalid_zero_length")},
		func(r conformance.Result) { lines = append(lines, r.String()) })
	if len(results) != 2 || results[0].Pass || !results[1].Pass {
		t.Errorf("results %+v", results)
	}
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "FAIL broken.json: ") || lines[1] != "PASS core_0003_invalid_zero_length" {
		t.Errorf("lines %q", lines)
	}
}

// The illustrative descriptor of the draft puts the fields of the envelope into
// expected.assert.
func TestAssertOfTheDraftIsASynonym(t *testing.T) {
	const id = "core_0001_valid_min_frame"
	for msgType, pass := range map[int]bool{1: true, 2: false} {
		m := newModule(t, id)
		d := parsed(t, m.path(id))
		expected := object(d["expected"])
		delete(expected, "assertions")
		expected["assert"] = map[string]any{"version": 1, "profile_id": 1, "msg_type": msgType, "payload_len": 0}
		m.put(t, id, d)
		v, err := conformance.Load(m.path(id))
		if err != nil {
			t.Fatal(err)
		}
		if r := v.Play(t.Context(), conformance.Local{}); r.Pass != pass {
			t.Errorf("msg_type %d: %s", msgType, r)
		}
	}
}

// The example of the draft (Figure 1) has no evidence_type, fixture and category. A
// descriptor of the kit that lacks them stays incomplete.
func TestTheExampleDescriptorOfTheDraftIsPlayed(t *testing.T) {
	const id = "core_0001_valid_min_frame"
	m := newModule(t, id)
	assert := map[string]any{"version": 1, "profile_id": 1, "msg_type": 1, "payload_len": 0}
	m.put(t, id, map[string]any{"vector_id": id, "expected": map[string]any{"outcome": "accept", "assert": assert}})
	v, err := conformance.Load(m.path(id))
	if err != nil {
		t.Fatal(err)
	}
	if r := v.Play(t.Context(), conformance.Local{}); !r.Pass || v.Category != "core" {
		t.Errorf("category %q: %s", v.Category, r)
	}
	m.put(t, id, map[string]any{"vector_id": id, "expected": map[string]any{"outcome": "accept"}})
	if _, err := conformance.Load(m.path(id)); err == nil || err.Error() != "missing expected.evidence_type" {
		t.Errorf("without assert: %v", err)
	}
}

func TestPoCFormIsPlayed(t *testing.T) {
	for _, c := range []struct {
		fixture, expect string
		pass            bool
	}{
		{"mcp_0001_request_roundtrip", `{"ok":true,"code":"OK","version":1,"profile_id":1,"msg_type":1,"min_payload_len":10}`, true},
		{"mcp_0001_request_roundtrip", `{"ok":true,"code":"OK","version":1,"profile_id":1,"msg_type":1,"min_payload_len":1000}`, false},
		{"mcp_0001_request_roundtrip", `{"ok":true,"code":"OK","version":1,"profile_id":12,"msg_type":1,"min_payload_len":10}`, false},
		{"mcp_0001_request_roundtrip", `{"ok":false,"code":"INVALID_FRAME"}`, false},
		{"core_0008_unsupported_version", `{"ok":false,"code":"UNSUPPORTED_VERSION"}`, true},
		{"core_0008_unsupported_version", `{"ok":false,"code":"INVALID_ENVELOPE"}`, false},
		{"core_0006_invalid_truncated_body", `{"ok":false,"code":"INVALID_FRAME"}`, true},
		{"core_0002_valid_typical_frame", `{"ok":true,"code":"OK"}`, false}, // its payload is not MCP
	} {
		m := newModule(t, c.fixture)
		m.write(t, m.path("poc_0001"), []byte(`{"name":"poc_0001","bin":"`+c.fixture+`.bin","expect":`+c.expect+`}`))
		v, err := conformance.Load(m.path("poc_0001"))
		if err != nil {
			t.Fatal(err)
		}
		if r := v.Play(t.Context(), conformance.Local{}); r.Pass != c.pass || r.VectorID != "poc_0001" {
			t.Errorf("%s %s: %s", c.fixture, c.expect, r)
		}
	}
}
