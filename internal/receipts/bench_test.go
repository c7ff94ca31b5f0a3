package receipts

import (
	"testing"

	"github.com/slimwire/swp/internal/audit"
)

// BenchmarkReceipt is a receipt about 1,000 exchanges, with all that both ends do for it but
// for the disk.
func BenchmarkReceipt(b *testing.B) {
	near, far := meet(b)
	b.ReportAllocs()
	for i := range b.N {
		b.StopTimer()
		asks(near, far, i*audit.MaxExchanges, audit.MaxExchanges)
		near.kept, far.kept = nil, nil
		l := near.book.of(far.identity)
		far.book.of(near.identity).room = burst
		b.StartTimer()
		l.send(b.Context(), link{})
	}
	if s := near.status(); s.Confirmed != uint64(b.N)*audit.MaxExchanges {
		b.Errorf("%+v", s)
	}
}
