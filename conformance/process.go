package conformance

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// document is a file that a vector relies on beside its fixtures.
type document struct {
	path   string
	name   string // as the descriptor names it
	states string // a sentence that it must contain
	lost   error  // why path is not known
}

// check returns why the document is not valid evidence, or nil.
func (d *document) check() error {
	if d.path == "" {
		return nil
	}
	text, err := d.read()
	if err != nil {
		return err
	}
	// Line breaks are layout, not content.
	if !strings.Contains(strings.Join(strings.Fields(text), " "), d.states) {
		return fmt.Errorf("document %q does not state %q", d.name, d.states)
	}
	return nil
}

func (d *document) read() (string, error) {
	if d.lost != nil {
		return "", fmt.Errorf("document %q: %w", d.name, d.lost)
	}
	text, err := os.ReadFile(d.path)
	if err != nil {
		return "", fmt.Errorf("document %q: %w", d.name, err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", fmt.Errorf("document %q is empty", d.name)
	}
	return string(text), nil
}

// review is what a reviewer signed.
type review struct {
	vectorID, evidenceType, document, sum, reviewer, date, decision, rationale string
}

var (
	field       = regexp.MustCompile(`(?m)^[-*] ([A-Z][A-Za-z0-9 -]*):[ \t]*(.*(?:\n  .*)*)`)
	placeholder = regexp.MustCompile(`(?i)\b(TODO|TBD|FIXME|XXX|placeholder)\b`)
)

// parseReview reads the list of "- Field: value" lines of an evidence file.
func parseReview(text string) (*review, error) {
	if found := placeholder.FindString(text); found != "" {
		return nil, fmt.Errorf("evidence is unfinished: it says %q", found)
	}
	var r review
	fields := map[string]*string{
		"Vector ID": &r.vectorID, "Evidence type": &r.evidenceType, "Document reviewed": &r.document, "SHA-256": &r.sum,
		"Reviewer": &r.reviewer, "Date": &r.date, "Decision": &r.decision, "Rationale": &r.rationale,
	}
	for _, m := range field.FindAllStringSubmatch(text, -1) {
		into, known := fields[m[1]]
		if !known {
			continue
		}
		if *into != "" {
			return nil, fmt.Errorf("evidence names %q twice", m[1])
		}
		*into = strings.Join(strings.Fields(m[2]), " ")
	}
	for _, name := range []string{"Vector ID", "Evidence type", "Document reviewed", "SHA-256", "Reviewer", "Date", "Decision", "Rationale"} {
		if *fields[name] == "" {
			return nil, fmt.Errorf("evidence has no %q", name)
		}
	}
	return &r, nil
}

// checkProcess judges a process vector: the outcome is process_check if the
// document exists and the evidence says who reviewed it, when, and that it
// passed. A document that was changed after its review has another SHA-256.
func (v *Vector) checkProcess(today time.Time) error {
	if v.artifact.path == "" {
		return errors.New("no assertions.artifact: nothing was reviewed")
	}
	document, err := v.artifact.read()
	if err != nil {
		return err
	}
	text, err := v.evidence.read()
	if err != nil {
		return err
	}
	r, err := parseReview(text)
	if err != nil {
		return err
	}
	date, err := time.Parse(time.DateOnly, r.date)
	switch {
	case err != nil:
		return fmt.Errorf("evidence has the date %q, want year-month-day", r.date)
	case date.After(today.AddDate(0, 0, 1)):
		return fmt.Errorf("evidence has the date %s, which is still to come", r.date)
	case v.evidence.name != r.vectorID+".evidence.md":
		return fmt.Errorf("evidence %q is for vector %q", v.evidence.name, r.vectorID)
	case r.evidenceType != "process":
		return fmt.Errorf("evidence is of type %q, want process", r.evidenceType)
	case !strings.Contains(r.document, v.artifact.name):
		return fmt.Errorf("evidence is of a review of %q, not of %q", r.document, v.artifact.name)
	case !strings.HasPrefix(strings.ToLower(r.decision), "pass"):
		return fmt.Errorf("evidence decides %q", r.decision)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(document))); !strings.EqualFold(r.sum, sum) {
		return fmt.Errorf("document %q was changed after its review of %s: its SHA-256 is %s, and %s was reviewed", v.artifact.name, r.date, sum, r.sum)
	}
	return nil
}
