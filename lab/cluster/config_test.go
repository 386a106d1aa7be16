package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"homelab/lab"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

func specOf(kind string) Spec {
	return Spec{
		Cluster: lab.Cluster{Name: "dev", File: "clusters/dev/cluster.yaml", Kind: []byte(kind)},
		NodeRef: "lab/node:v1", Ports: []Port{{Host: 31080, Node: 30080}},
	}
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := config("demo", Host{}, specOf(""))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Name != "demo-dev" || cfg.Networking.APIServerAddress != "127.0.0.1" {
		t.Errorf("name %q, API server at %q", cfg.Name, cfg.Networking.APIServerAddress)
	}
	if len(cfg.Nodes) != 1 || cfg.Nodes[0].Image != "lab/node:v1" || cfg.Nodes[0].Role != v1alpha4.ControlPlaneRole {
		t.Fatalf("nodes %+v", cfg.Nodes)
	}
	want := v1alpha4.PortMapping{ContainerPort: 30080, HostPort: 31080, ListenAddress: "127.0.0.1", Protocol: "TCP"}
	if got := cfg.Nodes[0].ExtraPortMappings; len(got) != 1 || got[0] != want {
		t.Errorf("ports %+v, want %+v", got, want)
	}
	if want := []string{statsPatchV2, statsPatchV3}; !slices.Equal(cfg.ContainerdConfigPatches, want) {
		t.Errorf("containerd patches on a capable host: %q, want %q", cfg.ContainerdConfigPatches, want)
	}
	if slices.Contains(cfg.KubeadmConfigPatches, cgroupV1Patch) || slices.Contains(cfg.KubeadmConfigPatches, cgroupfsPatch) {
		t.Error("cgroup v1 patch on cgroup v2")
	}
}

