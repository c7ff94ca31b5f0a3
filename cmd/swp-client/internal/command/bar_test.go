package command

import (
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	began := time.Unix(1000, 0)
	b := &bar{verb: "uploading"}
	for _, test := range []struct {
		done, total uint64
		after       time.Duration
		want        string
	}{
		{512, 4096, 0, "uploading [███·····················] 12 % 512 B of 4.0 KiB"},
		{2048, 4096, time.Second, "uploading [████████████············] 50 % 2.0 KiB of 4.0 KiB, 1.5 KiB/s, 1s left"},
		{4096, 4096, 2 * time.Second, "uploading [████████████████████████] 100 % 4.0 KiB of 4.0 KiB, 1.8 KiB/s"},
		{3 << 30, 0, 10 * time.Second, "uploading 3.0 GiB, 307.2 MiB/s"},
	} {
		if got := b.text(test.done, test.total, began.Add(test.after)); got != test.want {
			t.Errorf("%d of %d: %q, want %q", test.done, test.total, got, test.want)
		}
	}
}
