package access

import (
	"regexp"
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a", "", false},
		{"*", "", true},
		{"*", "a*b", true},
		{"*", "a/b", false},
		{"**", "", true},
		{"**", "a/b//c", true},
		{"***", "a/b", true},
		{"a*", "a", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"ab*ba", "aba", false},
		{"*/*", "a/b", true},
		{"*/*", "a/b/c", false},
		{"**/*", "a/b/c", true},
		{"*/**", "a/b/c", true},
		{"*/**", "/", true},
		{"**/**", "a", false},
		{"a*b*c", "abbc", true},
		{"a*b*c", "ab/bc", false},
		{"a*b**c", "ab/bc", true},
		{"a**b*c", "a/b/bc", true},
		{"a**b*c", "abb/c", false},
		{"*a*a*a", "aa", false},
		{"*.example.org", "x.example.org", true},
		{"*.example.org", "example.org", false},
		{"a?c", "abc", false},
		{"a?c", "a?c", true},
		{"[ab]", "a", false},
		{`a\*`, `a\*`, true},
		{`a\*`, `a*`, false},
		{"a\x00*", "a\x00b", true},
		{"\xff*", "\xff\xfe", true},
		{"*\xff*", "a\xffb", true},
		{"é*", "é", true},
	} {
		p, err := compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.match(tt.name); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.name, got)
		}
	}
}

// States reach over the ends of words.
func TestPatternsOfEveryLength(t *testing.T) {
	for n := 1; n <= MaxPattern-4; n++ {
		middle := strings.Repeat("ab", n/2+1)[:n]
		p, err := compile("**" + middle + "**")
		if err != nil {
			t.Fatal(err)
		}
		if !p.match(middle) || !p.match("aa/"+middle+"/b") || p.match(middle[1:]) || p.match(middle[:n-1]+"c") {
			t.Fatalf("wrong with %d characters between the wildcards", n)
		}
	}
}

// A matcher that goes back would take a lifetime for these. This one takes a
// step for each octet of the name and 64 of the pattern.
func TestHostileNamesTakeOnePass(t *testing.T) {
	name := strings.Repeat("a", 4096)
	for _, text := range []string{
		strings.Repeat("*a", MaxPattern/2-2) + "*b*",
		strings.Repeat("**a", MaxPattern/3-2) + "**b**",
		strings.Repeat("*a**a", MaxPattern/5-2) + "*b*",
		"**" + strings.Repeat("a", MaxPattern-5) + "b**",
	} {
		p, err := compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.match(name) {
			t.Errorf("%.20q matches", text)
		}
		if p.match(name+"c") || p.match(strings.Repeat("a/", 2048)) {
			t.Errorf("%.20q matches", text)
		}
	}
}

// expression is the same pattern for package regexp, which shares no code.
func expression(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for text != "" {
		stars := len(text) - len(strings.TrimLeft(text, "*"))
		switch {
		case stars > 1:
			b.WriteString(".*")
			text = text[stars:]
		case stars == 1:
			b.WriteString("[^/]*")
			text = text[1:]
		default:
			b.WriteString(regexp.QuoteMeta(text[:1]))
			text = text[1:]
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

func TestPatternsAgreeWithRegularExpressions(t *testing.T) {
	const alphabet = "a/*"
	words := []string{""}
	for at, n := 0, 0; n < 5; n++ {
		end := len(words)
		for ; at < end; at++ {
			for _, c := range alphabet {
				words = append(words, words[at]+string(c))
			}
		}
	}
	for _, text := range words[1:] {
		p, err := compile(text)
		if err != nil {
			t.Fatal(err)
		}
		oracle := expression(text)
		begun := make(map[string]bool) // what a match begins with
		for _, name := range words {
			match := oracle.MatchString(name)
			if p.match(name) != match {
				t.Fatalf("%q matches %q: %v", text, name, p.match(name))
			}
			for i := range len(name) + 1 {
				begun[name[:i]] = begun[name[:i]] || match
			}
		}
		for _, name := range words {
			// A beginning of two octets has a match of five, if any.
			if len(name) <= 2 && len(strings.ReplaceAll(text, "*", "")) <= 3 && p.begins(name) != begun[name] {
				t.Fatalf("%q begins with %q: %v", text, name, p.begins(name))
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("a*b**c", "ab/bc")
	f.Add("**a*a*", "aaaa/aa")
	f.Fuzz(func(t *testing.T, text, name string) {
		if strings.ContainsFunc(text+name, func(r rune) bool { return r > 127 || r < 0 }) {
			return // regexp works on characters, patterns on octets
		}
		p, err := compile(text)
		if err != nil {
			if text != "" && len(text) <= MaxPattern {
				t.Fatal(err)
			}
			return
		}
		if got, want := p.match(name), expression(text).MatchString(name); got != want {
			t.Errorf("%q matches %q: %v, want %v", text, name, got, want)
		}
	})
}

func BenchmarkHostileName(b *testing.B) {
	p, err := compile(strings.Repeat("*a", MaxPattern/2-2) + "*b*")
	if err != nil {
		b.Fatal(err)
	}
	name := strings.Repeat("a", 4096)
	b.SetBytes(int64(len(name)))
	for b.Loop() {
		p.match(name)
	}
}
