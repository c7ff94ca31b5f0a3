package trust

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// propose makes a change that nobody has to sign.
func propose(t testing.TB, r *Registry, id string, merge bool, registry string) (Snapshot, error) {
	t.Helper()
	return r.Apply(Proposal{ID: id, Merge: merge, Registry: mustParse(t, registry)}, now)
}

func mustPropose(t testing.TB, r *Registry, id string, merge bool, registry string) Snapshot {
	t.Helper()
	s, err := propose(t, r, id, merge, registry)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return s
}

const initial = `{
	"trusted_signing_keys":{"k1":"one","k2":"two"},
	"required_kid_by_agent":{"a":"k1"},
	"kid_not_after":{"k1":"2031-01-01T00:00:00Z"},
	"allowed_kids_by_agent":{"b":["k2","k1","k2"]},
	"revoked_kids":["z","y","z"]
}`

func makeRegistry(t testing.TB, o RegistryOptions) *Registry {
	t.Helper()
	r, err := NewRegistry(mustParse(t, initial), now, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantSnapshot(t testing.TB, r *Registry, want string) {
	t.Helper()
	got := r.Snapshot()
	if diff := cmp.Diff(want, string(got.Value.AppendJSON(nil))); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if got.Hash != canonical.Hash(got.Value) {
		t.Errorf("hash %s is not that of the snapshot", got.Hash)
	}
}

func TestSnapshotIsSorted(t *testing.T) {
	wantSnapshot(t, makeRegistry(t, RegistryOptions{}), `{"allowed_kids_by_agent":{"b":["k1","k2"]},`+
		`"kid_not_after":{"k1":"2031-01-01T00:00:00Z"},"required_kid_by_agent":{"a":"k1"},"revoked_kids":["y","z"],`+
		`"trusted_signing_keys":{"k1":"one","k2":"two"},"updated_at":"2030-05-01T08:00:00Z"}`)
	r, err := NewRegistry(canonical.Object(), now, RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantSnapshot(t, r, `{"allowed_kids_by_agent":{},"kid_not_after":{},"required_kid_by_agent":{},"revoked_kids":[],`+
		`"trusted_signing_keys":{},"updated_at":"2030-05-01T08:00:00Z"}`)
}

func TestApplyMerges(t *testing.T) {
	r := makeRegistry(t, RegistryOptions{})
	mustPropose(t, r, "p", true, `{"trusted_signing_keys":{"k2":"TWO","k3":"three"},"required_kid_by_agent":{"c":"k3"},
		"kid_not_after":{"k1":"2032-01-01T00:00:00.5Z"},"allowed_kids_by_agent":{"b":["k3"],"c":["k3","k2"]},"revoked_kids":["x","z"]}`)
	wantSnapshot(t, r, `{"allowed_kids_by_agent":{"b":["k1","k2","k3"],"c":["k2","k3"]},`+
		`"kid_not_after":{"k1":"2032-01-01T00:00:00.5Z"},"required_kid_by_agent":{"a":"k1","c":"k3"},"revoked_kids":["x","y","z"],`+
		`"trusted_signing_keys":{"k1":"one","k2":"TWO","k3":"three"},"updated_at":"2030-05-01T08:00:00Z"}`)
	before := r.Snapshot()
	mustPropose(t, r, "nothing", true, `{}`)
	if r.Snapshot().Hash != before.Hash {
		t.Error("a merge of nothing at the same time has changed something")
	}
}

func TestApplyReplaces(t *testing.T) {
	r := makeRegistry(t, RegistryOptions{})
	mustPropose(t, r, "p", false, `{"revoked_kids":["r1","r0"],"unknown":1}`)
	wantSnapshot(t, r, `{"allowed_kids_by_agent":{},"kid_not_after":{},"required_kid_by_agent":{},"revoked_kids":["r0","r1"],`+
		`"trusted_signing_keys":{},"updated_at":"2030-05-01T08:00:00Z"}`)
}

// Row 33 of the acceptance list.
func TestApplyChangesTheHashAndWhatIsTrusted(t *testing.T) {
	p := newPolicy(t)
	first := p.Registry.Snapshot()
	wantVerdict(t, p, secured(t, "n-1"), "")
	key := seal.FormatB64(verifyKey(t, kidB))
	after, err := p.Registry.Apply(Proposal{ID: "p", Merge: true,
		Registry: mustParse(t, fmt.Sprintf(`{"trusted_signing_keys":{%q:%q},"revoked_kids":[%q]}`, kidB, key, kidA))}, now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if after.Hash == first.Hash || p.Registry.Snapshot().Hash != after.Hash {
		t.Error("the hash does not show the change")
	}
	if got, _ := after.Value.Get(memberKeys).Get(kidB).Text(); got != key {
		t.Error("the snapshot does not show the key")
	}
	if got, _ := after.Value.Get(memberRevoked).At(0).Text(); got != kidA {
		t.Error("the snapshot does not show what is revoked")
	}
	wantVerdict(t, p, secured(t, "n-2"), insecure)
	wantVerdict(t, p, sign(t, secured(t, "n-2"), kidB), "")

	// updated_at alone changes the hash.
	again, err := p.Registry.Apply(Proposal{ID: "q", Merge: true, Registry: canonical.Object()}, now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash == after.Hash {
		t.Error("the hash does not show the time")
	}
}

func TestApplyRefusesWhatIsNotARegistryAndChangesNothing(t *testing.T) {
	long := `"` + strings.Repeat("x", maxRegistry) + `"`
	many := strings.TrimSuffix(strings.Repeat(`"%d",`, maxSet+1), ",")
	numbers := make([]any, maxSet+1)
	for i := range numbers {
		numbers[i] = i
	}
	for name, registry := range map[string]string{
		"decrypt keys":                    `{"decrypt_private_keys":{}}`,
		"keys are no object":              `{"trusted_signing_keys":[]}`,
		"keys are null":                   `{"trusted_signing_keys":null}`,
		"a key is no text":                `{"trusted_signing_keys":{"k":1}}`,
		"a key is empty":                  `{"trusted_signing_keys":{"k":""}}`,
		"required is no object":           `{"required_kid_by_agent":"x"}`,
		"a required kid is empty":         `{"required_kid_by_agent":{"a":""}}`,
		"rotation is no object":           `{"allowed_kids_by_agent":[]}`,
		"a rotation set is a text":        `{"allowed_kids_by_agent":{"a":"k"}}`,
		"a rotation kid is empty":         `{"allowed_kids_by_agent":{"a":["k",""]}}`,
		"a rotation kid is a number":      `{"allowed_kids_by_agent":{"a":[1]}}`,
		"revoked is a text":               `{"revoked_kids":"x"}`,
		"revoked is null":                 `{"revoked_kids":null}`,
		"revoked is an object":            `{"revoked_kids":{}}`,
		"a revoked kid is empty":          `{"revoked_kids":[""]}`,
		"an end is no timestamp":          `{"kid_not_after":{"k":"not-a-date"}}`,
		"an end is in another zone":       `{"kid_not_after":{"k":"2031-01-01T00:00:00+01:00"}}`,
		"an end is a number":              `{"kid_not_after":{"k":1}}`,
		"the good beside the bad":         `{"trusted_signing_keys":{"k":"v"},"revoked_kids":[1]}`,
		"larger than the limit":           `{"revoked_kids":[` + long + `]}`,
		"more elements than the limit":    fmt.Sprintf(`{"revoked_kids":[`+many+`]}`, numbers...),
		"the sequence is no integer":      `{"sequence":1.0}`,
		"the sequence is not above zero":  `{"sequence":0}`,
		"the sequence is a text":          `{"sequence":"1"}`,
		"the sequence is beyond integers": `{"sequence":99999999999999999999}`,
		"it is an array":                  `[]`,
	} {
		r := makeRegistry(t, RegistryOptions{})
		before := r.Snapshot()
		for _, merge := range []bool{true, false} {
			if _, err := propose(t, r, "p", merge, registry); err == nil {
				t.Errorf("%s: applied", name)
			}
		}
		if r.Snapshot().Hash != before.Hash {
			t.Errorf("%s: something has changed", name)
		}
		if _, err := propose(t, r, "p", true, `{}`); err != nil {
			t.Errorf("%s: its id is used up: %v", name, err)
		}
		if name == "it is an array" || strings.HasPrefix(name, "the sequence") {
			continue
		}
		if _, err := NewRegistry(mustParse(t, registry), now, RegistryOptions{}); err == nil {
			t.Errorf("%s: made", name)
		}
	}
}

// Weakness 12 of §13: no proposal puts in another key to decrypt with.
func TestPR18ProposalsDoNotReplaceDecryptKeys(t *testing.T) {
	p := newPolicy(t)
	if _, err := propose(t, p.Registry, "p", true, fmt.Sprintf(`{"decrypt_private_keys":{%q:%q}}`, kidMill, seal.FormatB64(decryptKey(t, "x")))); err == nil {
		t.Error("applied")
	}
	wantVerdict(t, p, secured(t, "n"), "")
}

func TestApplyRemembersProposals(t *testing.T) {
	r := makeRegistry(t, RegistryOptions{})
	mustPropose(t, r, "add", true, `{"trusted_signing_keys":{"k9":"nine"}}`)
	mustPropose(t, r, "revoke", true, `{"revoked_kids":["k9"]}`)
	wipe := mustPropose(t, r, "wipe", false, `{"revoked_kids":["k9"]}`)

	// The same once more changes nothing, and shows what is there now.
	if again := mustPropose(t, r, "add", true, `{"trusted_signing_keys":{"k9":"nine"}}`); again.Hash != wipe.Hash {
		t.Error("applied twice")
	}
	for _, other := range []struct {
		merge    bool
		registry string
	}{{false, `{"trusted_signing_keys":{"k9":"nine"}}`}, {true, `{"trusted_signing_keys":{"k9":"ten"}}`}} {
		if _, err := propose(t, r, "add", other.merge, other.registry); err == nil {
			t.Errorf("another proposal with the id was applied: %v %s", other.merge, other.registry)
		}
	}
	for id, want := range map[string]bool{"add": true, "other": false} {
		if got := r.Applied(Proposal{ID: id, Merge: true, Registry: mustParse(t, `{"trusted_signing_keys":{"k9":"nine"}}`)}); got != want {
			t.Errorf("%s: applied %v, want %v", id, got, want)
		}
	}
	if r.Applied(Proposal{ID: "add", Registry: mustParse(t, `{"trusted_signing_keys":{"k9":"nine"}}`)}) {
		t.Error("one that replaces is said to be applied")
	}
	if _, err := propose(t, r, strings.Repeat("x", 256), true, `{}`); err != nil {
		t.Error(err)
	}
	if _, err := propose(t, r, strings.Repeat("x", 257), true, `{}`); err == nil {
		t.Error("an id of 257 octets was taken")
	}
}

// Weakness 12 of §13: what was revoked since does not come back with an old proposal.
func TestPR18AnOldProposalDoesNotUndoANewerOne(t *testing.T) {
	r := makeRegistry(t, RegistryOptions{})
	mustPropose(t, r, "p1", true, `{"sequence":1}`)
	mustPropose(t, r, "p7", true, `{"sequence":7,"revoked_kids":["k1"]}`)
	for id, registry := range map[string]string{
		"older":            `{"sequence":6}`,
		"the same again":   `{"sequence":7}`,
		"without sequence": `{}`,
	} {
		if _, err := propose(t, r, id, false, registry); err == nil {
			t.Errorf("%s: applied", id)
		}
	}
	mustPropose(t, r, "p8", true, `{"sequence":8}`)
	if r.Snapshot().Value.Has("sequence") {
		t.Error("the snapshot has more than the specification says")
	}
}

func TestPR18TheMemoryOfProposalsIsBounded(t *testing.T) {
	r := makeRegistry(t, RegistryOptions{})
	for i := range maxApplied {
		r.state.Load().applied[fmt.Sprint(i)] = "sha256:" // as if they had been
	}
	if _, err := propose(t, r, "one more", true, `{}`); err == nil {
		t.Error("applied, and will be forgotten")
	}
	mustPropose(t, r, "with a sequence", true, `{"sequence":1}`)
	if n := len(r.state.Load().applied); n != maxApplied {
		t.Errorf("%d are remembered", n)
	}
	if _, err := propose(t, r, "with a sequence", true, `{"sequence":1}`); err == nil {
		t.Error("applied again")
	}
}

func TestARegistryIsMadeAgainOfWhatWasKept(t *testing.T) {
	var kept []canonical.Value
	r := makeRegistry(t, RegistryOptions{Keep: func(state canonical.Value) error {
		kept = append(kept, state)
		return nil
	}})
	mustPropose(t, r, "p", true, `{"sequence":3,"revoked_kids":["k1"]}`)
	mustPropose(t, r, "p", true, `{"sequence":3,"revoked_kids":["k1"]}`) // nothing to keep
	if len(kept) != 1 || !kept[0].Equal(r.State()) {
		t.Fatalf("kept %d times", len(kept))
	}
	state, err := canonical.ParseJSON(kept[0].AppendJSON(nil))
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewRegistry(state, now, RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Snapshot().Hash, r.Snapshot().Hash; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	mustPropose(t, again, "p", true, `{"sequence":3,"revoked_kids":["k1"]}`)
	if _, err := propose(t, again, "q", true, `{"sequence":3}`); err == nil {
		t.Error("the sequence was forgotten")
	}
	if _, err := propose(t, again, "p", true, `{"sequence":4}`); err == nil {
		t.Error("the proposal was forgotten")
	}
}

func TestAChangeThatCanNotBeKeptIsRefused(t *testing.T) {
	broken := errors.New("disk on fire")
	r := makeRegistry(t, RegistryOptions{Keep: func(canonical.Value) error { return broken }})
	before := r.Snapshot()
	if _, err := propose(t, r, "p", true, `{"revoked_kids":["k1"]}`); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if r.Snapshot().Hash != before.Hash {
		t.Error("it is visible")
	}
	if _, err := propose(t, r, "p", true, `{"revoked_kids":["k1"]}`); !errors.Is(err, broken) {
		t.Errorf("its id is used up: %v", err)
	}
}

// A change is seen whole: the two members always say the same.
func TestChangesAreSeenWholeByManyAtOnce(t *testing.T) {
	r, err := NewRegistry(canonical.Object(), now, RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const changes = 200
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				s := r.Snapshot().Value
				required, _ := s.Get(memberRequired).Get("a").Text()
				trusted, _ := s.Get(memberKeys).Get("k").Text()
				if required != trusted {
					t.Errorf("half a change: %q and %q", required, trusted)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range changes {
				text := fmt.Sprint(w, " ", i)
				registry := canonical.Object().
					With(memberRequired, canonical.Object().With("a", canonical.String(text))).
					With(memberKeys, canonical.Object().With("k", canonical.String(text)))
				if _, err := r.Apply(Proposal{ID: text, Merge: i%2 == 0, Registry: registry}, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	all.Wait()
	if n := r.State().Get(memberApplied).Len(); n != 2*changes {
		t.Errorf("%d proposals are remembered, want %d", n, 2*changes)
	}
}

// Row 123 of the acceptance list.
func TestReadKeyFile(t *testing.T) {
	file := mustParse(t, fmt.Sprintf(`{"trusted_signing_keys":{%[1]q:%[2]q},"required_kid_by_agent":{},
		"allowed_kids_by_agent":{%[3]q:[%[1]q]},"revoked_kids":["old"],"kid_not_after":{%[1]q:"2031-01-01T00:00:00Z"},
		"decrypt_private_keys":{%[4]q:%[5]q}}`, kidA, seal.FormatB64(verifyKey(t, kidA)), gardener, kidMill, seal.FormatB64(decryptKey(t, kidMill))))
	registry, decrypt, err := ReadKeyFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !decrypt[kidMill].Equal(decryptKey(t, kidMill)) {
		t.Error("another key to decrypt with")
	}
	r, err := NewRegistry(registry, now, RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Snapshot().Value; got.Get(memberRevoked).Len() != 1 || got.Get(memberAllowed).Get(gardener).Len() != 1 || got.Has(memberDecrypt) {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	for name, changed := range map[string]canonical.Value{
		"no object":                canonical.Array(),
		"a key that is none":       file.With(memberKeys, mustParse(t, `{"k":"v"}`)),
		"a decrypt key is none":    file.With(memberDecrypt, mustParse(t, `{"k":"v"}`)),
		"decrypt keys are a list":  file.With(memberDecrypt, mustParse(t, `[]`)),
		"an end that is none":      file.With(memberNotAfter, mustParse(t, `{"k":"v"}`)),
		"rotation with a text":     file.With(memberAllowed, mustParse(t, `{"k":"v"}`)),
		"a key of low order":       file.With(memberKeys, mustParse(t, `{"k":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)),
		"revoked with a number":    file.With(memberRevoked, mustParse(t, `[1]`)),
		"required is not by agent": file.With(memberRequired, mustParse(t, `["k"]`)),
	} {
		if _, _, err := ReadKeyFile(changed); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// A registry may hold texts that are no keys (§7.3): nothing is trusted because of them.
func TestPR18ATextThatIsNoKeyIsNotTrusted(t *testing.T) {
	low := "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" // the neutral element
	for _, text := range []string{"v", low, seal.FormatB64(verifyKey(t, kidA)) + "=", "-----BEGIN PUBLIC KEY-----"} {
		p := newPolicy(t)
		if _, err := propose(t, p.Registry, "p", true, fmt.Sprintf(`{"trusted_signing_keys":{%q:%q}}`, kidA, text)); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, p, secured(t, "n"), insecure)
	}
	// Under the neutral element R and S of zeros would fit any envelope.
	p := newPolicy(t)
	p.Mode = sdl.ModeSig
	mustPropose(t, p.Registry, "p", true, fmt.Sprintf(`{"trusted_signing_keys":{%q:%q}}`, kidA, low))
	forged := sign(t, once(letter(t), "n", now.Add(time.Minute)), kidA)
	fits := append([]byte{1}, make([]byte, 63)...)
	forged = with(forged, "sig", forged.Get("sec").Get("sig").With("value", canonical.String(seal.EncodeB64(fits))))
	wantVerdict(t, p, forged, insecure)
}
