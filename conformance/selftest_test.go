package conformance_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
)

// TestEveryFlippedExpectationFails changes each thing that a descriptor expects,
// one at a time. A run that passes all the same would not have looked.
func TestEveryFlippedExpectationFails(t *testing.T) {
	var total, found atomic.Int64
	eachVector(t, func(t *testing.T, path string, number int) {
		id, target := idOf(path), newMemo()
		m := newModule(t, id)
		m.write(t, filepath.Join(m.dir, otherFile), other)
		d := parsed(t, path)
		for i, flip := range flips(d) {
			if found.Add(1); !effort.Due(number+i, oneIn) {
				continue
			}
			undo := flip.apply()
			text := textOf(t, d)
			undo()
			total.Add(1)
			v, err := conformance.Parse(m.path(id), text)
			if err != nil {
				continue // refused before it was played: not passed
			}
			if r := v.Play(t.Context(), target); r.Pass {
				t.Errorf("%s passes with another %s", id, flip.name)
			}
		}
	})
	t.Logf("%d of %d expectations changed", total.Load(), found.Load())
	if n := found.Load(); n < 5000 {
		t.Errorf("%d expectations found, want at least 5000", n)
	}
}

// oneIn says how many of the changes below are made where tests are not Long: one in
// oneIn of each vector.
const oneIn = 20

// other is a good frame that no vector expects, and otherFile where it is.
var other = frame.Append(nil, (&e1.Envelope{
	Version: 1, ProfileID: 1, MsgType: 2, MsgID: []byte("12345678"), Payload: []byte(`{"jsonrpc":"2.0"}`),
}).Append(nil))

const otherFile = "other.bin"

// flip is one change to a descriptor.
type flip struct {
	name  string
	apply func() (undo func())
}

// flips are all changes to what a descriptor expects.
func flips(d map[string]any) []flip {
	var list []flip
	expected := object(d["expected"])
	for _, key := range []string{"outcome", "code", "expected_error_code"} {
		if expected[key] != nil {
			list = append(list, change("expected", expected, key))
		}
	}
	assertions := object(expected["assertions"])
	if expected["outcome"] == "accept" {
		envelope := object(assertions["envelope"])
		for _, key := range sortedKeys(envelope) {
			list = append(list, change("envelope", envelope, key))
		}
		for _, key := range []string{"msg_type", "profile_id"} {
			if assertions[key] != nil {
				list = append(list, change("assertions", assertions, key))
			}
		}
	}
	for _, key := range []string{"artifact", "artifact_states"} {
		if assertions[key] != nil {
			list = append(list, change("assertions", assertions, key))
		}
	}
	fixture := object(expected["fixture"])
	list = append(list, stepFlips("step", fixture["transcript"])...)
	siblings, _ := fixture["siblings"].([]any)
	for i, s := range siblings {
		name := fmt.Sprintf("sibling %d", i+1)
		list = append(list, expectFlips(name, object(s)["expect"])...)
		list = append(list, stepFlips(name+" step", object(s)["transcript"])...)
	}
	return list
}

func stepFlips(name string, transcript any) []flip {
	var list []flip
	steps, _ := transcript.([]any)
	for i, s := range steps {
		step, name := object(s), fmt.Sprintf("%s %d", name, i+1)
		list = append(list, expectFlips(name, step["expect"])...)
		for _, with := range [][2]string{{"bin_file", otherFile}, {"hex", hex.EncodeToString(other)}} {
			key := with[0]
			if was := step[key]; step["dir"] == "out" && was != nil {
				list = append(list, flip{name + "." + key, func() func() {
					step[key] = with[1]
					return func() { step[key] = was }
				}})
			}
		}
	}
	return list
}

func expectFlips(name string, expect any) []flip {
	var list []flip
	e := object(expect)
	for _, key := range sortedKeys(e) {
		value := e[key]
		switch {
		case value == true && key == "reencode":
			// Absent and false mean that it is not asked.
		case key == "envelope":
			for _, inner := range sortedKeys(object(value)) {
				list = append(list, change(name+" envelope", object(value), inner))
			}
		case key == "same_as":
			list = append(list, change(name+" same_as", object(value), "except"))
		default:
			list = append(list, change(name, e, key))
		}
	}
	return list
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// change makes a value another one of its kind.
func change(where string, in map[string]any, key string) flip {
	return flip{where + "." + key, func() func() {
		old := in[key]
		in[key] = another(key, old)
		return func() {
			if old == nil {
				delete(in, key)
			} else {
				in[key] = old
			}
		}
	}}
}

func another(key string, v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case json.Number:
		if key == "alloc_below" {
			return 1
		}
		n, _ := new(big.Int).SetString(v.String(), 10)
		if n.Cmp(new(big.Int).SetUint64(1<<64-1)) == 0 {
			return 1
		}
		return json.Number(n.Add(n, big.NewInt(1)).String())
	case []any:
		return v[1:] // one difference fewer is allowed
	case string:
		switch v {
		case "accept":
			return "reject"
		case "reject", "process_check", "none":
			return "accept"
		case "OK":
			return "INVALID_FRAME"
		case "INVALID_FRAME":
			return "INVALID_ENVELOPE"
		case "ERR_INVALID_FRAME":
			return "ERR_INVALID_ENVELOPE"
		}
		if key == "code" {
			return "INVALID_FRAME"
		}
		if key == "expected_error_code" {
			return "ERR_INVALID_FRAME"
		}
		if key == "msg_id" || key == "payload_hex" {
			return "00" + v
		}
		return v + "x"
	}
	return "something else"
}

