package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose loads a compose file, which follows the schema of Compose, without an unknown key.
func compose(t *testing.T, name string) (file string, project *types.Project) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(root, "deploy/compose", name))
	if err != nil {
		t.Fatal(err)
	}
	project, err = loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: types.Mapping{"SWPD_DATABASE_PASSWORD": "secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return file, project
}

// Both organisations run the image with a read-only root, no privileges, and a volume of their own for each directory of the image.
func TestComposeRunsTwoOrganisations(t *testing.T) {
	t.Parallel()
	file, project := compose(t, "compose.yaml")
	if len(project.Services) != 2 {
		t.Fatalf("services %v", project.ServiceNames())
	}
	confined(t, file, project)
}

// The three nodes have one configuration and one place of artifacts, and a name, an address and a data directory each. The
// configuration that swpd init writes, with the environment of a node, passes swpd check.
func TestComposeRunsThreeNodes(t *testing.T) {
	t.Parallel()
	file, project := compose(t, "cluster.yaml")
	if project.Services["database"].Image == "" || len(project.Services) != 4 {
		t.Fatalf("services %v", project.ServiceNames())
	}
	if inner := project.Networks["inner"]; !inner.Internal || len(project.Services["database"].Networks) != 1 {
		t.Errorf("the database is in %v", project.Services["database"].Networks)
	}
	delete(project.Services, "database")
	confined(t, file, project, "config", "artifacts")
	dir := t.TempDir()
	if out, err := program(t, "swpd", "init", "--dir", dir, "--host", "swpd", "--listen", "127.0.0.1:7777").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, s := range project.Services {
		cmd := program(t, "swpd", "check", "--config", filepath.Join(dir, "swpd.yaml"))
		for key, value := range s.Environment {
			cmd.Env = append(cmd.Env, key+"="+*value)
		}
		cmd.Env = append(cmd.Env, "SWPD_DATA="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if node, at := *s.Environment["SWPD_CLUSTER_NODE"], *s.Environment["SWPD_CLUSTER_ADDRESS"]; node != name || at != s.Networks["inner"].Aliases[0]+":7783" {
			t.Errorf("%s is called %s, and has the address %s", name, node, at)
		}
		if aliases := s.Networks["peers"].Aliases; !slices.Equal(aliases, []string{"swpd"}) {
			t.Errorf("peers know %s as %v", name, aliases)
		}
	}
}

// confined checks how services run the image. Each has its own volumes, except the named ones.
func confined(t *testing.T, file string, project *types.Project, shared ...string) {
	t.Helper()
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
			if other := owner[v.Source]; other != "" && !slices.Contains(shared, v.Source) {
				t.Errorf("%s and %s share %s", name, other, v.Source)
			}
			owner[v.Source] = name
			if want := "COPY --from=build --chown=65532:65532 /out/empty " + v.Target + "\n"; !strings.Contains(read(t, "deploy/Dockerfile"), want) {
				t.Errorf("the image has no directory %s, which its user may write", v.Target)
			}
		}
	}
}
