// Package masked removes secrets from the text of other programs, before it is logged, stored or shown.
//
// What is a secret is a guess by its form: the value of a name such as API_KEY or token, the credentials of an
// Authorization header, the user of a URL, a PEM block, a token with a known prefix, and long text that looks
// random. A password without any of these forms stays.
package masked

import (
	"bytes"
	"regexp"
	"strings"
)

// Mark stands in place of a secret.
const Mark = "[masked]"

const (
	// named ends names of secrets. A name that is only "key" is one before "=", or in quotes.
	named = `(?:token|secret|password|passwd|pwd|passphrase|credential|authorization|cookie|session_?id|signature)`

	// value is a text in quotes, or a word with the scheme of an Authorization header before it.
	value = `("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|(?:(?:bearer|basic|token) +)?\S+)`
)

var (
	user     = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@`)
	scheme   = regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9+/=._~-]{8,}`)
	assigned = regexp.MustCompile(`(?i)([\w.-]*(?:` + named + `|key)s?\d*["']?\s*=>?\s*)` + value)
	told     = regexp.MustCompile(`(?i)((?:[\w.-]*` + named + `|[\w.-]+key|["']key)s?\d*["']?\s*:\s*)` + value)
	flag     = regexp.MustCompile(`(?i)(--?[\w-]*(?:` + named + `|key)\s+)(\S+)`)
	known    = regexp.MustCompile(`\beyJ[\w-]{8,}(?:\.[\w-]*)*|\b(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|AKIA|ASIA|AIza)[A-Za-z0-9_-]{12,}`)
	long     = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
)

// words are values that say that there is no secret.
var words = map[string]bool{
	"a": true, "are": true, "cannot": true, "does": true, "empty": true, "expired": true, "false": true, "has": true, "invalid": true, "is": true,
	"malformed": true, "missing": true, "must": true, "no": true, "none": true, "not": true, "null": true, "required": true, "the": true, "true": true,
	"undefined": true, "unknown": true, "unset": true, "was": true, "wrong": true,
}

// Text returns a text with Mark in place of each part that looks like a secret.
func Text(s string) string {
	if strings.Contains(s, "://") {
		s = user.ReplaceAllString(s, "${1}"+Mark+"@")
	}
	if strings.Contains(s, "=") {
		s = replace(assigned, s)
	}
	if strings.Contains(s, ":") {
		s = replace(told, s)
	}
	if strings.Contains(s, "-") {
		s = replace(flag, s)
	}
	s = scheme.ReplaceAllString(s, "${1} "+Mark)
	s = known.ReplaceAllString(s, Mark)
	return long.ReplaceAllStringFunc(s, func(part string) string {
		if random(part) {
			return Mark
		}
		return part
	})
}

// replace replaces the second group of matches, unless that is one of words.
func replace(pattern *regexp.Regexp, s string) string {
	return pattern.ReplaceAllStringFunc(s, func(match string) string {
		parts := pattern.FindStringSubmatch(match)
		if words[strings.ToLower(strings.TrimRight(parts[2], ".,;:!)"))] {
			return match
		}
		return parts[1] + Mark
	})
}

// random reports whether a long text of the letters of base64 looks random. A path does not.
func random(s string) bool {
	if parts := strings.Split(s, "/"); len(parts) > 1 && len(s)/len(parts) < 16 {
		for _, part := range parts {
			if len(part) >= 32 && random(part) {
				return true
			}
		}
		return false
	}
	var upper, lower, digits, hex, others int
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		default:
			others++
		}
		if c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
			hex++
		}
	}
	switch letters := upper + lower; {
	case digits == 0 || letters == 0:
		return false
	case hex == digits+letters && hex >= 32:
		return true
	case upper > 0 && lower > 0:
		return digits >= 2
	}
	return others == 0 && digits >= 6
}

// Lines finds PEM blocks, which Text does not see, in a text that comes line by line. The zero value is ready.
type Lines struct{ inside bool }

// Inside takes the next line. It reports whether the line is part of a PEM block, so that Mark stands in its place.
func (l *Lines) Inside(line []byte) bool {
	inside := l.inside || bytes.Contains(line, []byte("-----BEGIN "))
	l.inside = inside && !bytes.Contains(line, []byte("-----END "))
	return inside
}