// TestRenamedVectorKeepsItsVerdict gives each vector the name of another one,
// once as it is and once with a wrong expectation.
func TestRenamedVectorKeepsItsVerdict(t *testing.T) {
	paths := descriptors(t)
	eachVector(t, func(t *testing.T, path string, number int) {
		if !effort.Due(number, oneIn) {
			return
		}
		id, other := idOf(path), idOf(paths[(number+7)%len(paths)])
		m, target := newModule(t, id), newMemo()
		d := parsed(t, path)
		for _, wrong := range []bool{false, true} {
			if wrong {
				expected := object(d["expected"])
				expected["code"] = another("code", expected["code"])
			}
			var verdicts []conformance.Result
			for _, name := range []string{id, other} {
				d["vector_id"] = name
				v, err := conformance.Parse(m.path(name), textOf(t, d))
				if err != nil {
					t.Fatal(err)
				}
				r := v.Play(t.Context(), target)
				r.VectorID, r.Path = "", ""
				verdicts = append(verdicts, r)
			}
			if verdicts[0] != verdicts[1] {
				t.Errorf("%s as %s: %+v, was %+v", id, other, verdicts[1], verdicts[0])
			}
			if verdicts[0].Pass == wrong {
				t.Errorf("%s passes: %t with a wrong expectation: %t", id, verdicts[0].Pass, wrong)
			}
		}
	})
}

// TestFlippedOctetInAcceptedFrameFails changes one octet of each frame that has
// to be accepted: version, profile_id and msg_type everywhere, and the end of
// the payload where the vector says something about it. The body of a P1 payload
// also becomes that of another msg_type.
func TestFlippedOctetInAcceptedFrameFails(t *testing.T) {
	target := conformance.Local{Patience: 100 * time.Millisecond} // spent where an answer does not come
	several := make(chan struct{}, 32)                            // at once: they mostly wait
	var total, found atomic.Int64
	eachVector(t, func(t *testing.T, path string, number int) {
		id, d := idOf(path), parsed(t, path)
		m := newModule(t, id)
		var plays sync.WaitGroup
		defer plays.Wait()
		for i, f := range acceptedFrames(d) {
			due := effort.Due(number+i, oneIn)
			offsets := []int{4, 5, 6}
			if f.payload {
				offsets = append(offsets, -1)
			}
			octets := f.octets(t)
			if f.body {
				offsets = append(offsets, bodyAt(octets))
			}
			for _, at := range offsets {
				if at < 0 && octets[5] == errorProfile {
					continue // it ends with text for people
				}
				if found.Add(1); !due {
					continue
				}
				if at < 0 {
					at += len(octets)
				}
				changed := slices.Clone(octets)
				changed[at] ^= 0x40
				v, err := conformance.Parse(m.path(id), f.replace(t, m, changed))
				if err != nil {
					t.Fatal(err)
				}
				total.Add(1)
				several <- struct{}{}
				plays.Go(func() {
					defer func() { <-several }()
					if r := v.Play(t.Context(), target); r.Pass {
						t.Errorf("%s passes with octet %d of %s changed", id, at, f.name)
					}
				})
			}
			f.replace(t, m, octets)
		}
	})
	t.Logf("%d of %d octets changed", total.Load(), found.Load())
	if n := found.Load(); n < 1000 {
		t.Errorf("%d octets found, want at least 1000", n)
	}
}

// errorProfile is the first octet of the profile_id of error frames, 4096.
const errorProfile = 0x80

// acceptedFrame is what the peers send and the endpoint must accept: the content of a
// file, or octets that stand in the descriptor, wherever they are sent.
type acceptedFrame struct {
	name    string // of the file, or of the first step
	file    bool
	d       map[string]any   // the descriptor
	steps   []map[string]any // in which the octets stand
	payload bool             // something is said about its payload
	body    bool             // which is one of P1
}

