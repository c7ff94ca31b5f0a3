package sdl_test

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/vectors/datatest"
)

// expectation is what a case of the data says, as far as it is about envelopes.
type expectation struct {
	Case        string
	BodyFile    string `json:"body_file"`
	ContentType string `json:"content_type"`
	Now         time.Time
	Server      struct {
		Limits struct {
			MaxBytes int `json:"max_bytes"`
			MaxDepth int `json:"max_depth"`
			MaxArray int `json:"max_array_len"`
			MaxHops  int `json:"max_hops"`
		}
		VersionPolicy json.RawMessage `json:"version_policy"`
	}
	Expected []struct {
		Outcome   string
		Code      sdl.Code
		Retryable bool
		Details   json.RawMessage
	}
	Canonical *struct {
		Bytes  int
		SHA256 string
	} `json:"canonical_json"`
}

// secured are the cases whose faults an envelope does not show: signatures,
// policies, replay and what is encrypted.
var secured = []string{"50", "51", "52", "53", "54", "55", "56", "57", "58", "59", "60", "61", "62", "63", "64", "68", "70", "71", "72", "73", "74", "75", "76"}

func TestEnvelopesOfTheData(t *testing.T) {
	files := datatest.Glob(t, "sdl", "*.expect.json")
	if len(files) != 56 {
		t.Errorf("%d cases, want 56", len(files))
	}
	for _, file := range files {
		var want expectation
		if err := json.Unmarshal(datatest.Read(t, "sdl/"+filepath.Base(file)), &want); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		t.Run(want.Case, func(t *testing.T) { play(t, want) })
	}
}

// body returns the request of a case.
func (x expectation) body(t *testing.T) []byte {
	octets := datatest.Read(t, "sdl/"+x.BodyFile)
	if !strings.HasSuffix(x.BodyFile, ".cbor.json") {
		return octets
	}
	var file struct {
		Body string `json:"body_base64url"`
	}
	if err := json.Unmarshal(octets, &file); err != nil {
		t.Fatal(err)
	}
	body, err := base64.RawURLEncoding.DecodeString(file.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func play(t *testing.T, x expectation) {
	v, refused := received(t, x)
	if x.Canonical != nil && (v.JSONSize() != x.Canonical.Bytes || canonical.Hash(v) != x.Canonical.SHA256) {
		t.Errorf("%d octets with %s, want %d with %s", v.JSONSize(), canonical.Hash(v), x.Canonical.Bytes, x.Canonical.SHA256)
	}
	want := x.Expected[0]
	for _, number := range secured {
		if strings.HasPrefix(x.Case, number) {
			want.Outcome = "accept"
		}
	}
	switch {
	case want.Outcome == "accept":
		if refused != nil {
			t.Error(refused)
		}
	case refused == nil:
		t.Errorf("accepted, want %s", want.Code)
	case refused.Code != want.Code || refused.Retryable != want.Retryable:
		t.Errorf("%s, retryable %v (%v), want %s, %v", refused.Code, refused.Retryable, refused, want.Code, want.Retryable)
	case len(want.Details) > 0:
		details, err := canonical.ParseJSON(want.Details)
		if err != nil || !refused.Details.Equal(details) {
			t.Errorf("details %v, want %v (%v)", refused.Details, details, err)
		}
	case !refused.Details.IsNull() && !namesALimit(refused.Details):
		t.Errorf("details %v, want none, or the limit that was exceeded", refused.Details)
	}
}

// namesALimit reports whether details have nothing but a limit of cap.limits: the data leaves
// open that a refusal of size, depth or length says which.
func namesALimit(details canonical.Value) bool {
	for name := range details.Members() {
		if !slices.Contains([]string{"max_bytes", "max_depth", "max_array_len"}, name) {
			return false
		}
	}
	return details.Len() == 1
}

// received does with a body what a server does before it looks at keys. The data
// lowers the limits of envelopes, not that of bodies.
func received(t *testing.T, x expectation) (canonical.Value, *sdl.Error) {
	form, refused := sdl.FormOfMedia(x.ContentType)
	if refused != nil {
		return canonical.Value{}, refused
	}
	v, refused := sdl.Decode(x.body(t), form, sdl.Limits{})
	if refused != nil {
		return v, refused
	}
	_, refused = sdl.Validate(v, sdl.Options{Limits: sdl.Limits(x.Server.Limits), Versions: x.versions(t), Now: func() time.Time { return x.Now }})
	return v, refused
}

func (x expectation) versions(t *testing.T) sdl.VersionPolicy {
	if len(x.Server.VersionPolicy) == 0 {
		return sdl.VersionPolicy{}
	}
	v, err := canonical.ParseJSON(x.Server.VersionPolicy)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sdl.ParseVersionPolicy(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// divergences are the rows that an envelope without keys shows; each has a note
// of what the public implementation does with it.
func TestEnvelopesOfTheDivergences(t *testing.T) {
	octets := datatest.Read(t, "sdl/divergence.jsonl")
	played := 0
	for line := range strings.Lines(string(octets)) {
		var row struct {
			ID          string
			Why         string
			Bodies      []string
			Encoding    string `json:"bodies_encoding"`
			ContentType string `json:"content_type"`
			Now         time.Time
			Server      map[string]any
			Recommended []struct {
				Outcome   string
				Code      sdl.Code
				Retryable bool
			}
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Server["policy"] != nil || row.ID == "div-a-12-sig-unverified" {
			continue
		}
		played++
		body, want := []byte(row.Bodies[0]), row.Recommended[0]
		if row.Encoding == "base64url" {
			var err error
			if body, err = base64.RawURLEncoding.DecodeString(row.Bodies[0]); err != nil {
				t.Fatal(err)
			}
		}
		form, refused := sdl.FormOfMedia(row.ContentType)
		var v canonical.Value
		if refused == nil {
			v, refused = sdl.Decode(body, form, sdl.Limits{})
		}
		if refused == nil {
			_, refused = sdl.Validate(v, sdl.Options{Now: func() time.Time { return row.Now }})
		}
		switch {
		case want.Outcome == "accept" && refused != nil:
			t.Errorf("%s: %v", row.ID, refused)
		case want.Outcome == "accept":
		case refused == nil:
			t.Errorf("%s: accepted, but %s", row.ID, row.Why)
		case refused.Code != want.Code || refused.Retryable != want.Retryable:
			t.Errorf("%s: %v, retryable %v, want %s, %v", row.ID, refused, refused.Retryable, want.Code, want.Retryable)
		}
	}
	if played < 20 {
		t.Errorf("%d rows", played)
	}
}