func TestConfigUserValues(t *testing.T) {
	cfg, err := config("demo", Host{CgroupV1: true, NoOOMAdjust: true}, specOf(`
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
name: mine
networking: {apiServerAddress: 192.0.2.1, apiServerPort: 6444}
kubeadmConfigPatches: ["kind: ClusterConfiguration\n"]
containerdConfigPatches: ["version = 2\n"]
nodes:
- role: worker
- role: control-plane
  image: kindest/node:v1.30.0
  extraPortMappings:
  - {containerPort: 80, hostPort: 8080}
  - {containerPort: 81, hostPort: 8081, listenAddress: 0.0.0.0}
`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Networking.APIServerAddress != "192.0.2.1" || cfg.Networking.APIServerPort != 6444 {
		t.Errorf("networking %+v", cfg.Networking)
	}
	cp := cfg.Nodes[1]
	if cfg.Nodes[0].Image != "lab/node:v1" || cp.Image != "kindest/node:v1.30.0" {
		t.Errorf("images %q, %q", cfg.Nodes[0].Image, cp.Image)
	}
	var at []string
	for _, m := range cp.ExtraPortMappings {
		at = append(at, m.ListenAddress)
	}
	if want := []string{"127.0.0.1", "0.0.0.0", "127.0.0.1"}; !slices.Equal(at, want) {
		t.Errorf("ports listen at %q, want %q", at, want)
	}
	if n := len(cfg.KubeadmConfigPatches); cfg.KubeadmConfigPatches[n-1] != "kind: ClusterConfiguration\n" || !slices.Contains(cfg.KubeadmConfigPatches, cgroupV1Patch) {
		t.Errorf("kubeadm patches %q: want the user's last, so that it wins", cfg.KubeadmConfigPatches)
	}
	if want := []string{statsPatchV2, statsPatchV3, oomPatchV2, oomPatchV3, cgroupfsPatchV2, cgroupfsPatchV3, "version = 2\n"}; !slices.Equal(cfg.ContainerdConfigPatches, want) {
		t.Errorf("containerd patches %q, want %q", cfg.ContainerdConfigPatches, want)
	}
}

// kubelet and containerd must have the same driver.
func TestConfigCgroupDriver(t *testing.T) {
	for name, test := range map[string]struct {
		kind string
		own  bool // lab chooses the driver
	}{
		"default":              {"", true},
		"kubelet's by user":    {`kubeadmConfigPatches: ["kind: KubeletConfiguration\ncgroupDriver: systemd\n"]`, false},
		"containerd's by user": {`containerdConfigPatches: ["SystemdCgroup = true\n"]`, false},
		"of one node":          {`nodes: [{role: control-plane, kubeadmConfigPatches: ["kind: KubeletConfiguration\ncgroupDriver: systemd\n"]}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config("demo", Host{CgroupV1: true}, specOf(test.kind))
			if err != nil {
				t.Fatal(err)
			}
			kubelet := slices.Contains(cfg.KubeadmConfigPatches, cgroupfsPatch)
			for _, patch := range []string{cgroupfsPatchV2, cgroupfsPatchV3} {
				if containerd := slices.Contains(cfg.ContainerdConfigPatches, patch); containerd != test.own || kubelet != test.own {
					t.Errorf("kubelet is patched: %t, containerd: %t; want %t", kubelet, containerd, test.own)
				}
			}
		})
	}
}

// The patch that disables leader election replaces lists that kind fills in other cases.
func TestConfigLeaderElection(t *testing.T) {
	for name, test := range map[string]struct {
		kind string
		off  bool
	}{
		"alone":              {"", true},
		"workers":            {"nodes: [{role: control-plane}, {role: worker}]", true},
		"two control planes": {"nodes: [{role: control-plane}, {role: control-plane}]", false},
		"feature gates":      {"featureGates: {A: true}", false},
		"dual stack":         {"networking: {ipFamily: dual}", false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config("demo", Host{}, specOf(test.kind))
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(cfg.KubeadmConfigPatches, aloneV1beta4); got != test.off {
				t.Errorf("leader election off: %t, want %t", got, test.off)
			}
		})
	}
}

func TestConfigInvalid(t *testing.T) {
	long := specOf("")
	long.Cluster.Name = strings.Repeat("x", 60)
	for name, test := range map[string]struct {
		spec Spec
		code string
		want string
	}{
		"unknown key": {specOf("nods: []"), "invalid_estate", "field nods not found"},
		"wrong type":  {specOf("nodes: {}"), "invalid_estate", "cannot unmarshal"},
		"other kind":  {specOf("kind: Pod\napiVersion: v1"), "invalid_estate", "is v1 Pod, want"},
		"no YAML":     {specOf("a: [b"), "invalid_estate", "yaml"},
		"long name":   {long, "name_too_long", "longer than 63"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config("demo", Host{}, test.spec)
			var e *lab.Error
			if !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Code != test.code {
				t.Fatalf("error %#v, want one of exit 2 and code %s", err, test.code)
			}
			if text := e.Error() + e.Problems.Error(); !strings.Contains(text, test.want) {
				t.Errorf("error %q, want %q", text, test.want)
			}
		})
	}
}

func TestInputs(t *testing.T) {
	base := Inputs(specOf("nodes: []"))
	other := specOf("nodes: []")
	other.Ports[0].Host = 32000
	if Inputs(other) != base {
		t.Error("digest depends on lab's host port; a lost state folder would recreate the hub")
	}
	for name, change := range map[string]func(*Spec){
		"node image": func(s *Spec) { s.NodeRef = "lab/node:v2" },
		"document":   func(s *Spec) { s.Cluster.Kind = []byte("nodes: [{}]") },
		"node port":  func(s *Spec) { s.Ports[0].Node = 30443 },
		"no port":    func(s *Spec) { s.Ports = nil },
	} {
		spec := specOf("nodes: []")
		change(&spec)
		if Inputs(spec) == base {
			t.Errorf("%s: digest unchanged", name)
		}
	}
}

func TestImagesDigest(t *testing.T) {
	a, b := lab.Image{Ref: "a:1", Digest: "sha256:1"}, lab.Image{Ref: "b:1", Digest: "sha256:2"}
	if ImagesDigest([]lab.Image{a, b}) != ImagesDigest([]lab.Image{b, a, a}) {
		t.Error("digest depends on order or repetition")
	}
	c := a
	c.Digest = "sha256:3"
	if ImagesDigest([]lab.Image{c, b}) == ImagesDigest([]lab.Image{a, b}) {
		t.Error("digest unchanged for another image of the same name")
	}
}

// A node name may be as long as a DNS label.
func TestConfigNameLength(t *testing.T) {
	longest := maxHostname - len("demo-"+"-control-plane")
	for length, code := range map[int]string{longest: "", longest + 1: "name_too_long"} {
		spec := specOf("")
		spec.Cluster.Name = strings.Repeat("x", length)
		var e *lab.Error
		if err := Check("demo", spec); (err == nil) != (code == "") || errors.As(err, &e) && e.Code != code {
			t.Errorf("%d characters: %v", length, err)
		}
	}
}

// Ports are published by the first of several control planes only.
func TestConfigPorts(t *testing.T) {
	cfg, err := config("demo", Host{}, specOf("nodes: [{role: worker}, {role: control-plane}, {role: control-plane}]"))
	if err != nil {
		t.Fatal(err)
	}
	var ports []int
	for _, n := range cfg.Nodes {
		ports = append(ports, len(n.ExtraPortMappings))
	}
	if !slices.Equal(ports, []int{0, 1, 0}) {
		t.Errorf("nodes publish %d ports", ports)
	}
}

// kind requires apiVersion and kind, and has its own phase list, without kube-proxy.
func TestConfigKindDocument(t *testing.T) {
	for doc, phases := range map[string]bool{"": true, "networking: {kubeProxyMode: none}": false} {
		cfg, err := config("demo", Host{}, specOf(doc))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.APIVersion != kindAPIVersion || cfg.Kind != "Cluster" {
			t.Errorf("%q: %s %s", doc, cfg.APIVersion, cfg.Kind)
		}
		if got := slices.Contains(cfg.KubeadmConfigPatches, phasesV1beta4); got != phases {
			t.Errorf("%q: lab's phase list: %t, want %t", doc, got, phases)
		}
	}
}

func TestConfigBackOff(t *testing.T) {
	for ref, want := range map[string]bool{
		"lab/node:v1.36.3-86c37daf8e9e": true, "kindest/node:v1.35.0@sha256:ab12": true, "registry:5000/node:v1.40.1": true, "kindest/node:v2.0.0": true, "kindest/node:v1.110.0": true,
		"kindest/node:v1.34.9": false, "kindest/node:v1.4.0": false, "kindest/node:latest": false, "kindest/node@sha256:ab12": false,
	} {
		for kind, want := range map[string]bool{
			"":                                 want,
			"featureGates: {AllBeta: false}\n": false,
			"kubeadmConfigPatches: [\"kind: KubeletConfiguration\\nfeatureGates: {AllBeta: false}\\n\"]\n":                                 false,
			"nodes: [{role: control-plane, kubeadmConfigPatches: [\"kind: KubeletConfiguration\\nfeatureGates: {AllBeta: false}\\n\"]}]\n": false,
			"nodes: [{role: control-plane}, {role: worker, image: \"kindest/node:v1.30.0\"}]\n":                                            false,
			"nodes: [{role: control-plane}, {role: worker}]\n":                                                                             want,
		} {
			spec := specOf("")
			spec.NodeRef = ref
			if kind != "" {
				spec.Cluster.Kind = []byte("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n" + kind)
			}
			cfg, err := config("demo", Host{}, spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(cfg.KubeadmConfigPatches, backOffPatch); got != want {
				t.Errorf("%s, %q: %t, want %t", ref, kind, got, want)
			}
		}
	}
}
