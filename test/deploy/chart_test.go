package deploy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	cm "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	prom "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	disruption "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	strict "sigs.k8s.io/yaml"
)

const chart = "deploy/helm/swpd"

// kube is the version of Kubernetes that charts are rendered for: the one of k8s.io/api.
const kube = "--kube-version=v1.37.0"

// release is what the chart renders: one document of each kind, and the Services by name.
type release struct {
	Certificate    *cm.Certificate
	ServiceMonitor *prom.ServiceMonitor
	StatefulSet    *apps.StatefulSet
	Secret         *core.Secret
	Account        *core.ServiceAccount
	Policy         *networking.NetworkPolicy
	Budget         *disruption.PodDisruptionBudget
	Services       map[string]*core.Service
}

// template returns the command that renders the chart as the release east in the namespace swp.
func template(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return program(t, "helm", append([]string{"template", "east", filepath.Join(root, chart), "--namespace=swp", kube}, args...)...)
}

// render renders the chart, and decodes every document: an unknown kind, and a key that its type does not have, fail the test.
func render(t *testing.T, args ...string) *release {
	t.Helper()
	cmd := template(t, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	r := &release{Services: make(map[string]*core.Service)}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(out)))
	for {
		document, err := documents.Read()
		if err == io.EOF {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		var of struct{ APIVersion, Kind string }
		if err := strict.Unmarshal(document, &of); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		into, ok := map[string]func() any{
			"apps/v1 StatefulSet":                     func() any { return once(t, &r.StatefulSet) },
			"cert-manager.io/v1 Certificate":          func() any { return once(t, &r.Certificate) },
			"monitoring.coreos.com/v1 ServiceMonitor": func() any { return once(t, &r.ServiceMonitor) },
			"networking.k8s.io/v1 NetworkPolicy":      func() any { return once(t, &r.Policy) },
			"policy/v1 PodDisruptionBudget":           func() any { return once(t, &r.Budget) },
			"v1 Secret":                               func() any { return once(t, &r.Secret) },
			"v1 Service":                              func() any { return new(core.Service) },
			"v1 ServiceAccount":                       func() any { return once(t, &r.Account) },
		}[strings.TrimSpace(of.APIVersion+" "+of.Kind)]
		if !ok {
			t.Fatalf("the kind %q of %q has no type here", of.Kind, of.APIVersion)
		}
		object := into()
		if err := strict.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: %v\n%s", of.Kind, err, document)
		}
		if service, ok := object.(*core.Service); ok {
			r.Services[service.Name] = service
		}
	}
}

// once makes an object, of which the chart may have one.
func once[T any](t *testing.T, into **T) *T {
	t.Helper()
	if *into != nil {
		t.Fatalf("two documents for a %T", *into)
	}
	*into = new(T)
	return *into
}

// sets are the files of values that come with the chart, as the arguments that name them.
func sets(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, chart, "ci", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no values", err)
	}
	found := make(map[string][]string)
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = []string{"--values=" + file}
	}
	return found
}

// eachSet runs a test with each of them.
func eachSet(t *testing.T, test func(t *testing.T, args []string)) {
	for name, args := range sets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, args)
		})
	}
}

