package suite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func figure(now float64) GuardFigure {
	return guardFigures([]guardRow{{name: "rpc", server: true}}, map[string]*guarded{"rpc server": {
		side:   []float64{3 * now, now, 2 * now, now / 9},
		raw:    []float64{2, 3, 1, 7},
		others: []float64{0, guardOthers, 0.05, guardOthers + 0.01},
	}}, Guard{0.1, map[string]float64{"rpc server": 2}})[0]
}

func TestGuardReportsWhatIsAboveItsMargin(t *testing.T) {
	for _, row := range []struct {
		now    float64
		slower bool
	}{{2.2, false}, {2.201, true}, {1, false}} {
		r := GuardReport{Rows: []GuardFigure{figure(row.now)}}
		if err := r.Check(); (err != nil) != row.slower {
			t.Errorf("%v: %v, want slower %v", row.now, err, row.slower)
		}
	}
}

func TestARowWithoutAFigureFailsTheGuard(t *testing.T) {
	r := GuardReport{Rows: guardFigures([]guardRow{{name: "new", server: true}}, map[string]*guarded{"new server": {[]float64{1}, []float64{1}, []float64{0}}}, Guard{Margin: 0.1})}
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), "new server") {
		t.Error(err)
	}
}

func TestARowWithoutEnoughQuietRoundsIsNotJudged(t *testing.T) {
	of := func(quiet int) error {
		m := new(guarded)
		for i := range 9 {
			others := 0.5
			if i < quiet {
				others = guardOthers
			}
			m.side, m.raw, m.others = append(m.side, 3), append(m.raw, 1), append(m.others, others)
		}
		r := GuardReport{Rows: guardFigures([]guardRow{{name: "rpc", server: true}}, map[string]*guarded{"rpc server": m}, Guard{0.1, map[string]float64{"rpc server": 2}})}
		return r.Check()
	}
	if err := of(guardQuiet - 1); !errors.Is(err, ErrDisturbed) {
		t.Errorf("%v, want that it is not judged", err)
	}
	if err := of(guardQuiet); err == nil || errors.Is(err, ErrDisturbed) {
		t.Errorf("%v, want that it is slower", err)
	}
}

func TestGuardIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.json")
	if err := WriteGuard(path, Guard{Margin: 0.1}, &GuardReport{Rows: []GuardFigure{figure(2.3456)}}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadGuard(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Guard{0.1, map[string]float64{"rpc server": 2.346}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplayMeasuresTheServerEachTime(t *testing.T) {
	opts := Options{}.withDefaults()
	f, err := newFleet(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	run := replay(swpdKey)
	for i := range 2 {
		m, err := run(f)
		if err != nil {
			t.Fatal(err)
		}
		if cpu := serverCPU(m); cpu <= 0 || cpu > 1000 {
			t.Errorf("time %d: %v µs for an event", i+1, cpu)
		}
	}
}

// TestTheGuardHasAFigureForEachRow holds the file that make bench-guard reads against the rows.
func TestTheGuardHasAFigureForEachRow(t *testing.T) {
	guard, err := ReadGuard(filepath.Join("..", "guard.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, row := range guardRows() {
		for side := range row.sides(measurement{}) {
			want++
			if name := row.name + " " + side; guard.Figures[name] <= 0 {
				t.Errorf("no figure of %q", name)
			}
		}
	}
	if len(guard.Figures) != want {
		t.Errorf("%d figures, want the %d of the rows", len(guard.Figures), want)
	}
}
