package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"homelab/lab"

	yaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

const (
	kindAPIVersion = "kind.x-k8s.io/v1alpha4"
	maxHostname    = 63 // limit of a node name, which is also a DNS label
)

// config merges lab's settings into the user's kind document. The user's values take precedence, so lab's patches come first.
func config(labName string, host Host, spec Spec) (*v1alpha4.Cluster, error) {
	cfg, err := decode(spec.Cluster)
	if err != nil {
		return nil, err
	}
	cfg.Name = lab.KindName(labName, spec.Cluster.Name)
	if node := cfg.Name + "-control-plane"; len(node) > maxHostname {
		return nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "name_too_long",
			Message: fmt.Sprintf("the node of cluster %s would be called %s, which is longer than %d characters", spec.Cluster.Name, node, maxHostname),
			Cure:    "choose a shorter --name, or a shorter name for the cluster",
		}
	}
	if len(cfg.Nodes) == 0 {
		cfg.Nodes = []v1alpha4.Node{{}}
	}
	loopback := loopbackOf(cfg)
	if cfg.Networking.APIServerAddress == "" {
		cfg.Networking.APIServerAddress = loopback
	}
	controlPlanes, published := 0, false
	for i := range cfg.Nodes {
		n := &cfg.Nodes[i]
		if n.Image == "" {
			n.Image = spec.NodeRef
		}
		for j := range n.ExtraPortMappings {
			if m := &n.ExtraPortMappings[j]; m.ListenAddress == "" { // kind's default is all interfaces
				m.ListenAddress = loopback
			}
		}
		if n.Role != "" && n.Role != v1alpha4.ControlPlaneRole {
			continue
		}
		n.Role = v1alpha4.ControlPlaneRole
		controlPlanes++
		if !published {
			published = true
			for _, p := range spec.Ports {
				n.ExtraPortMappings = append(n.ExtraPortMappings, v1alpha4.PortMapping{
					ContainerPort: int32(p.Node), HostPort: int32(p.Host), ListenAddress: loopback, Protocol: v1alpha4.PortMappingProtocolTCP,
				})
			}
		}
	}
	kubeadm, patches := kubeadmPatches(host, cfg, controlPlanes), []string{statsPatchV2, statsPatchV3}
	if host.NoOOMAdjust {
		patches = append(patches, oomPatchV2, oomPatchV3)
	}
	if host.CgroupV1 && !patched(cfg, driverKeys) {
		kubeadm = append(kubeadm, cgroupfsPatch)
		patches = append(patches, cgroupfsPatchV2, cgroupfsPatchV3)
	}
	if spec.Registry.Host != "" && !slices.ContainsFunc(cfg.Nodes, func(n v1alpha4.Node) bool { return !limitsBackOff.MatchString(n.Image) }) {
		kubeadm = append(kubeadm, neverVerifyPatch)
	}
	cfg.KubeadmConfigPatches = append(kubeadm, cfg.KubeadmConfigPatches...)
	cfg.ContainerdConfigPatches = append(patches, cfg.ContainerdConfigPatches...)
	return cfg, nil
}

// Loopback returns the address of this machine at which a cluster publishes its ports.
func Loopback(c lab.Cluster) string {
	cfg, err := decode(c)
	if err != nil { // reported by Check
		cfg = &v1alpha4.Cluster{}
	}
	return loopbackOf(cfg)
}

func loopbackOf(cfg *v1alpha4.Cluster) string {
	if cfg.Networking.IPFamily == v1alpha4.IPv6Family {
		return "::1"
	}
	return "127.0.0.1"
}

// decode reads spec.kind strictly, as kind does.
func decode(c lab.Cluster) (*v1alpha4.Cluster, error) {
	cfg := &v1alpha4.Cluster{}
	dec := yaml.NewDecoder(bytes.NewReader(c.Kind))
	dec.KnownFields(true)
	if err := dec.Decode(cfg); err != nil && !errors.Is(err, io.EOF) {
		return nil, invalid(c, err.Error())
	}
	switch {
	case cfg.APIVersion == "" && cfg.Kind == "":
		cfg.APIVersion, cfg.Kind = kindAPIVersion, "Cluster"
	case cfg.APIVersion != kindAPIVersion || cfg.Kind != "Cluster":
		return nil, invalid(c, fmt.Sprintf("is %s %s, want %s Cluster", cfg.APIVersion, cfg.Kind, kindAPIVersion))
	}
	return cfg, nil
}

func invalid(c lab.Cluster, message string) error {
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "invalid_estate", Message: "cluster " + c.Name + " has an invalid kind document",
		Problems: lab.Problems{{Position: c.Position("spec.kind"), Message: "spec.kind: " + message}},
	}
}

// Since 2.2, containerd asks every container's shim for its processor time each second, for statistics that kubelet takes from cAdvisor unless the feature
// gate PodAndContainerStatsFromCRI is on. This is a third of the processor time of an idle spoke. In a configuration of version 2, the key in the old place
// is an integer with another meaning; the one in the new place survives containerd's migration. Older versions ignore it.
const (
	statsPatchV2 = `version = 2
` + statsPatch
	statsPatchV3 = `version = 3
` + statsPatch
	statsPatch = `[plugins."io.containerd.cri.v1.runtime"]
stats_collect_period = "1m"
`
)

