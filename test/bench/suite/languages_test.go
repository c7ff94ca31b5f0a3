package suite

import "testing"

func TestEveryWayToReadALanguageIsMeasured(t *testing.T) {
	report, err := Run(t.Context(), Options{Parts: []string{PartLanguage}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	if len(report.Languages) == 0 {
		t.Error("nothing was measured")
	}
	for _, row := range report.Languages {
		if row.PerSecond.Median <= 0 || row.Nanos.Median <= 0 {
			t.Errorf("%s: %+v", row.Name, row)
		}
		if (row.Subject != "") != (row.Ratio != nil) {
			t.Errorf("%s: compared with %q, ratio %v", row.Name, row.Subject, row.Ratio)
		}
	}
}