func TestHelmFindsNoFaultInTheChart(t *testing.T) {
	eachSet(t, func(t *testing.T, args []string) {
		out, err := program(t, "helm", append([]string{"lint", "--strict", kube, filepath.Join(root, chart)}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "1 chart(s) linted, 0 chart(s) failed") || strings.Contains(string(out), "[WARNING]") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// The values that come with the chart render every kind of document, and leave out each that can be left out.
func TestChartRendersWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	all := sets(t)
	r := render(t, all["full"]...)
	if r.Certificate == nil || r.ServiceMonitor == nil || r.StatefulSet == nil || r.Secret == nil || r.Account == nil || r.Policy == nil || r.Budget == nil {
		t.Errorf("a document is missing: %+v", r)
	}
	if got := slices.Sorted(maps.Keys(r.Services)); !slices.Equal(got, []string{"east-swpd", "east-swpd-metrics", "east-swpd-quic", "east-swpd-tls"}) {
		t.Errorf("services %v", got)
	}
	r = render(t, all["quic"]...)
	if r.Certificate != nil || r.ServiceMonitor != nil || r.Account != nil || r.Policy != nil || r.Budget != nil {
		t.Errorf("a document that was not asked for: %+v", r)
	}
	if got := slices.Sorted(maps.Keys(r.Services)); !slices.Equal(got, []string{"east-swpd", "east-swpd-metrics", "east-swpd-quic"}) {
		t.Errorf("services %v", got)
	}
}

func TestChartRefusesWithTheReason(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ set, want string }{
		"two replicas":               {"replicas=2", "replicas: 2, want 1, or 0 to stop it: without cluster.store the store is a database in one volume, and one process at a time can use it"},
		"no artifacts":               {"cluster.store=postgres://db/swpd", "cluster.artifacts: missing; artifacts are not in PostgreSQL"},
		"artifacts of each replica":  {"cluster.store=postgres://db/swpd,cluster.artifacts=/var/lib/swpd-artifacts", "cluster.claim: missing; /var/lib/swpd-artifacts has to be one volume"},
		"artifacts elsewhere":        {"cluster.store=postgres://db/swpd,cluster.artifacts=/srv/a,cluster.claim=a", "cluster.artifacts: /srv/a is not in /var/lib/swpd-artifacts"},
		"a bucket and a volume":      {"cluster.store=postgres://db/swpd,cluster.artifacts=s3://a?endpoint=https://s3,cluster.claim=a", "cluster.claim: has no effect"},
		"a cluster without a store":  {"cluster.secret=a", "cluster.secret: has no effect without cluster.store"},
		"a store of another kind":    {"cluster.store=mysql://db/swpd", "at '/cluster/store'"},
		"a password":                 {"cluster.store=postgres://swpd:secret@db/swpd", "at '/cluster/store'"},
		"a store beside the chart's": {"config.store=postgres://db/swpd", "config.store: the chart sets it"},
		"a name beside the chart's":  {"env[0].name=SWPD_CLUSTER_NODE", "env/0/name"},
		"one port for two":           {"cluster.store=postgres://db/swpd,cluster.artifacts=s3://a?endpoint=https://s3,cluster.port=7777", "cluster.port: 7777 is the port of listeners.quic.port"},
		"an unknown key":             {"replicaz=1", "additional properties 'replicaz' not allowed"},
		"an unknown key below":       {"metrics.tocken=x", "additional properties 'tocken' not allowed"},
		"no image":                   {"image.repository=", "image.repository: missing; no image is published"},
		"no identity":                {"identity.secret=", "identity: missing; name a Secret"},
		"two identities":             {"identity.certManager.uri=spiffe://a.example/b", "identity: secret, certManager and spiffe are different identities"},
		"metrics without a key":      {"identity.secret=,identity.spiffe.socket=a.sock,metrics.enabled=true,metrics.tokenDigests={8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1}", "metrics.tls: missing"},
		"a socket elsewhere":         {"identity.secret=,identity.spiffe.socket=../a.sock", "at '/identity/spiffe/socket'"},
		"a key of the chart":         {"config.health=off", "config.health: the chart sets it"},
		"no listener":                {"listeners.tls.port=0,listeners.quic.port=0", "listeners: a port of tls or quic has to be other than 0"},
		"a port of root":             {"health.port=1023", "health/port"},
		"one port twice":             {"health.port=7777", "listeners.tls.port: 7777 is the port of health.port"},
		"metrics without a token":    {"metrics.enabled=true", "metrics.tokenDigests: missing"},
		"a token as it is":           {"metrics.enabled=true,metrics.tokenDigests={secret}", "metrics/tokenDigests/0"},
		"a monitor without metrics":  {"metrics.serviceMonitor.enabled=true", "has no effect without metrics.enabled"},
		"settings without effect":    {"listeners.tls.service.externalTrafficPolicy=Local", "at '/listeners/tls/service/type'"},
		"an end before the drain":    {"terminationGracePeriodSeconds=11", "terminationGracePeriodSeconds"},
		"a file over the main one":   {"files.swpd\\.yaml=x", "invalid propertyName 'swpd.yaml'"},
		"a file elsewhere":           {"files.a/b=x", "invalid propertyName 'a/b'"},
		"a variable of the chart":    {"env[0].name=SWPD_CONFIG", "env/0/name"},
		"a disruption of two":        {"podDisruptionBudget.maxUnavailable=2", "podDisruptionBudget/maxUnavailable"},
		"a volume that many can use": {"persistence.accessModes={ReadWriteMany}", "persistence/accessModes/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := template(t, append(sets(t)["secret"], "--set="+test.set)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("%v, want %q in\n%.1000s", err, test.want, out)
			}
		})
	}
}

