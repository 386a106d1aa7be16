package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"homelab/lab"

	yaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

const (
	kindAPIVersion = "kind.x-k8s.io/v1alpha4"
	maxHostname    = 63 // of a node, which is also a DNS label
)

// config is the user's own kind document with lab's wishes merged in. The user's word is kept wherever it was given; lab's patches come first, so that
// theirs are applied over them.
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
	loopback := "127.0.0.1"
	if cfg.Networking.IPFamily == v1alpha4.IPv6Family {
		loopback = "::1"
	}
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
			if m := &n.ExtraPortMappings[j]; m.ListenAddress == "" { // kind would listen on every address of the machine
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
	cfg.KubeadmConfigPatches = append(kubeadmPatches(host, cfg, controlPlanes), cfg.KubeadmConfigPatches...)
	if host.NoOOMAdjust {
		cfg.ContainerdConfigPatches = append([]string{oomPatchV2, oomPatchV3}, cfg.ContainerdConfigPatches...)
	}
	return cfg, nil
}

// decode reads spec.kind strictly, as kind itself does.
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

// The same wish for a containerd configuration of version 2, which kind's node images have, and of version 3; kind leaves out the one that does not fit.
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

// What makes a cluster of one control plane start sooner. Measured on two busy cores, in seconds until all is ready:
//   - The controller manager makes an account and a token for each of its 40 controllers one after the other, and may ask 20 times a second: 3.5 s on the
//     way to the first pod network. It is let off that limit.
//   - One control plane elects no leader: that saves lease traffic while idle and, after a restart of the node, the wait of up to 15 s until the lease of the
//     stopped process has run out.
//
// The lists repeat what kind writes, as a merge patch replaces a list whole.
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
	// Ten RSA keys are 1 to 3 s of processor time, and every connection costs more with them.
	ecdsaV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
encryptionAlgorithm: ECDSA-P256
`
	// kubeadm's last phase restarts the kubelet, only so that its certificate is renewed from a file after a year, when those of the API server, which nobody
	// renews here, have run out too. 1 to 2 s, and the node is away meanwhile. preflight is on kind's own list, which this replaces.
	phasesV1beta4 = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
skipPhases: [preflight, kubelet-finalize]
`
	// kubeadm gives the API server a minute by default, which is short where four of them start at once on two cores.
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
	patches := []string{ecdsaV1beta4, timeoutsV1beta4}
	if cfg.Networking.KubeProxyMode != v1alpha4.ProxyMode("none") { // kind's list is longer then
		patches = append(patches, phasesV1beta4)
	}
	if host.CgroupV1 {
		patches = append(patches, cgroupV1Patch)
	}
	// With feature gates or IPv6 kind writes further flags into the lists that the patch for a lone control plane would replace.
	ipv4 := cfg.Networking.IPFamily == "" || cfg.Networking.IPFamily == v1alpha4.IPv4Family
	if controlPlanes == 1 && len(cfg.FeatureGates) == 0 && ipv4 {
		patches = append(patches, aloneV1beta4, aloneV1beta3)
	}
	return patches
}

// Check finds what is wrong with a spec without touching anything.
func Check(labName string, spec Spec) error {
	_, err := config(labName, Host{}, spec)
	return err
}
