package trust

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

func readProposal(t testing.TB, payload string) Proposal {
	t.Helper()
	p, err := ReadProposal(mustParse(t, payload))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadProposal(t *testing.T) {
	p := readProposal(t, `{"op":"propose","registry":{"revoked_kids":[]}}`)
	if !p.Merge {
		t.Error("merge is false by default")
	}
	if want := canonical.Hash(mustParse(t, `{"registry":{"revoked_kids":[]},"merge":true}`)); p.ID != want {
		t.Errorf("id %s, want %s", p.ID, want)
	}
	if other := readProposal(t, `{"registry":{"revoked_kids":[]},"merge":false,"proposal_id":"  \t"}`); other.Merge || other.ID == p.ID {
		t.Errorf("got %v", other)
	}
	p = readProposal(t, `{"registry":{},"proposal_id":" p-1\n","signature":"s","approvals":[{"approver":"a","signature":"x"},{"approver":"b","signature":"y"}]}`)
	want := Proposal{ID: "p-1", Merge: true, Registry: canonical.Object(), Signature: "s", Approvals: []Approval{{"a", "x"}, {"b", "y"}}}
	if diff := cmp.Diff(want, p, cmp.Comparer(canonical.Value.Equal)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, payload := range []string{
		`{"op":"propose"}`, `{"registry":null}`, `{"registry":[]}`, `null`,
		`{"registry":{},"approvals":[` + strings.Repeat(`{},`, 256) + `{}]}`,
	} {
		if _, err := ReadProposal(mustParse(t, payload)); err == nil {
			t.Errorf("%.40s: read", payload)
		}
	}
	readProposal(t, `{"registry":{},"approvals":[`+strings.Repeat(`{},`, 255)+`{}]}`)
}

// Row 58 of the acceptance list, and weakness 12 of §13: the signature of a single key
// is for one proposal, not for a registry under any id.
func TestPR18ASingleKeySignsAllOfAProposal(t *testing.T) {
	key := signingKey(t, "ops")
	strict := &SingleKey{Key: verifyKey(t, "ops")}
	open := &SingleKey{Key: verifyKey(t, "ops"), RegistryOnly: true}
	p := Proposal{ID: "p-1", Merge: true, Registry: mustParse(t, `{"revoked_kids":["k"]}`)}

	whole := p
	whole.Signature = p.Sign(key)
	only := p
	only.Signature = seal.SignDetached(p.Registry, key)
	another := whole
	another.ID = "p-2"
	replacing := whole
	replacing.Merge = false
	wider := whole
	wider.Registry = mustParse(t, `{"revoked_kids":[]}`)
	resent := only
	resent.ID, resent.Merge = "p-2", false
	foreign := p
	foreign.Signature = p.Sign(signingKey(t, "another"))
	padded := whole
	padded.Signature += "=="
	for name, test := range map[string]struct {
		proposal     Proposal
		strict, open bool
	}{
		"over all of it":          {whole, true, true},
		"over the registry":       {only, false, true},
		"the same, another id":    {another, false, false},
		"the same, replacing":     {replacing, false, false},
		"the same, more":          {wider, false, false},
		"the registry, sent anew": {resent, false, true},
		"of another key":          {foreign, false, false},
		"padded":                  {padded, false, false},
		"none":                    {p, false, false},
	} {
		for verifier, want := range map[*SingleKey]bool{strict: test.strict, open: test.open} {
			if _, err := verifier.Verify(test.proposal); (err == nil) != want {
				t.Errorf("%s, registry only %v: %v", name, verifier.RegistryOnly, err)
			}
		}
	}
	if _, err := (&SingleKey{}).Verify(whole); err == nil {
		t.Error("verified without a key")
	}
}

func quorum(t testing.TB, threshold int, names ...string) *Quorum {
	t.Helper()
	approvers := make(map[string]ed25519.PublicKey)
	for _, name := range names {
		approvers[name] = verifyKey(t, name)
	}
	q, err := NewQuorum(approvers, threshold)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// Rows 59 and 60 of the acceptance list.
func TestQuorumCountsApprovers(t *testing.T) {
	q := quorum(t, 2, "ada", "bob", "cleo")
	proposal := Proposal{ID: "p-1", Merge: true, Registry: mustParse(t, `{"revoked_kids":["k"]}`)}
	other := proposal
	other.ID = "p-2"
	by := func(names ...string) []Approval {
		var approvals []Approval
		for _, name := range names {
			approvals = append(approvals, Approval{name, proposal.Sign(signingKey(t, name))})
		}
		return approvals
	}
	for name, test := range map[string]struct {
		approvals []Approval
		want      []string // nil means that it is refused
	}{
		"two":                     {by("bob", "ada"), []string{"ada", "bob"}},
		"three":                   {by("cleo", "bob", "ada"), []string{"ada", "bob", "cleo"}},
		"two and one twice":       {by("bob", "ada", "bob"), []string{"ada", "bob"}},
		"none":                    {nil, nil},
		"one":                     {by("ada"), nil},
		"one twice":               {by("ada", "ada"), nil},
		"one that is not known":   {by("ada", "bob", "dora"), nil},
		"one of another proposal": {append(by("ada", "bob"), Approval{"cleo", other.Sign(signingKey(t, "cleo"))}), nil},
		"one of another's key":    {append(by("ada", "bob"), Approval{"cleo", proposal.Sign(signingKey(t, "ada"))}), nil},
		"one again, but badly":    {append(by("ada", "bob"), Approval{"ada", "x"}), nil},
		"over the registry only":  {append(by("ada"), Approval{"bob", seal.SignDetached(proposal.Registry, signingKey(t, "bob"))}), nil},
	} {
		p := proposal
		p.Approvals = test.approvals
		got, err := q.Verify(p)
		if (err == nil) != (test.want != nil) || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if q.Threshold() != 2 {
		t.Errorf("threshold %d", q.Threshold())
	}
}

// Weakness 12 of §13: two names of one key are one approver.
func TestPR18ApproversHaveKeysOfTheirOwn(t *testing.T) {
	keys := map[string]ed25519.PublicKey{"ada": verifyKey(t, "ada"), "bob": verifyKey(t, "bob")}
	for name, test := range map[string]struct {
		change    func(map[string]ed25519.PublicKey)
		threshold int
		ok        bool
	}{
		"two":            {func(map[string]ed25519.PublicKey) {}, 2, true},
		"one of two":     {func(map[string]ed25519.PublicKey) {}, 1, true},
		"three of two":   {func(map[string]ed25519.PublicKey) {}, 3, false},
		"none of two":    {func(map[string]ed25519.PublicKey) {}, 0, false},
		"less than none": {func(map[string]ed25519.PublicKey) {}, -1, false},
		"the same key":   {func(m map[string]ed25519.PublicKey) { m["eve"] = m["ada"] }, 2, false},
		"no key":         {func(m map[string]ed25519.PublicKey) { m["eve"] = nil }, 2, false},
		"no name":        {func(m map[string]ed25519.PublicKey) { m[""] = verifyKey(t, "x") }, 2, false},
		"nobody":         {func(m map[string]ed25519.PublicKey) { clear(m) }, 0, false},
	} {
		approvers := maps.Clone(keys)
		test.change(approvers)
		if _, err := NewQuorum(approvers, test.threshold); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Row 122 of the acceptance list.
func TestReadQuorumFile(t *testing.T) {
	keys := fmt.Sprintf(`"approver_keys":{"ada":%q,"bob":%q}`, seal.FormatB64(verifyKey(t, "ada")), seal.FormatB64(verifyKey(t, "bob")))
	for text, want := range map[string]int{
		`{` + keys + `}`:                           1,
		`{` + keys + `,"threshold":2}`:             2,
		`{` + keys + `,"threshold":3}`:             0,
		`{` + keys + `,"threshold":0}`:             0,
		`{` + keys + `,"threshold":2.0}`:           0,
		`{` + keys + `,"threshold":4294967297}`:    0,
		`{` + keys + `,"threshold":-4294967295}`:   0,
		`{"approver_keys":{"ada":"x"}}`:            0,
		`{"approver_keys":[]}`:                     0,
		`{"approver_keys":{}}`:                     0,
		`{}`:                                       0,
		`{` + keys + `,"threshold":null,"more":1}`: 0,
	} {
		q, err := ReadQuorumFile(mustParse(t, text))
		if (err == nil) != (want > 0) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err == nil && q.Threshold() != want {
			t.Errorf("%s: threshold %d, want %d", text, q.Threshold(), want)
		}
	}
}