func (f *acceptedFrame) octets(t *testing.T) []byte {
	t.Helper()
	var octets []byte
	var err error
	if f.file {
		octets, err = os.ReadFile(filepath.Join(vectorDir, f.name))
	} else {
		text, _ := f.steps[0]["hex"].(string)
		octets, err = hex.DecodeString(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// replace makes other octets of it in a module, and returns the descriptor for them.
func (f *acceptedFrame) replace(t *testing.T, m module, octets []byte) []byte {
	t.Helper()
	if f.file {
		m.write(t, filepath.Join(m.dir, f.name), octets)
	} else {
		for _, s := range f.steps {
			s["hex"] = hex.EncodeToString(octets)
		}
	}
	return textOf(t, f.d)
}

// bodyAt is where the payload of a frame begins.
func bodyAt(octets []byte) int {
	var env e1.Envelope
	if err := env.Decode(octets[frame.HeaderSize:], new(e1.Limits{}.WithDefaults())); err != nil {
		return frame.HeaderSize // several frames
	}
	return len(octets) - len(env.Payload)
}

// onP1 are the categories whose payloads are of P1 and not for recorders.
var onP1 = []string{"a2a", "rpc", "events", "obs", "relay"}

// acceptedFrames are those of a descriptor.
func acceptedFrames(d map[string]any) []*acceptedFrame {
	var list []*acceptedFrame
	played := false // in the transcript of a vector on P1: each payload leads to something
	add := func(name string, step map[string]any, expect any) {
		if object(expect)["outcome"] != "accept" || step["bin_file"] == nil && step["hex"] == nil {
			return
		}
		e := object(expect)
		payload := played || d["category"] == "mcp" || e["same_as"] != nil || object(e["envelope"])["payload_hex"] != nil
		i := slices.IndexFunc(list, func(known *acceptedFrame) bool {
			return known.file && known.name == step["bin_file"] || !known.file && known.steps[0]["hex"] == step["hex"]
		})
		if i < 0 {
			f := &acceptedFrame{name: name, d: d, body: slices.Contains(onP1, fmt.Sprint(d["category"]))}
			if file, ok := step["bin_file"].(string); ok {
				f.name, f.file = file, true
			}
			i, list = len(list), append(list, f)
		}
		list[i].payload = list[i].payload || payload
		list[i].steps = append(list[i].steps, step)
	}
	expected := object(d["expected"])
	fixture := object(expected["fixture"])
	official := map[string]any{"outcome": expected["outcome"], "envelope": object(expected["assertions"])["envelope"]}
	steps := func(name string, transcript any) {
		all, _ := transcript.([]any)
		for i, s := range all {
			step, name := object(s), fmt.Sprintf("%s %d", name, i+1)
			switch {
			case step["dir"] != "in" || step["conn"] == "json":
			case step["bin_file"] != nil && step["bin_file"] == fixture["bin_file"]:
				add(name, step, official)
			default:
				add(name, step, step["expect"])
			}
		}
	}
	played = fixture["transcript"] != nil && slices.Contains(onP1, fmt.Sprint(d["category"]))
	add("the vector", map[string]any{"bin_file": fixture["bin_file"]}, official)
	steps("step", fixture["transcript"])
	played = false
	siblings, _ := fixture["siblings"].([]any)
	for i, s := range siblings {
		name := fmt.Sprintf("sibling %d", i+1)
		add(name, object(s), object(s)["expect"])
		steps(name+" step", object(s)["transcript"])
	}
	return list
}

// What nothing plays is neither passed nor left out.
func TestWhatNothingPlaysFails(t *testing.T) {
	m := newModule(t, "core_0001_valid_min_frame")
	d := parsed(t, m.path("core_0001_valid_min_frame"))
	for _, category := range []string{"", "CORE", "no such thing"} {
		d["category"] = category
		m.put(t, "core_0001_valid_min_frame", d)
		results := conformance.Run(t.Context(), conformance.Local{}, []string{m.path("core_0001_valid_min_frame")}, nil)
		if len(results) != 1 || results[0].Pass || !strings.HasPrefix(results[0].Detail, "not run") {
			t.Errorf("category %q: %+v", category, results)
		}
	}
}

// A kit descriptor that says nothing of clock and policy gets the verdict that
// its octets have without them.
func TestFreshnessIsNotGuessedFromTheName(t *testing.T) {
	for _, id := range []string{"core_0014_stale_timestamp", "core_0015_future_timestamp", "s1_0005_timestamp_freshness_enforced"} {
		m := newModule(t, id)
		d := parsed(t, m.path(id))
		expected := object(d["expected"])
		delete(expected, "assertions")
		expected["fixture"] = map[string]any{"bin_file": id + ".bin"}
		m.put(t, id, d)
		v, err := conformance.Load(m.path(id))
		if err != nil {
			t.Fatal(err)
		}
		r := v.Play(t.Context(), conformance.Local{})
		if r.Pass || r.Detail != "outcome mismatch: expected=reject observed=accept" {
			t.Errorf("%s", r)
		}
	}
}

// A target that agrees to everything passes nothing.
func TestEmptyObservationPassesNothing(t *testing.T) {
	for _, path := range descriptors(t) {
		v, err := conformance.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if v.Outcome == "process_check" {
			continue
		}
		for _, o := range []*conformance.Observation{{}, nil} {
			if r := v.Play(t.Context(), silent{o}); r.Pass {
				t.Errorf("%s passes on nothing", v.ID)
			}
		}
	}
}
