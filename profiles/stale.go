package profiles

import (
	"time"

	"github.com/slimwire/swp/e1"
)

// AppendStale appends an extension that says for how long a partner has been unreachable,
// in milliseconds and at least one.
func AppendStale(ext e1.Extensions, typ uint64, away time.Duration) e1.Extensions {
	return e1.AppendExtensionUvarint(ext, typ, uint64(max(1, away.Milliseconds())))
}

// StaleOf reads an extension of AppendStale, or returns 0.
func StaleOf(ext e1.Extensions, typ uint64) time.Duration {
	ms, _ := ext.LookupUvarint(typ)
	return time.Duration(min(ms, maxDeadline)) * time.Millisecond
}