// container returns the one container of the Pod.
func (r *release) container(t *testing.T) core.Container {
	t.Helper()
	if pod := r.StatefulSet.Spec.Template.Spec; len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("containers %+v", pod.Containers)
	}
	return r.StatefulSet.Spec.Template.Spec.Containers[0]
}

// configuration returns the addresses in the configuration, as name of the port: number/protocol.
func (r *release) configuration(t *testing.T) map[string]string {
	t.Helper()
	var c struct {
		Listeners []struct{ Address string }
		Health    string
		Metrics   struct{ Address string }
	}
	if err := strict.Unmarshal([]byte(r.Secret.StringData["swpd.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, l := range c.Listeners {
		if port, ok := strings.CutPrefix(l.Address, "swp+tls://0.0.0.0:"); ok {
			found["tls"] = port + "/TCP"
		} else if port, ok := strings.CutPrefix(l.Address, "swp+quic://0.0.0.0:"); ok {
			found["quic"] = port + "/UDP"
		} else {
			t.Errorf("listener %q", l.Address)
		}
	}
	for _, e := range r.container(t).Env {
		if port, ok := strings.CutPrefix(e.Value, "[$(POD_IP)]:"); ok && e.Name == "SWPD_CLUSTER_ADDRESS" {
			found["nodes"], found["nodes-udp"] = port+"/TCP", port+"/UDP"
		}
	}
	for name, address := range map[string]string{"health": c.Health, "metrics": c.Metrics.Address} {
		if port, ok := strings.CutPrefix(address, "0.0.0.0:"); ok {
			found[name] = port + "/TCP"
		}
	}
	return found
}

// What the Pod, its probes, the Services and the policy call a port is a port where swpd listens.
func TestPortsAreThoseOfTheConfiguration(t *testing.T) {
	eachSet(t, func(t *testing.T, args []string) {
		r := render(t, args...)
		container, want := r.container(t), r.configuration(t)
		got := make(map[string]string)
		for _, p := range container.Ports {
			got[p.Name] = fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
		}
		if !maps.Equal(got, want) {
			t.Errorf("ports of the container are %v, of the configuration %v", got, want)
		}
		for name, probe := range map[string]*core.Probe{"/livez": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
			if h := probe.HTTPGet; h == nil || h.Path != name || h.Port != intstr.FromString("health") || h.Scheme != "" {
				t.Errorf("probe %+v, want %s at health", h, name)
			}
		}
		if h := container.StartupProbe.HTTPGet; h == nil || h.Path != "/livez" || h.Port != intstr.FromString("health") {
			t.Errorf("startup probe %+v", h)
		}
		uses := func(who string, port intstr.IntOrString, protocol core.Protocol) {
			if !strings.HasSuffix(want[port.StrVal], "/"+string(protocol)) {
				t.Errorf("%s uses port %s over %s, which no listener has", who, port.String(), protocol)
			}
		}
		for name, service := range r.Services {
			if !maps.Equal(service.Spec.Selector, r.StatefulSet.Spec.Selector.MatchLabels) {
				t.Errorf("service %s selects %v", name, service.Spec.Selector)
			}
			for _, p := range service.Spec.Ports {
				uses("service "+name, p.TargetPort, p.Protocol)
			}
		}
		if r.Services[r.StatefulSet.Spec.ServiceName] == nil {
			t.Errorf("no service %s", r.StatefulSet.Spec.ServiceName)
		}
		if r.Policy == nil {
			return
		}
		admitted := 0
		for _, rule := range r.Policy.Spec.Ingress {
			for _, p := range rule.Ports {
				uses("the network policy", *p.Port, *p.Protocol)
				admitted++
			}
		}
		if admitted != len(want) {
			t.Errorf("the network policy has %d ports, the configuration %d", admitted, len(want))
		}
	})
}

// Prometheus reaches the metrics under a name that the certificate has, with the authority of that certificate, and the
// job has the name that the alerts and the dashboard use.
func TestServiceMonitorFindsTheMetrics(t *testing.T) {
	t.Parallel()
	r := render(t, sets(t)["full"]...)
	spec := r.ServiceMonitor.Spec
	if len(spec.Endpoints) != 1 {
		t.Fatalf("endpoints %+v", spec.Endpoints)
	}
	e, service := spec.Endpoints[0], r.Services["east-swpd-metrics"]
	for key, value := range spec.Selector.MatchLabels {
		if service.Labels[key] != value {
			t.Errorf("the monitor wants the label %s: %s, the service has %q", key, value, service.Labels[key])
		}
	}
	for name, other := range r.Services {
		if name != service.Name && other.Labels["app.kubernetes.io/component"] == "metrics" {
			t.Errorf("the monitor selects %s, too", name)
		}
	}
	if e.Port != service.Spec.Ports[0].Name || e.Scheme == nil || e.Scheme.String() != "https" || e.TLSConfig == nil || e.TLSConfig.ServerName == nil {
		t.Fatalf("endpoint %+v", e)
	}
	if !slices.Contains(r.Certificate.Spec.DNSNames, *e.TLSConfig.ServerName) {
		t.Errorf("the certificate has the names %v, the monitor wants %s", r.Certificate.Spec.DNSNames, *e.TLSConfig.ServerName)
	}
	if ca := e.TLSConfig.CA.Secret; ca == nil || ca.Name != r.Certificate.Spec.SecretName || ca.Key != "ca.crt" {
		t.Errorf("authority %+v", ca)
	}
	if e.Authorization == nil || e.Authorization.Credentials == nil || e.Authorization.Credentials.Name != "swpd-token" {
		t.Errorf("authorization %+v", e.Authorization)
	}
	if job := service.Labels[spec.JobLabel]; !strings.Contains(read(t, "deploy/prometheus/swpd.rules.yaml"), `job="`+job+`"`) {
		t.Errorf("the alerts do not know the job %q", job)
	}
}

// Each replica has its name and address, stops after the Services have forgotten it, and tells only other replicas of its inner
// port.
func TestReplicasAreNodes(t *testing.T) {
	t.Parallel()
	r := render(t, sets(t)["cluster"]...)
	one := render(t, sets(t)["secret"]...)
	if n := *r.StatefulSet.Spec.Replicas; n != 3 {
		t.Errorf("%d replicas", n)
	}
	fields := make(map[string]string)
	for _, e := range r.container(t).Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			fields[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	if !maps.Equal(fields, map[string]string{"SWPD_CLUSTER_NODE": "metadata.name", "POD_IP": "status.podIP"}) {
		t.Errorf("variables %v", fields)
	}
	stop := r.container(t).Lifecycle.PreStop.Sleep.Seconds
	drain := *one.StatefulSet.Spec.Template.Spec.TerminationGracePeriodSeconds
	if got := *r.StatefulSet.Spec.Template.Spec.TerminationGracePeriodSeconds; stop == 0 || got != drain+stop {
		t.Errorf("%d s to stop, of which it still serves %d; a drain has %d", got, stop, drain)
	}
	if one.container(t).Lifecycle != nil {
		t.Error("one replica serves on while it is to stop")
	}
	if spread := r.StatefulSet.Spec.Template.Spec.TopologySpreadConstraints; len(spread) != 1 || !maps.Equal(spread[0].LabelSelector.MatchLabels, r.StatefulSet.Spec.Selector.MatchLabels) {
		t.Errorf("spread %+v", spread)
	}
	for _, rule := range r.Policy.Spec.Ingress {
		inner := slices.ContainsFunc(rule.Ports, func(p networking.NetworkPolicyPort) bool { return strings.HasPrefix(p.Port.StrVal, "nodes") })
		if inner && (len(rule.From) != 1 || !maps.Equal(rule.From[0].PodSelector.MatchLabels, r.StatefulSet.Spec.Selector.MatchLabels)) {
			t.Errorf("the inner port admits %+v", rule.From)
		}
	}
	mounts := r.container(t).VolumeMounts
	if !slices.ContainsFunc(mounts, func(m core.VolumeMount) bool { return m.MountPath == "/etc/swpd-cluster" && m.ReadOnly }) {
		t.Errorf("mounts %+v", mounts)
	}
	r = render(t, append(sets(t)["cluster"], "--set=cluster.artifacts=/var/lib/swpd-artifacts/east,cluster.claim=shared")...)
	volumes := r.StatefulSet.Spec.Template.Spec.Volumes
	i := slices.IndexFunc(volumes, func(v core.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "shared"
	})
	if i < 0 || !slices.ContainsFunc(r.container(t).VolumeMounts, func(m core.VolumeMount) bool {
		return m.Name == volumes[i].Name && m.MountPath == "/var/lib/swpd-artifacts"
	}) {
		t.Errorf("volumes %+v", volumes)
	}
}

// A certificate has exactly one URI, which is the identity of the endpoint.
func TestCertificateIsAnIdentity(t *testing.T) {
	t.Parallel()
	spec := render(t, sets(t)["full"]...).Certificate.Spec
	if !slices.Equal(spec.URIs, []string{"spiffe://east.example/swpd"}) || spec.PrivateKey.RotationPolicy != cm.RotationPolicyAlways || spec.IssuerRef.Kind != "ClusterIssuer" {
		t.Errorf("%+v", spec)
	}
	if !slices.Contains(spec.Usages, cm.UsageServerAuth) || !slices.Contains(spec.Usages, cm.UsageClientAuth) {
		t.Errorf("usages %v: swpd accepts connections, and opens them", spec.Usages)
	}
}

// The socket in the configuration is in the volume of the driver, and no Secret with a key of the endpoint is mounted.
func TestSocketOfSPIFFEIsMounted(t *testing.T) {
	t.Parallel()
	r := render(t, sets(t)["spiffe"]...)
	var c struct {
		Identity struct{ SPIFFE string }
		Trust    any
	}
	if err := strict.Unmarshal([]byte(r.Secret.StringData["swpd.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	mounts := r.container(t).VolumeMounts
	i := slices.IndexFunc(mounts, func(m core.VolumeMount) bool {
		return "unix://"+m.MountPath+"/spire-agent.sock" == c.Identity.SPIFFE
	})
	if i < 0 || !mounts[i].ReadOnly || c.Trust != nil {
		t.Fatalf("identity %+v, trust %v, mounts %+v", c.Identity, c.Trust, mounts)
	}
	volumes := r.StatefulSet.Spec.Template.Spec.Volumes
	j := slices.IndexFunc(volumes, func(v core.Volume) bool { return v.Name == mounts[i].Name })
	if j < 0 || volumes[j].CSI == nil || volumes[j].CSI.Driver != "csi.spiffe.io" || volumes[j].CSI.ReadOnly == nil || !*volumes[j].CSI.ReadOnly {
		t.Errorf("volumes %+v", volumes)
	}
	for _, source := range projected(t, r).Sources {
		if name := source.Secret.Name; name != r.Secret.Name && name != "east-metrics" {
			t.Errorf("the Secret %s is mounted", name)
		}
	}
}

// The Pod meets the Pod Security Standard "restricted", and its root is read-only.
func TestPodIsRestricted(t *testing.T) {
	evaluator, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	eachSet(t, func(t *testing.T, args []string) {
		r := render(t, args...)
		pod := r.StatefulSet.Spec.Template
		for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		if c := r.container(t).SecurityContext; c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem {
			t.Error("the root is not read-only")
		}
		if m := pod.Spec.AutomountServiceAccountToken; m == nil || *m {
			t.Error("the Pod has a token for the Kubernetes API, which swpd does not use")
		}
		if l := pod.Spec.EnableServiceLinks; l == nil || *l {
			t.Error("variables of Services may begin with SWPD_, which swpd refuses")
		}
	})
}

// The image and the chart run swpd under one user, and the image has the program where the chart expects it.
func TestImageAndChartHaveOneUser(t *testing.T) {
	t.Parallel()
	s := render(t, sets(t)["secret"]...).StatefulSet.Spec.Template.Spec.SecurityContext
	if want := fmt.Sprintf("\nUSER %d:%d\n", *s.RunAsUser, *s.RunAsGroup); !strings.Contains(read(t, "deploy/Dockerfile"), want) || *s.FSGroup != *s.RunAsGroup {
		t.Errorf("the Dockerfile has no line %q", strings.TrimSpace(want))
	}
}

// A Pod has as long to stop as the service of systemd.
func TestDrainHasTheTimeOfTheUnit(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(read(t, "deploy/systemd/swpd.service"))
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	if got := *render(t, sets(t)["secret"]...).StatefulSet.Spec.Template.Spec.TerminationGracePeriodSeconds; strconv.FormatInt(got, 10) != found[1] {
		t.Errorf("%d s, the unit has %s", got, found[1])
	}
}

// By default the stored data fits into the volume with a quarter to spare, and swpd slows down before the kernel ends it.
func TestDefaultsFitTheVolumeAndTheMemory(t *testing.T) {
	t.Parallel()
	r := render(t, sets(t)["secret"]...)
	var c struct {
		Quota    struct{ Total string }
		Artifact struct{ Quota struct{ Total string } }
		Audit    struct{ Size string }
	}
	if err := strict.Unmarshal([]byte(r.Secret.StringData["swpd.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	stored := size(t, c.Quota.Total) + size(t, c.Artifact.Quota.Total) + size(t, c.Audit.Size)
	volume := r.StatefulSet.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value()
	if stored*5/4 > volume {
		t.Errorf("%d octets may be stored, and the volume has %d", stored, volume)
	}
	container := r.container(t)
	i := slices.IndexFunc(container.Env, func(e core.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if i < 0 {
		t.Fatal("no GOMEMLIMIT")
	}
	if soft, hard := size(t, container.Env[i].Value), container.Resources.Limits.Memory().Value(); soft > hard*4/5 {
		t.Errorf("GOMEMLIMIT is %d, the limit is %d", soft, hard)
	}
}

// size reads a size as swpd and Go write it.
func size(t *testing.T, text string) int64 {
	t.Helper()
	q, err := resource.ParseQuantity(strings.TrimSuffix(text, "B"))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return q.Value()
}

// The chart installs the version that the programs have. A program that is built in a clone also names
// the revision, behind a plus.
func TestChartHasTheVersionOfThePrograms(t *testing.T) {
	t.Parallel()
	out, err := program(t, "swpd", "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(strings.Fields(string(out))[1], "+")
	var c struct{ Version, AppVersion string }
	if err := strict.Unmarshal([]byte(read(t, chart+"/Chart.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if c.Version != version || c.AppVersion != version {
		t.Errorf("the chart has %s and %s, the program %s", c.Version, c.AppVersion, version)
	}
}
