package deploy_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// The compose file follows the schema of Compose, without an unknown key, and both organisations run the image as it is
// meant to run: with a read-only root, no privileges, and a directory of their own for each that the image declares.
func TestComposeRunsTwoOrganisations(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs(filepath.Join(root, "deploy/compose/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Services) != 2 {
		t.Fatalf("services %v", project.ServiceNames())
	}
	owner := make(map[string]string)
	for name, s := range project.Services {
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || len(s.SecurityOpt) != 1 || s.User != "" {
			t.Errorf("%s is not confined: %+v", name, s)
		}
		if grace := s.StopGracePeriod; grace == nil || time.Duration(*grace) != 15*time.Second {
			t.Errorf("%s has %v to stop", name, grace)
		}
		if dockerfile := filepath.Join(s.Build.Context, s.Build.Dockerfile); dockerfile != filepath.Clean(filepath.Join(filepath.Dir(file), "../Dockerfile")) {
			t.Errorf("%s is built from %s", name, dockerfile)
		}
		if limit := *s.Environment["GOMEMLIMIT"]; size(t, limit) > int64(s.MemLimit)*4/5 {
			t.Errorf("%s: GOMEMLIMIT is %s of %d octets", name, limit, s.MemLimit)
		}
		for _, v := range s.Volumes {
			if other := owner[v.Source]; other != "" {
				t.Errorf("%s and %s share %s", name, other, v.Source)
			}
			owner[v.Source] = name
			if want := "COPY --from=build --chown=65532:65532 /out/empty " + v.Target + "\n"; !strings.Contains(read(t, "deploy/Dockerfile"), want) {
				t.Errorf("the image has no directory %s, which its user may write", v.Target)
			}
		}
	}
}
