package audit

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func (k *kept) names(t *testing.T) (names []string) {
	t.Helper()
	for e, err := range Entries(t.Context(), k.dir, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Exchange() {
			names = append(names, e.Name)
		}
	}
	return names
}

func TestEntriesAreReadInOrder(t *testing.T) {
	k := open(t, t.TempDir(), newCertificate(t), 0)
	k.append(3)
	k.Append(&Record{Time: time.Now(), Begins: true, Name: "long"})
	k.close(t)
	names := k.names(t)
	if len(names) != 4 || names[0] != "method-0" || names[3] != "long" {
		t.Error(names)
	}
}

func TestAFollowerGetsWhatIsWrittenAndGoesOnInTheNextSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, t.TempDir(), newCertificate(t), 256<<10)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan string, 10_000)
		go func() {
			defer close(got)
			for e, err := range Entries(ctx, k.dir, true) {
				if err != nil {
					t.Error(err)
					return
				}
				if e.Exchange() {
					got <- e.Name
				}
			}
		}()
		const rounds, each = 20, 20
		for range rounds {
			k.append(each)
			time.Sleep(flushEvery)
		}
		time.Sleep(poll)
		synctest.Wait()
		if len(got) != rounds*each || k.number < 2 {
			t.Errorf("%d entries in %d segments, want %d in several", len(got), k.number, rounds*each)
		}
		cancel()
		for range got {
		}
		k.close(t)
	})
}

func TestAnExportVerifiesAsAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, t.TempDir(), newCertificate(t), 256<<10)
		began := time.Now()
		for range 60 {
			k.append(20)
			time.Sleep(time.Minute)
		}
		k.close(t)
		to := filepath.Join(t.TempDir(), "part")
		n, err := Export(t.Context(), k.dir, to, began.Add(50*time.Minute), began.Add(55*time.Minute))
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		all, err := segments(k.dir)
		if err != nil {
			t.Fatal(err)
		}
		if n == len(all) {
			t.Errorf("all %d segments were copied", n)
		}
		part := &kept{dir: to, cert: k.cert}
		if names := part.names(t); len(names) < 100 {
			t.Errorf("%d entries", len(names))
		}
		var faults []Finding
		v := Verification{Dir: to, Trust: k.trust, Part: true, Found: func(f Finding) { faults = append(faults, f) }}
		r, err := Verify(t.Context(), v)
		if err != nil || len(faults) > 0 || r.Proven == 0 {
			t.Errorf("%+v with %v, %v", r, faults, err)
		}
		v.Part = false
		if _, err := Verify(t.Context(), v); err != nil || len(faults) != 1 {
			t.Errorf("a part is taken for the whole: %v, %v", faults, err)
		}
		if _, err := Export(t.Context(), k.dir, to, began, began); err == nil {
			t.Error("an export into a directory that is not empty")
		}
	})
}
