package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

// harmless are the settings by kind of kubeadm document that stay within a node: "*" is any key, "[]" any element of a list. Everything else may mount the
// machine, run programs or load code in a privileged container.
var harmless = map[string][]string{
	"InitConfiguration": joined,
	"JoinConfiguration": joined,
	"ClusterConfiguration": {
		"apiServer.certSANs.[]", "apiServer.extraArgs.enable-admission-plugins", "apiServer.extraArgs.disable-admission-plugins", "apiServer.extraArgs.feature-gates",
		"apiServer.extraArgs.runtime-config", "apiServer.extraArgs.v", "apiServer.extraArgs.event-ttl", "apiServer.extraArgs.max-requests-inflight",
		"apiServer.extraArgs.service-account-issuer", "apiServer.extraArgs.api-audiences", "apiServer.extraArgs.oidc-issuer-url", "apiServer.extraArgs.oidc-client-id",
		"apiServer.extraArgs.oidc-username-claim", "apiServer.extraArgs.oidc-groups-claim",
		"controllerManager.extraArgs.bind-address", "controllerManager.extraArgs.feature-gates", "controllerManager.extraArgs.v", "controllerManager.extraArgs.leader-elect",
		"controllerManager.extraArgs.node-cidr-mask-size", "controllerManager.extraArgs.enable-hostpath-provisioner", "controllerManager.extraArgs.terminated-pod-gc-threshold",
		"scheduler.extraArgs.bind-address", "scheduler.extraArgs.feature-gates", "scheduler.extraArgs.v", "scheduler.extraArgs.leader-elect",
		"etcd.local.extraArgs.listen-metrics-urls", "etcd.local.extraArgs.quota-backend-bytes", "etcd.local.extraArgs.unsafe-no-fsync",
		"networking.dnsDomain", "certificateValidityPeriod", "caCertificateValidityPeriod", "encryptionAlgorithm", "featureGates.*",
	},
	"KubeletConfiguration": {
		"maxPods", "podsPerCore", "evictionHard.*", "evictionSoft.*", "evictionSoftGracePeriod.*", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
		"imageMinimumGCAge", "featureGates.*", "cgroupDriver", "failCgroupV1", "failSwapOn", "memorySwap.swapBehavior", "systemReserved.*", "kubeReserved.*",
		"serializeImagePulls", "maxParallelImagePulls", "registryPullQPS", "registryBurst", "nodeStatusUpdateFrequency", "syncFrequency",
		"crashLoopBackOff.maxContainerRestartPeriod", "containerLogMaxSize", "containerLogMaxFiles", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods",
		"rotateCertificates", "serverTLSBootstrap", "topologyManagerPolicy", "cpuManagerPolicy", "clusterDomain",
	},
	"KubeProxyConfiguration": {"mode", "iptables.*", "ipvs.*", "nftables.*"},
}

// joined are the harmless settings of a node's registration.
var joined = []string{
	"nodeRegistration.taints.[].*", "nodeRegistration.ignorePreflightErrors.[]", "skipPhases.[]", "timeouts.*", "nodeRegistration.kubeletExtraArgs.node-labels",
	"nodeRegistration.kubeletExtraArgs.register-with-taints", "nodeRegistration.kubeletExtraArgs.max-pods", "nodeRegistration.kubeletExtraArgs.v",
	"nodeRegistration.kubeletExtraArgs.eviction-hard", "nodeRegistration.kubeletExtraArgs.system-reserved", "nodeRegistration.kubeletExtraArgs.kube-reserved",
	"nodeRegistration.kubeletExtraArgs.feature-gates", "nodeRegistration.kubeletExtraArgs.fail-swap-on",
}

// containerdHarmless are the settings of containerd's CRI plugin that stay within a node.
var containerdHarmless = []string{
	"restrict_oom_score_adj", "stats_collect_period", "enable_unprivileged_ports", "enable_unprivileged_icmp", "discard_unpacked_layers", "max_concurrent_downloads",
	"containerd.snapshotter", "containerd.discard_unpacked_layers", "containerd.runtimes.runc.options.SystemdCgroup", "registry.config_path",
}

// criPlugins are the names of containerd's CRI plugin and its parts.
var criPlugins = []string{"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"}

// maxPatch bounds the patches that are looked into, in bytes.
const maxPatch = 64 << 10

