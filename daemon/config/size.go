package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Size is a number of octets. It is written as a number or with a unit of KiB,
// MiB, GiB or TiB.
type Size int64

// maxSize is the largest Size: 1 PiB.
const maxSize = 1 << 50

var units = []struct {
	suffix string
	factor uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// ParseSize reads a Size from 0 to 1024 TiB.
func ParseSize(s string) (Size, error) {
	digits, factor := s, uint64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, factor = strings.TrimSpace(rest), u.factor
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > maxSize/factor {
		return 0, fmt.Errorf("size %q, want 0 to 1024TiB, such as 64KiB or 8MiB", s)
	}
	return Size(n * factor), nil
}

// String is the size with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range slices.Backward(units) {
		if f := Size(u.factor); s > 0 && s%f == 0 {
			return strconv.FormatInt(int64(s/f), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