// The same setting for containerd's configuration version 2, used by kind's node images, and version 3; kind omits the one that does not match.
const (
	oomPatchV2 = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
`
	oomPatchV3 = `version = 3
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
`
)

const cgroupV1Patch = `kind: KubeletConfiguration
failCgroupV1: false
`

// On cgroup v1, systemd removes empty cgroups of the hierarchies that a slice does not use, at times between kubelet's creation of a parent and of its child: "mkdir
// /sys/fs/cgroup/devices/...: no such file or directory". kubelet then retries the pod after 15 to 25 s, which one in twelve new clusters paid for. Without systemd as
// the driver, four clusters also take 82 s of processor time instead of 90.
const (
	cgroupfsPatch = `kind: KubeletConfiguration
cgroupDriver: cgroupfs
`
	cgroupfsPatchV2 = `version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
`
	cgroupfsPatchV3 = `version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
`
)

// driverKeys are those with which a user chooses the cgroup driver.
var driverKeys = regexp.MustCompile(`cgroupDriver|SystemdCgroup`)

// kubelet restarts failed containers after 10, 20, 40 s and so on. With this limit, a lab of four clusters recovers from a reboot in 37 s rather than 48. Former
// kubelets reject the key, as does one without the feature gate, which is on by default since Kubernetes 1.35.
const backOffPatch = `kind: KubeletConfiguration
crashLoopBackOff: {maxContainerRestartPeriod: 4s}
`

// limitsBackOff matches references of node images with Kubernetes 1.35 or later.
var limitsBackOff = regexp.MustCompile(`:v(1\.(3[5-9]|[4-9]\d|\d{3,})|[2-9]|\d{2,})\.`)

// Settings that speed up a cluster with a single control plane, measured on two busy cores until everything is ready. The controller manager creates an account
// and a token for each of its 40 controllers sequentially, limited to 20 requests per second, which delays the first pod network by 3.5 s: the limit is lifted.
// Without leader election there is no lease traffic while idle, and after a node restart no wait of up to 15 s for the lease of the stopped process to expire.
// The lists repeat kind's values, as a merge patch replaces whole lists.
const (
	aloneV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controllerManager:
  extraArgs:
  - {name: enable-hostpath-provisioner, value: "true"}
  - {name: leader-elect, value: "false"}
  - {name: kube-api-qps, value: "200"}
  - {name: kube-api-burst, value: "400"}
scheduler:
  extraArgs:
  - {name: leader-elect, value: "false"}
`
	aloneV1beta3 = `apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
controllerManager: {extraArgs: {leader-elect: "false", kube-api-qps: "200", kube-api-burst: "400"}}
scheduler: {extraArgs: {leader-elect: "false"}}
`
	// Ten RSA keys take 1 to 3 s of processor time, and slow down every connection. v1beta4 exists since Kubernetes 1.31; the patch does not match the configuration of older versions.
	certificatesV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
encryptionAlgorithm: ECDSA-P256
certificateValidityPeriod: ` + validity + `
`
	// kubeadm's last phase restarts the kubelet so that it can renew its certificate from a file before its end, when those of the API server, which are not
	// renewed here, have expired too. Skipping it saves 1 to 2 s without the node. preflight is on kind's own list, which this one replaces.
	phasesV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
skipPhases: [preflight, kubelet-finalize]
`
	// kubeadm's default of one minute for the API server is short if four of them start simultaneously on two cores.
	timeoutsV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
timeouts: {kubernetesAPICall: 4m0s}
`
	patchesV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
patches: {directory: ` + patchesDir + `}
`
)

func kubeadmPatches(host Host, cfg *v1alpha4.Cluster, controlPlanes int) []string {
	patches := []string{certificatesV1beta4, timeoutsV1beta4}
	if cfg.Networking.KubeProxyMode != v1alpha4.ProxyMode("none") { // kind's list is longer otherwise
		patches = append(patches, phasesV1beta4)
	}
	if host.CgroupV1 {
		patches = append(patches, cgroupV1Patch)
	}
	if len(cfg.FeatureGates) == 0 && !patched(cfg, gateKeys) && !slices.ContainsFunc(cfg.Nodes, func(n v1alpha4.Node) bool { return !limitsBackOff.MatchString(n.Image) }) {
		patches = append(patches, backOffPatch)
	}
	// With feature gates or IPv6, kind adds flags to the lists that the patch for a lone control plane would replace.
	ipv4 := cfg.Networking.IPFamily == "" || cfg.Networking.IPFamily == v1alpha4.IPv4Family
	if controlPlanes == 1 && len(cfg.FeatureGates) == 0 && ipv4 {
		patches = append(patches, aloneV1beta4, aloneV1beta3)
	}
	return patches
}

// gateKeys are those with which a user sets feature gates in a component's configuration.
var gateKeys = regexp.MustCompile(`featureGates|feature-gates`)

// patched reports whether a patch of the user's has one of the keys.
func patched(cfg *v1alpha4.Cluster, keys *regexp.Regexp) bool {
	json := func(p v1alpha4.PatchJSON6902) bool { return keys.MatchString(p.Patch) }
	return slices.ContainsFunc(slices.Concat(cfg.KubeadmConfigPatches, cfg.ContainerdConfigPatches, cfg.ContainerdConfigPatchesJSON6902), keys.MatchString) ||
		slices.ContainsFunc(cfg.KubeadmConfigPatchesJSON6902, json) ||
		slices.ContainsFunc(cfg.Nodes, func(n v1alpha4.Node) bool {
			return slices.ContainsFunc(n.KubeadmConfigPatches, keys.MatchString) || slices.ContainsFunc(n.KubeadmConfigPatchesJSON6902, json)
		})
}

// Check validates a spec without side effects.
func Check(labName string, spec Spec) error {
	_, err := config(labName, Host{}, spec)
	return err
}
