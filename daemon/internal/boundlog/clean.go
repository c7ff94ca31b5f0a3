package boundlog

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/slimwire/swp/internal/plain"
)

const (
	// MaxValue is the maximum number of octets of a value in the line.
	MaxValue = 256

	// maxFields keeps a line below 8 KiB: 24 values with their keys, the message
	// and the constant fields.
	maxFields = 24
)

// Clean returns s fit for a log. A line break becomes "; ". Control and format
// characters, other line separators and invalid UTF-8 become escapes. The result is
// truncated to MaxValue; a quote or a backslash counts twice, because JSON escapes it.
func Clean(s string) string {
	if fits(s) {
		return s
	}
	const ellipsis = "…"
	var b strings.Builder
	cost := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+n]
		var size int
		switch {
		case r == '\n':
			piece = "; "
			size = len(piece)
		case r == utf8.RuneError && n == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
			size = len(piece) + 1
		case unprintable(r):
			piece = fmt.Sprintf(`\u%04x`, r)
			size = len(piece) + 1
		default:
			size = jsonSize(r, n)
		}
		if cost += size; cost > MaxValue-len(ellipsis) {
			b.WriteString(ellipsis)
			break
		}
		b.WriteString(piece)
		i += n
	}
	return b.String()
}

// CleanLines is Clean for each line of a text, such as the problems of a
// configuration.
func CleanLines(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	more := len(lines) - maxLines
	lines = lines[:min(len(lines), maxLines)]
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

// maxLines is the maximum number of lines of a text.
const maxLines = 16

// fits reports whether s needs neither an escape nor truncation.
func fits(s string) bool {
	if len(s) > MaxValue {
		return false
	}
	size := 0
	for i, r := range s {
		if unprintable(r) || r == utf8.RuneError && s[i] != "\uFFFD"[0] {
			return false
		}
		size += jsonSize(r, utf8.RuneLen(r))
	}
	return size <= MaxValue
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// jsonSize is the size of a printable rune of n octets in the output of zap's encoder.
func jsonSize(r rune, n int) int {
	switch r {
	case '"', '\\':
		return 2
	case '<', '>', '&':
		return 6
	}
	return n
}

// clean returns the fields with clean values. Fields of other kinds, such as objects
// and reflected values, become text.
func clean(fields []zap.Field) []zap.Field {
	out := make([]zap.Field, 0, min(len(fields), maxFields))
	for _, f := range fields {
		if len(out) == maxFields {
			break
		}
		switch f.Type {
		case zapcore.SkipType:
			continue
		case zapcore.StringType:
			f.String = Clean(f.String)
		case zapcore.BoolType, zapcore.DurationType, zapcore.TimeType, zapcore.TimeFullType,
			zapcore.Float64Type, zapcore.Float32Type,
			zapcore.Int64Type, zapcore.Int32Type, zapcore.Int16Type, zapcore.Int8Type,
			zapcore.Uint64Type, zapcore.Uint32Type, zapcore.Uint16Type, zapcore.Uint8Type:
		case zapcore.ByteStringType:
			b, _ := f.Interface.([]byte)
			f = zap.String(f.Key, Clean(string(b)))
		case zapcore.ErrorType:
			f = zap.String(f.Key, Clean(plain.Text(text(f))))
		default:
			f = zap.String(f.Key, Clean(text(f)))
		}
		out = append(out, f)
	}
	return out
}

// text formats a field of any other kind. A panic of a method of the value becomes
// text as well, and does not reach the caller.
func text(f zap.Field) (s string) {
	defer func() {
		if v := recover(); v != nil {
			s = fmt.Sprintf("(panic: %v)", v)
		}
	}()
	enc := zapcore.NewMapObjectEncoder()
	f.AddTo(enc)
	return fmt.Sprint(enc.Fields[f.Key])
}
