// Package claims derives the claims that this implementation may make, and the reasons
// against the others.
//
// A claim rests on two runs of the vectors, default and strict, and on the values in force:
// the configuration and the constants of the code. All statements are computed, so that
// none goes beyond the evidence. A namespace counts if each of its vectors in the catalogue
// is in both runs, passed in both without fallback, and had the same outcome in both.
//
// Specification: docs/conformance.md §1 and §3.
package claims

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/slimwire/swp/conformance"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Input is what a Document is made of. All of it is required.
type Input struct {
	Default, Strict *conformance.Report // of all vectors; see conformance.ReadReport
	Config          *config.Config      // the deployment that the values in force are of
	Matrix          Matrix              // the versions that are published
	Build           Build
	Commands        []string // how the runs were started
}

// Build says which program it is about.
type Build struct {
	Version   string `json:"version"`
	GitSHA    string `json:"git_sha"`
	Dirty     bool   `json:"dirty,omitempty"` // the tree has changes that are in no commit
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
}

// Document is a set of claims with their evidence, as JSON and, by Markdown,
// for people.
type Document struct {
	SchemaVersion int        `json:"schema_version"`
	Date          string     `json:"date"` // of the strict run
	Build         Build      `json:"build"`
	Commands      []string   `json:"commands"`
	Classes       []Claim    `json:"classes"`
	Profiles      []Profile  `json:"profiles"`
	Others        []Claim    `json:"other_claims"`
	Refused       []Refusal  `json:"refused"`
	Versions      Matrix     `json:"versions"`
	Namespaces    []Standing `json:"namespaces"`
	Deployment    Deployment `json:"deployment"`
}

