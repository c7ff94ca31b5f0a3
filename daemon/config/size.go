package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Size is a number of octets. It is written as a number or with a unit of KiB,
// MiB or GiB.
type Size int

var units = []struct {
	suffix string
	factor uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// ParseSize reads a Size from 0 to 2 GiB − 1.
func ParseSize(s string) (Size, error) {
	digits, factor := s, uint64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, factor = strings.TrimSpace(rest), u.factor
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n*factor > math.MaxInt32 {
		return 0, fmt.Errorf("config: size %q, want 0 to 2147483647 octets, such as 64KiB or 8MiB", s)
	}
	return Size(n * factor), nil
}

// String is the size with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range slices.Backward(units) {
		if f := Size(u.factor); s > 0 && s%f == 0 {
			return strconv.Itoa(int(s/f)) + u.suffix
		}
	}
	return strconv.Itoa(int(s))
}
