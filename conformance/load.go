package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slimwire/swp/vectors"
)

// Load reads a descriptor in the kit's form, in ours or in the poc_ form, and
// the fixtures that it names, which lie beside it. Documents that it names are
// looked for at the nearest go.mod above it.
func Load(path string) (*Vector, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Parse is Load of a descriptor whose text is given: path says where it belongs, and need
// not be there.
func Parse(path string, text []byte) (*Vector, error) {
	d, kit := vectors.Parse(text)
	if kit != nil {
		var err error
		if d, err = parsePoC(text); err != nil {
			return nil, kit
		}
	}
	l := loader{dir: filepath.Dir(path), d: d}
	v, err := l.vector()
	if err != nil {
		return nil, err
	}
	v.Path = path
	return v, nil
}

// loader turns one descriptor into a Vector.
type loader struct {
	dir string
	d   *vectors.Descriptor
}

var (
	outcomes      = []string{"accept", "reject", "process_check"}
	stepOutcomes  = []string{"", "accept", "reject", "none"}
	evidenceTypes = []string{"runtime", "process", "mixed"}
)

func (l *loader) vector() (*Vector, error) {
	d, e := l.d, &l.d.Expected
	if e.Assert != nil {
		fillIn(d)
	}
	switch {
	case d.VectorID == "":
		return nil, errors.New("missing vector_id")
	case e.Outcome == "":
		return nil, errors.New("missing expected.outcome")
	case e.EvidenceType == "":
		return nil, errors.New("missing expected.evidence_type")
	case !slices.Contains(outcomes, e.Outcome):
		return nil, fmt.Errorf("expected.outcome is %q, want one of %q", e.Outcome, outcomes)
	case !slices.Contains(evidenceTypes, e.EvidenceType):
		return nil, fmt.Errorf("expected.evidence_type is %q, want one of %q", e.EvidenceType, evidenceTypes)
	}
	v := &Vector{ID: d.VectorID, Category: d.Category, Outcome: e.Outcome, Code: e.Code, ErrorCode: e.ErrorCode}
	if a := e.Assertions; a != nil && a.Artifact != "" {
		root, err := moduleRoot(l.dir)
		v.artifact = document{path: filepath.Join(root, filepath.FromSlash(a.Artifact)), name: a.Artifact, states: a.States, lost: err}
	}
	if name := e.Fixture.EvidenceFile; name != "" {
		if err := plainName(name); err != nil {
			return nil, err
		}
		v.evidence = &document{path: filepath.Join(l.dir, name), name: name}
	}
	if e.Outcome == "process_check" {
		if v.evidence == nil {
			return nil, errors.New("a process check without an evidence_file")
		}
		return v, nil
	}
	first, err := l.scene("", l.whole())
	if err != nil {
		return nil, err
	}
	v.scenes = append(v.scenes, first)
	for i, s := range e.Fixture.Siblings {
		name := fmt.Sprintf("sibling %d", i+1)
		next, err := l.scene(name, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v.scenes = append(v.scenes, next)
	}
	return v, nil
}

// fillIn completes a descriptor in the form of the draft's example, which gives the expected
// envelope as expected.assert, with the members that the example leaves out: it is played, its octets are in
// the file of its id, and its category is the namespace of its id.
func fillIn(d *vectors.Descriptor) {
	e := &d.Expected
	e.EvidenceType = cmp.Or(e.EvidenceType, "runtime")
	if e.Fixture.BinFile == "" && e.Fixture.Transcript == nil {
		e.Fixture.BinFile = d.VectorID + ".bin"
	}
	if namespace, _, ok := strings.Cut(d.VectorID, "_"); ok && d.Category == "" {
		d.Category = namespace
	}
}

// whole is the vector itself in the form of a sibling.
func (l *loader) whole() vectors.Sibling {
	e := &l.d.Expected
	s := vectors.Sibling{BinFile: e.Fixture.BinFile, Transcript: e.Fixture.Transcript, Expect: new(vectors.Expect)}
	return s
}

// scene loads the vector itself, with an empty name, or a sibling of it.
func (l *loader) scene(name string, s vectors.Sibling) (scene, error) {
	sc := scene{name: name, why: s.Why, main: -1}
	sc.input = l.circumstances(&s)
	steps := s.Transcript
	if steps == nil {
		if s.BinFile == "" && s.Hex == nil {
			return sc, errNoOctets
		}
		if s.Expect == nil {
			return sc, errors.New("no expect")
		}
		steps = []vectors.Step{{Dir: vectors.In, BinFile: s.BinFile, Hex: s.Hex, End: true, Expect: s.Expect}}
	} else {
		sc.allOuts = true
		if name != "" && (s.BinFile != "" || s.Hex != nil || s.Expect != nil) {
			return sc, errors.New("a transcript beside a bin_file, hex or expect")
		}
	}
	if name == "" {
		for i, st := range steps {
			if st.Dir != vectors.In || st.BinFile != s.BinFile {
				continue
			}
			if sc.main >= 0 {
				return sc, fmt.Errorf("bin_file %q is named by two steps", s.BinFile)
			}
			sc.main = i
		}
		if sc.main < 0 {
			return sc, fmt.Errorf("bin_file %q is named by no step", s.BinFile)
		}
	}
	for i, st := range steps {
		if err := l.step(&sc, st, i == sc.main); err != nil {
			return sc, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return sc, nil
}

// circumstances returns the circumstances of a sibling: those of the vector unless it has
// its own.
func (l *loader) circumstances(s *vectors.Sibling) Input {
	in := Input{Category: l.d.Category, Setup: vectors.Serve}
	if a := l.d.Expected.Assertions; a != nil {
		in.Clock, in.Channel = a.Clock, a.Channel
		if a.Setup != "" {
			in.Setup = a.Setup
		}
		if a.Limits != nil {
			in.Limits = *a.Limits
		}
		if a.Policy != nil {
			in.Policy = *a.Policy
		}
	}
	if s.Limits != nil {
		in.Limits = *s.Limits
	}
	if s.Policy != nil {
		in.Policy = *s.Policy
	}
	if s.Clock != nil {
		in.Clock = s.Clock
	}
	if s.Channel != nil {
		in.Channel = s.Channel
	}
	if s.Setup != "" {
		in.Setup = s.Setup
	}
	in.Policy.Label = "" // a description, not a circumstance
	return in
}

func (l *loader) step(sc *scene, st vectors.Step, main bool) error {
	if !slices.Contains([]string{vectors.In, vectors.Out, vectors.App, vectors.Told, vectors.Wait}, st.Dir) {
		return fmt.Errorf("dir is %q", st.Dir)
	}
	expect := st.Expect
	switch {
	case main:
		x, err := l.mainExpect(expect)
		if err != nil {
			return err
		}
		expect = x
	case expect == nil && st.Dir == vectors.Told:
		expect = new(vectors.Expect)
	case st.Dir == vectors.Wait && (st.BinFile != "" || st.Hex != nil || expect != nil || st.AtMs == 0):
		return errors.New("a wait says at_ms and nothing else")
	case expect == nil && st.Dir != vectors.App && st.Dir != vectors.Wait:
		return errors.New("no expect")
	case expect != nil && !slices.Contains(stepOutcomes, expect.Outcome):
		return fmt.Errorf("outcome is %q, want one of %q", expect.Outcome, stepOutcomes)
	case st.Dir == vectors.In && expect.Outcome == "":
		return errors.New("no expect.outcome")
	}
	if expect != nil && expect.SameAs != nil && (expect.SameAs.Step < 1 || expect.SameAs.Step > len(sc.expect)) {
		return fmt.Errorf("same_as names step %d", expect.SameAs.Step)
	}
	conn := st.Conn
	if conn == "" {
		conn = "a"
	}
	out := Step{Dir: st.Dir, Conn: conn, AtMs: st.AtMs, End: st.End, Answers: st.Answers, Relates: st.Relates, Gathers: st.Gathers, Continues: st.Continues, Flip: st.Flip}
	var frame []byte
	octets, err := l.octets(st.BinFile, st.Hex)
	switch {
	case err != nil:
		return err
	case octets == nil && (st.Dir == vectors.App || st.Dir == vectors.Told || st.Dir == vectors.In && !st.End):
		return errNoOctets
	case st.Dir == vectors.Out || st.Dir == vectors.Told:
		frame = octets
	default:
		out.Octets = octets
	}
	sc.input.Steps = append(sc.input.Steps, out)
	sc.expect = append(sc.expect, expect)
	sc.whys = append(sc.whys, st.Why)
	sc.frames = append(sc.frames, frame)
	return nil
}

// mainExpect completes the expectation of the main step by the official one.
func (l *loader) mainExpect(x *vectors.Expect) (*vectors.Expect, error) {
	var e vectors.Expect
	if x != nil {
		e = *x
	}
	if e.Outcome != "" || e.Code != "" || e.ErrorCode != "" || e.Envelope != nil {
		return nil, errors.New("outcome, codes and envelope of the main step are those of the vector")
	}
	official := &l.d.Expected
	e.Outcome, e.Code, e.ErrorCode = official.Outcome, official.Code, official.ErrorCode
	// On rejected frames the kit's assertions on the envelope are boilerplate
	// and contradict the octets.
	if e.Outcome != "accept" {
		return &e, nil
	}
	e.Envelope = official.Assert
	if a := official.Assertions; a != nil {
		if a.Envelope != nil {
			e.Envelope = a.Envelope
		}
		if a.MsgType != nil || a.ProfileID != nil {
			var env vectors.Envelope
			if e.Envelope != nil {
				env = *e.Envelope
			}
			if a.MsgType != nil {
				env.MsgType = a.MsgType
			}
			if a.ProfileID != nil {
				env.ProfileID = a.ProfileID
			}
			e.Envelope = &env
		}
	}
	return &e, nil
}

var errNoOctets = errors.New("no bin_file and no hex")

// octets returns those that a step has or names, nil if it does neither.
func (l *loader) octets(file string, inline vectors.Hex) ([]byte, error) {
	switch {
	case file == "":
		return inline, nil
	case inline != nil:
		return nil, errors.New("hex beside a bin_file")
	}
	return l.read(file)
}

func (l *loader) read(name string) ([]byte, error) {
	if err := plainName(name); err != nil {
		return nil, err
	}
	octets, err := os.ReadFile(filepath.Join(l.dir, name))
	if octets == nil && err == nil {
		octets = []byte{}
	}
	return octets, err
}

// plainName refuses a file that is not beside its descriptor.
func plainName(name string) error {
	if name != filepath.Base(name) || !filepath.IsLocal(name) {
		return fmt.Errorf("file %q is not beside its descriptor", name)
	}
	return nil
}

// moduleRoot is the nearest directory from dir upwards that has a go.mod.
func moduleRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("documents are looked up beside the go.mod of the project under test, and there is none above the descriptor")
		}
		dir = up
	}
}