// Claim is a permitted statement about the implementation.
type Claim struct {
	Claim      string   `json:"claim"`
	Title      string   `json:"title,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Vectors    int      `json:"vectors,omitempty"`
	Evidence   []string `json:"evidence"`
}

// Profile is the claim of one profile, beside the classes.
type Profile struct {
	Name      string `json:"name"`
	ID        uint64 `json:"profile_id"`
	Version   string `json:"version"`
	Namespace string `json:"namespace"`
	Vectors   int    `json:"vectors"`
	Payload   string `json:"payload"` // P1, or JSON

	Evidence []string `json:"evidence"`
}

// Refusal is a statement that is not permitted, and why.
type Refusal struct {
	Claim   string   `json:"claim"`
	Reasons []string `json:"reasons"`
}

// maker makes a document.
type maker struct {
	in       Input
	runs     runs
	doc      *Document
	refused  map[string]bool // claims that were
	standing map[string]*Standing
}

// Make returns the permitted claims. It is an error only if the input
// contradicts the code; a claim without evidence is refused in the document.
func Make(in Input) (*Document, error) {
	if err := in.Matrix.check(); err != nil {
		return nil, err
	}
	m := &maker{in: in, runs: examine(in.Default, in.Strict), refused: make(map[string]bool), standing: make(map[string]*Standing)}
	m.doc = &Document{
		SchemaVersion: 1, Date: in.Strict.Run.TimestampUTC, Build: in.Build, Commands: in.Commands, Versions: in.Matrix,
		Classes: []Claim{}, Profiles: []Profile{}, Others: []Claim{}, Refused: []Refusal{}, Deployment: deploymentOf(in.Config),
	}
	if sha := in.Strict.Run.RunnerGitSHA; sha != in.Build.GitSHA {
		m.runs.reasons = append(m.runs.reasons, fmt.Sprintf("the strict run is of commit %q, the build of %q", sha, in.Build.GitSHA))
	}
	if in.Build.Dirty || in.Default.Run.Dirty || in.Strict.Run.Dirty {
		m.runs.reasons = append(m.runs.reasons, fmt.Sprintf("the runs or the build are of a tree with changes that commit %s does not have", in.Build.GitSHA))
	}
	for _, s := range m.runs.namespaces {
		m.standing[s.Namespace] = s
	}
	for _, v := range m.doc.Deployment.Open {
		if s := m.standing[v.Namespace]; len(v.Values) == 0 {
			s.refuse("%s: nothing says what is in force here: %s", v.Namespace, v.About)
		}
	}
	m.profiles()
	m.classes()
	m.others()
	for _, s := range m.runs.namespaces {
		m.doc.Namespaces = append(m.doc.Namespaces, *s)
	}
	return m.doc, nil
}

// reasons says why what asks for the namespaces cannot be claimed; empty means
// that it can.
func (m *maker) reasons(namespaces ...string) []string {
	list := slices.Clone(m.runs.reasons)
	for _, name := range namespaces {
		list = append(list, m.standing[name].reasons...)
	}
	return list
}

func (m *maker) refuse(claim string, reasons []string) {
	m.refused[claim] = true
	m.doc.Refused = append(m.doc.Refused, Refusal{claim, reasons})
}

// classes claims a class where the namespaces of the table hold, and all lower
// classes are claimed too.
func (m *maker) classes() {
	var lower []string
	for _, class := range conformance.Classes() {
		c := Claim{Claim: "SWP " + class.Name, Title: class.Title, Namespaces: class.Namespaces}
		reasons := m.reasons(class.Namespaces...)
		for _, name := range lower {
			if m.refused[name] {
				reasons = append(reasons, name+", a lower class, is not claimed")
			}
		}
		lower = append(lower, c.Claim)
		if len(reasons) > 0 {
			m.refuse(c.Claim, reasons)
			continue
		}
		for _, name := range class.Namespaces {
			c.Vectors += m.standing[name].Vectors
		}
		c.Evidence = []string{"all.default.json", "all.strict.json"}
		m.doc.Classes = append(m.doc.Classes, c)
	}
}

// profiles claims each profile that is served and published with a version, and
// whose namespace holds. Without that its namespace holds for no class either.
func (m *maker) profiles() {
	served := make(map[string]uint64)
	for _, p := range all.Tables() {
		served[p.Name] = p.ID
	}
	for _, s := range m.runs.namespaces[len(foundation):] {
		id, ok := served[s.Namespace]
		version := m.in.Matrix.version("profile " + strconv.FormatUint(id, 10))
		switch {
		case !ok:
			s.refuse("%s: no such profile is served", s.Namespace)
		case version == "":
			s.refuse("%s: profile %d is not in the support matrix", s.Namespace, id)
		}
		if reasons := m.reasons(s.Namespace); len(reasons) > 0 {
			m.refuse("profile "+s.Namespace, reasons)
			continue
		}
		payload := "P1"
		if id == mcpmap.ProfileID {
			payload = "JSON"
		}
		m.doc.Profiles = append(m.doc.Profiles, Profile{
			s.Namespace, id, version, s.Namespace, s.Vectors, payload,
			[]string{"all.default.json", "all.strict.json", "conformance/vectors/" + s.Namespace + "_*.json", "docs/versioning-compatibility.md: the version"},
		})
	}
}

// foundation are the namespaces that belong to no profile; the first ones of the
// catalogue.
var foundation = []string{"core", "e1", "s1"}

// others claims what docs/conformance.md §1 names beside classes and profiles.
func (m *maker) others() {
	report := []string{"all.default.json", "all.strict.json", "docs/error-codes.md"}
	m.other(Claim{
		Claim: "Core", Namespaces: []string{"core", "e1"}, Title: "Core " + strconv.Itoa(e1.Version) + " with E1",
		Evidence: append(slices.Clone(report), "the limits in force, below", "docs/profile-error-path.md: unknown profiles, with and without an answer",
			"core_0033: docs/versioning-compatibility.md and its evidence file"),
	})
	m.other(Claim{
		Claim: "S1", Namespaces: []string{"s1"}, Title: "mutual authentication before the first frame, fail closed",
		Evidence: append(slices.Clone(report), "peer authentication, below", "docs/operator-guide.md: identities and trust",
			"samples.jsonl: security events of the s1 vectors; the reason in the log is compared"),
	})
	p1 := Claim{Claim: "P1-based", Title: "profiles whose payloads are P1", Evidence: []string{
		"go test ./profiles/p1: declared types, malformed payloads, unknown fields of every wire type",
		"go test ./profiles/...: TestContract of each profile plays these against its own messages",
		"ERR_INVALID_PROFILE_PAYLOAD in the reject codes of their namespaces, below",
	}}
	reasons := slices.Clone(m.runs.reasons)
	for _, p := range m.doc.Profiles {
		if p.Payload == "P1" {
			p1.Namespaces = append(p1.Namespaces, p.Namespace)
		}
	}
	if len(p1.Namespaces) == 0 {
		reasons = append(reasons, "no profile with P1 payloads is claimed")
	}
	m.other(p1, reasons...)

	reasons = nil
	for _, needed := range []string{"Core", "S1"} {
		if m.refused[needed] {
			reasons = append(reasons, needed+" is not claimed")
		}
	}
	if len(m.doc.Profiles) == 0 {
		reasons = append(reasons, "no profile is claimed")
	}
	m.other(Claim{
		Claim: "Federation-ready", Title: "Core, S1 and at least one profile",
		Evidence: append(slices.Clone(report), "docs/operator-guide.md: identities and trust, who may do what; docs/configuration.md: access",
			"docs/versioning-compatibility.md: change control"),
	}, reasons...)
}

func (m *maker) other(c Claim, reasons ...string) {
	reasons = append(m.reasons(c.Namespaces...), reasons...)
	if len(reasons) > 0 {
		m.refuse(c.Claim, slices.Compact(reasons))
		return
	}
	for _, name := range c.Namespaces {
		c.Vectors += m.standing[name].Vectors
	}
	m.doc.Others = append(m.doc.Others, c)
}
