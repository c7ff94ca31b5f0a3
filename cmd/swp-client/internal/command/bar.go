package command

import (
	"fmt"
	"strings"
	"time"
)

// bar is how far a transfer is, as text. It is used by one goroutine at a time.
type bar struct {
	verb  string
	began time.Time
	start uint64 // what was there when it began
	begun bool
}

// barWidth is how many characters a bar has.
const barWidth = 24

// text says how many octets of how many have arrived by now. A total of 0 is not
// known.
func (b *bar) text(done, total uint64, now time.Time) string {
	if !b.begun {
		b.start, b.begun, b.began = done, true, now
	}
	var s strings.Builder
	s.WriteString(b.verb)
	if total > 0 {
		full := int(float64(done) / float64(total) * barWidth)
		full = min(max(full, 0), barWidth)
		fmt.Fprintf(&s, " [%s%s] %d %%", strings.Repeat("█", full), strings.Repeat("·", barWidth-full), int(float64(done)/float64(total)*100))
	}
	fmt.Fprintf(&s, " %s", amount(float64(done)))
	if total > 0 {
		fmt.Fprintf(&s, " of %s", amount(float64(total)))
	}
	if seconds := now.Sub(b.began).Seconds(); seconds >= 0.5 && done > b.start {
		rate := float64(done-b.start) / seconds
		fmt.Fprintf(&s, ", %s/s", amount(rate))
		if left := float64(total) - float64(done); left > 0 {
			fmt.Fprintf(&s, ", %v left", time.Duration(left/rate*float64(time.Second)).Round(time.Second))
		}
	}
	return s.String()
}

// amount is a number of octets for people.
func amount(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%.0f %s", n, units[i])
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
