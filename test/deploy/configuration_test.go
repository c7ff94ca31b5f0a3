package deploy_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// mount lays out the projected volume of the Pod in dir, which stands for /etc/swpd, as a kubelet does it: the files are
// in a directory named by version, and links lead there. Another version takes the place of the one before in one step.
func mount(t *testing.T, r *release, secrets map[string]map[string]string, dir, version string) {
	t.Helper()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, version, name)
		top, _, _ := strings.Cut(name, "/")
		link := filepath.Join(dir, top)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), os.FileMode(*projected(t, r).DefaultMode)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", top), link); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	for _, source := range projected(t, r).Sources {
		secret, ok := secrets[source.Secret.Name]
		if source.Secret.Name == r.Secret.Name {
			secret, ok = r.Secret.StringData, true
		}
		if !ok {
			t.Fatalf("the volume has the Secret %s, which nobody makes", source.Secret.Name)
		}
		if source.Secret.Items == nil {
			for key, text := range secret {
				write(key, text)
			}
		}
		for _, item := range source.Secret.Items {
			write(item.Path, secret[item.Key])
		}
	}
	next := filepath.Join(dir, "..new")
	if err := errors.Join(os.Symlink(version, next), os.Rename(next, filepath.Join(dir, "..data"))); err != nil {
		t.Fatal(err)
	}
}

func projected(t *testing.T, r *release) *core.ProjectedVolumeSource {
	t.Helper()
	for _, v := range r.StatefulSet.Spec.Template.Spec.Volumes {
		if v.Name == "config" && v.Projected != nil {
			return v.Projected
		}
	}
	t.Fatal("no projected volume config")
	return nil
}

// keys returns what a Secret of an identity has.
func keys(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if out, err := program(t, "swpd", "init", "--dir", dir, "--name", "spiffe://east.example/swpd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := make(map[string]string)
	for key, file := range map[string]string{"tls.crt": "server.crt", "tls.key": "server.key", "ca.crt": "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(dir, "pki", file))
		if err != nil {
			t.Fatal(err)
		}
		found[key] = string(text)
	}
	return found
}

// pod is what the chart renders, with its volume on this machine, and the environment of its container.
type pod struct {
	*release
	secrets map[string]map[string]string
	dir     string
	env     []string
}

func installed(t *testing.T, args []string) *pod {
	t.Helper()
	identity := keys(t)
	p := &pod{
		release: render(t, args...),
		secrets: map[string]map[string]string{"east-identity": identity, "east-swpd-identity": identity, "east-metrics": identity},
		dir:     t.TempDir(),
	}
	if _, ok := p.Secret.StringData["west-ca.pem"]; ok {
		p.Secret.StringData["west-ca.pem"] = identity["ca.crt"]
	}
	mount(t, p.release, p.secrets, p.dir, "..1")
	for _, e := range p.container(t).Env {
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.FieldRef != nil:
			e.Value = map[string]string{"metadata.name": "east-swpd-0", "status.podIP": "127.0.0.1"}[e.ValueFrom.FieldRef.FieldPath]
		default:
			e.Value = "a secret"
		}
		e.Value = strings.Replace(e.Value, "$(POD_IP)", "127.0.0.1", 1)
		p.env = append(p.env, e.Name+"="+p.here(e.Value))
	}
	p.env = append(p.env, "SWPD_DATA="+t.TempDir())
	return p
}

// here returns text with the path of the volume on this machine.
func (p *pod) here(text string) string { return strings.Replace(text, "/etc/swpd", p.dir, 1) }

func TestConfigurationOfTheChartPassesCheck(t *testing.T) {
	eachSet(t, func(t *testing.T, args []string) {
		cmd := program(t, "swpd", "check")
		cmd.Env = append(cmd.Env, installed(t, args).env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "every user") {
			t.Errorf("%s", out)
		}
	})
}

// swpd runs with the arguments and the volume of the Pod, answers its probes, and takes up a Secret that was changed.
func TestPodAnswersItsProbes(t *testing.T) {
	t.Parallel()
	p := installed(t, sets(t)["secret"])
	container := p.container(t)
	var args []string
	for _, arg := range container.Args {
		args = append(args, p.here(arg))
	}
	cmd := program(t, "swpd", args...)
	cmd.Env = append(append(cmd.Env, p.env...), "SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:0", "SWPD_LISTENERS_1_ADDRESS=swp+quic://127.0.0.1:0",
		"SWPD_ADMIN=127.0.0.1:0", "SWPD_HEALTH=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }).Stop() // which ends the lines
	lines := bufio.NewScanner(log)
	until := func(message string) (line map[string]any) {
		t.Helper()
		for lines.Scan() {
			t.Log(lines.Text())
			line = nil
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatalf("%v: %s", err, lines.Text())
			}
			if line["msg"] == message {
				return line
			}
		}
		t.Fatalf("swpd ended without a line %q", message)
		return nil
	}
	health := until("serving")["health"]
	for _, probe := range []*core.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		response, err := http.Get(fmt.Sprint("http://", health, probe.HTTPGet.Path))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", probe.HTTPGet.Path, response.Status, body)
		}
	}

	p.release = render(t, append(sets(t)["secret"], "--set-json=config.access.rules=[{\"identity\": \"spiffe://east.example/**\"}]")...)
	mount(t, p.release, p.secrets, p.dir, "..2")
	until("access rules reloaded")

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until("stopped")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
