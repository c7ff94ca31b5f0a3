package swp_test

import (
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// comments returns what the comments of a file say, each as one line of text. Of files
// that are not Go it is all of the file.
func comments(t *testing.T, file, text string) []string {
	t.Helper()
	if !strings.HasSuffix(file, ".go") {
		return []string{continued.ReplaceAllString(text, " ")}
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, group := range parsed.Comments {
		said = append(said, strings.Join(strings.Fields(group.Text()), " "))
	}
	return said
}

var (
	continued = regexp.MustCompile(`\n\s*(?://|#)?\s*`)

	// A document, then its sections: "SWP Core §5 and §12", "MCP mapping §1 to §3".
	cited    = regexp.MustCompile(`([\w./-]+(?: [\w.-]+)?)[ (]+(§\d+(?:\.\d+)*(?:(?:, | and | to )§\d+(?:\.\d+)*)*)`)
	section  = regexp.MustCompile(`§(\d+(?:\.\d+)*)`)
	part     = regexp.MustCompile(`(?:Slipstream,? |\()(?:part )?([A-F]\d?)(?: (?:to|and) ([A-F]\d))?[ .,)]`)
	ruleName = regexp.MustCompile(`\bR\d{1,2}\b`)
	rowName  = regexp.MustCompile(`\b(?:` + families + `)-\d\d\b`)
	weakness = regexp.MustCompile(`[Ww]eakness (\d+)`)
	accepted = regexp.MustCompile(`Rows? (\d+)(?: (?:and|to) (\d+))? of the acceptance list`)
	absent   = regexp.MustCompile(`\b(?:DESIGN|STYLE|PERFORMANCE)\b|SWP conformance §`)
)

// public are documents that are published elsewhere.
var public = regexp.MustCompile(`^(?:RFC \d+|HTML standard|standard|A2A 1\.0)$`)

// labels are the documents that comments cite, and the headings behind them.
var labels = map[string]string{
	"SWP Core": "SWP Core", "Core": "SWP Core", "SWP profiles": "SWP profiles", "MCP mapping": "MCP mapping",
	"mcp-a2a mapping": "MCP mapping", "A2A-SDL": "A2A-SDL", "ABUSE": "", "abuse": "",
}

// implied is the document of a section without one, by the folder.
var implied = []struct{ folder, label string }{{"sdl/", "A2A-SDL"}, {"profiles/", "SWP profiles"}}

// targets are what can be cited: the headings of our documents, and the rules and rows of
// their tables.
func targets(docs map[string]string) map[string]bool {
	found := make(map[string]bool)
	for _, name := range []string{"docs/wire.md", "docs/languages.md", "docs/abuse.md"} {
		for _, m := range heading.FindAllStringSubmatch(docs[name], -1) {
			words := strings.Fields(m[1])
			for n := 1; n <= min(3, len(words)); n++ {
				found[strings.TrimSuffix(strings.Join(words[:n], " "), ":")] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (R\d+) \|`).FindAllStringSubmatch(docs["docs/wire.md"], -1) {
		found[m[1]] = true
	}
	_, text, _ := strings.Cut(docs["docs/languages.md"], "## A2A-SDL §13")
	weaknesses, text, _ := strings.Cut(text, "## A2A-SDL §15")
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(weaknesses, -1) {
		found["weakness "+m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+)(?:(?: to|,) (\d+))? \|`).FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[1]) // digits
		last, err := strconv.Atoi(m[2])
		if err != nil {
			last = first
		}
		for row := first; row <= last; row++ {
			found["row "+strconv.Itoa(row)] = true
		}
	}
	return found
}

// missing returns the citations in a comment that lead nowhere.
func missing(file, comment string, docs map[string]string, targets map[string]bool) []string {
	var wrong []string
	check := func(target string) {
		if !targets[target] {
			wrong = append(wrong, target)
		}
	}
	for _, rule := range ruleName.FindAllString(comment, -1) {
		check(rule)
	}
	for _, m := range weakness.FindAllStringSubmatch(comment, -1) {
		check("weakness " + m[1])
	}
	for _, m := range accepted.FindAllStringSubmatch(comment, -1) {
		check("row " + m[1])
		if m[2] != "" {
			check("row " + m[2])
		}
	}
	wrong = append(wrong, absent.FindAllString(comment, -1)...)
	if strings.Contains(comment, "Slipstream") {
		for _, m := range part.FindAllStringSubmatch(comment, -1) {
			check("Slipstream " + m[1])
			if m[2] != "" {
				check("Slipstream " + m[2])
			}
		}
	}
	if !strings.Contains(comment, "§") {
		return wrong
	}
	rest := cited.ReplaceAllStringFunc(comment, func(all string) string {
		m := cited.FindStringSubmatch(all)
		document, sections := m[1], section.FindAllString(m[2], -1)
		label, known := document, false
		for words := strings.Fields(document); len(words) > 0 && !known; words = words[1:] {
			if label = strings.Join(words, " "); public.MatchString(label) {
				return ""
			}
			_, known = labels[label]
			if strings.HasSuffix(label, ".md") {
				for _, s := range sections {
					if numbered := "\n## " + strings.TrimPrefix(s, "§") + ". "; !strings.Contains(docs[label], numbered) {
						wrong = append(wrong, label+" "+s)
					}
				}
				return ""
			}
		}
		if !known {
			return strings.Join(sections, " ")
		}
		for _, s := range sections {
			check(strings.TrimSpace(labels[label] + " " + s))
		}
		return ""
	})
	for _, s := range section.FindAllString(rest, -1) {
		label := ""
		for _, i := range implied {
			if strings.HasPrefix(file, i.folder) {
				label = i.label
			}
		}
		check(label + " " + s)
	}
	return wrong
}

// What comments cite stands in a document of this repository, or is published by others.
func TestCitationsHaveATarget(t *testing.T) {
	docs := documents(t)
	all := targets(docs)
	citations := 0
	for file, text := range sources(t, ".go", ".proto", ".yaml", ".sh", "Makefile", ".mk") {
		for _, row := range rowName.FindAllString(text, -1) {
			if citations++; !all[row] {
				t.Errorf("%s: docs/abuse.md has no row %s", file, row)
			}
		}
		if file == "citations_test.go" || strings.HasPrefix(file, "vectors/") {
			continue
		}
		for _, comment := range comments(t, file, text) {
			citations += len(section.FindAllString(comment, -1))
			for _, target := range missing(file, comment, docs, all) {
				t.Errorf("%s: no document has what is cited as %q: %.120q", file, target, comment)
			}
		}
	}
	if citations < 200 {
		t.Errorf("only %d citations", citations)
	}
}

func TestCitationsWithoutATargetAreFound(t *testing.T) {
	docs := documents(t)
	all := targets(docs)
	for comment, want := range map[string]string{
		"the table of SWP Core §5 and §12, RFC 9000 §8":   "",
		"SWP Core §5 and §99":                             "SWP Core §99",
		"(mcp-a2a mapping §4, R9)":                        "",
		"is refused (R44)":                                "R44",
		"Specification: Slipstream A1 to A6, and part D.": "",
		"Specification: Slipstream A1 to A9.":             "Slipstream A9",
		"docs/conformance.md §3 says":                     "",
		"docs/conformance.md §33 says":                    "docs/conformance.md §33",
		"the smaller identity (DESIGN §4)":                "DESIGN  §4",
		"in the order of §2.2":                            " §2.2",
		"Rows 28 to 32 of the acceptance list":            "",
		"Row 99 of the acceptance list":                   "row 99",
		"ABUSE §1: depth 512":                             "",
		"Weakness 12 of A2A-SDL §13, and weakness 77":     "weakness 77",
	} {
		if got := strings.Join(missing("transport/x.go", comment, docs, all), " "); got != want {
			t.Errorf("%s: %q, want %q", comment, got, want)
		}
	}
	if got := missing("sdl/x.go", "in the order of §2.2", docs, all); len(got) > 0 {
		t.Errorf("a section without a document in sdl/: %q", got)
	}
}