// unknownKubeadm returns the first part of a kubeadm patch that lab cannot vouch for, or "".
func unknownKubeadm(patch string) string {
	if len(patch) > maxPatch {
		return "too long"
	}
	dec := yaml.NewDecoder(strings.NewReader(patch))
	var node yaml.Node
	err := dec.Decode(&node)
	if errors.Is(err, io.EOF) {
		return ""
	}
	var doc map[string]any
	if err != nil || repeats(&node) || node.Decode(&doc) != nil || !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		return "not a single plain document"
	}
	kind, _ := doc["kind"].(string)
	allowed, known := harmless[kind]
	if !known {
		return fmt.Sprintf("a patch of %.40q", kind)
	}
	delete(doc, "kind")
	delete(doc, "apiVersion")
	for _, l := range leaves(nil, doc) {
		split := slices.Contains(l.path, "kubeletExtraArgs") && !argument.MatchString(fmt.Sprint(l.value))
		if split || !matches(allowed, l.path) {
			return kind + " " + strings.Join(l.path, ".")
		}
	}
	return ""
}

// containerd adds what a patch of containerd's configuration asks for.
func (d *document) containerd(patch, at string) {
	var doc map[string]any
	if len(patch) > maxPatch {
		d.opaque("too long", patch, at)
		return
	}
	if _, err := toml.NewDecoder(bytes.NewReader([]byte(patch))).Decode(&doc); err != nil {
		d.opaque("not readable", patch, at)
		return
	}
	delete(doc, "version")
	for _, l := range leaves(nil, doc) {
		switch {
		case len(l.path) < 3 || l.path[0] != "plugins" || !slices.Contains(criPlugins, l.path[1]):
			d.opaque("sets "+strings.Join(l.path, "."), patch, at)
			return
		case matches([]string{"registry.mirrors.*.endpoint.[]"}, l.path[2:]):
			d.add(Image, fmt.Sprintf("%v instead of %s", l.value, l.path[4]), "its images run in the cluster", at)
		case !matches(containerdHarmless, l.path[2:]):
			d.opaque("sets "+strings.Join(l.path[2:], "."), patch, at)
			return
		}
	}
}

// leaf is a scalar of a document with its path; elements of lists are "[N]".
type leaf struct {
	path  []string
	value any
}

// leaves returns all scalars below v, sorted. kubeadm's v1beta4 lists arguments as {name, value}, v1beta3 maps them.
func leaves(path []string, v any) []leaf {
	below := func(key string) []string { return append(slices.Clone(path), key) }
	var list []leaf
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			list = append(list, leaves(below(key), value)...)
		}
	case []map[string]any: // TOML
		for i, value := range v {
			list = append(list, leaves(below("["+strconv.Itoa(i)+"]"), value)...)
		}
	case []any:
		arguments := len(path) > 0 && strings.HasSuffix(path[len(path)-1], "xtraArgs")
		for i, value := range v {
			if arg, ok := value.(map[string]any); ok && arguments {
				name, _ := arg["name"].(string)
				list = append(list, leaves(below(name), arg["value"])...)
				continue
			}
			list = append(list, leaves(below("["+strconv.Itoa(i)+"]"), value)...)
		}
	default: // also a mapping with non-string keys
		list = append(list, leaf{path, v})
	}
	slices.SortStableFunc(list, func(a, b leaf) int { return slices.Compare(a.path, b.path) })
	return list
}

// matches reports whether one of the patterns matches a path.
func matches(patterns []string, path []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return slices.EqualFunc(strings.Split(pattern, "."), path, func(want, key string) bool {
			return want == "*" || want == key || want == "[]" && strings.HasPrefix(key, "[")
		})
	})
}

// argument matches values of kubelet's arguments that remain one argument: they pass through a line of words.
var argument = regexp.MustCompile(`^[A-Za-z0-9._/=:,<%+-]*$`)

// repeats reports whether a document repeats parts of itself, which can grow beyond measure, or keys: the decoder compares each with all others, and reports each pair.
func repeats(n *yaml.Node) bool {
	keys := map[string]bool{}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode {
			if keys[key.Value] {
				return true
			}
			keys[key.Value] = true
		}
	}
	return n.Kind == yaml.AliasNode || n.Tag == "!!merge" || slices.ContainsFunc(n.Content, repeats)
}
