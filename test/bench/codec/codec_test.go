package codec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/test/bench/codec"
)

func BenchmarkDecode(b *testing.B) {
	for _, payload := range []int{64, 4 << 10} {
		cases, err := codec.Cases(payload)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range cases {
			b.Run(fmt.Sprintf("%s/%d", c.Name, payload), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(payload))
				if err := c.Run(b.N); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// TestReadingSWPAllocatesNothing holds the half of the comparison that is a
// promise about memory and not about time.
func TestReadingSWPAllocatesNothing(t *testing.T) {
	cases, err := codec.Cases(64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Name != codec.E1 && c.Name != codec.FrameE1 {
			continue
		}
		if err := c.Run(1); err != nil { // the first read takes the window
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { err = c.Run(100) }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, error %v", c.Name, n, err)
		}
	}
}

func TestMeasureTimesEachCaseInEachRound(t *testing.T) {
	cases, err := codec.Cases(64)
	if err != nil {
		t.Fatal(err)
	}
	times, err := codec.Measure(cases, 3, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if len(times[i]) != 3 {
			t.Errorf("%s: %d rounds, want 3", c.Name, len(times[i]))
		}
		for _, ns := range times[i] {
			if ns <= 0 {
				t.Errorf("%s: %v ns", c.Name, ns)
			}
		}
	}
}
