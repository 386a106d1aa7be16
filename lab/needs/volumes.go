package needs

import (
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"homelab/lab/strict"
)

const claimKind = "PersistentVolumeClaim"

// The StorageClass of lab's nodes, and what runs there: https://github.com/rancher/local-path-provisioner
const (
	defaultClass = "standard"
	provisioner  = "rancher.io/local-path"
)

// isLocal reports whether a StorageClass is provisioned by lab's nodes. They need to know the pod's node.
func isLocal(class *yaml.Node) bool {
	return strict.Text(class, "provisioner") == provisioner && strict.Text(class, "volumeBindingMode") == "WaitForFirstConsumer"
}

// volumes returns the volumes that an object needs: it is a claim, or makes some.
func (w World) volumes(e Engine, u Unit, n *yaml.Node) []Need {
	var list []Need
	switch strict.Text(n, "kind") {
	case claimKind:
		spec := strict.Get(n, "spec")
		if list = w.volume(u, n, spec, ""); e.unused && w.waitsForPod(u, spec) {
			by := uses(claimKind + " " + namespaceOf(n, u.Namespace) + "/" + strict.Text(n, "metadata", "name"))
			list = append(list, Need{Sort: Used, Object: n, What: "a pod that uses it", Clause: ", which no pod uses", By: []string{by}, May: []string{createsPods}})
		}
	case "StatefulSet":
		for _, claim := range strict.List(n, "spec", "volumeClaimTemplates") {
			if !Idle(n) {
				list = append(list, w.volume(u, n, strict.Get(claim, "spec"), " with a volume")...)
			}
		}
	}
	return list
}

// volume returns what an object needs for a claim, unless lab's nodes provide it as soon as a pod uses it.
func (w World) volume(u Unit, n, claim *yaml.Node, with string) []Need {
	name := strict.Text(claim, "storageClassName")
	need := Need{Sort: Bound, Object: n, What: ofClass(name), By: []string{ofClass(name)}, May: []string{createsVolumes}}
	class := w.class(u, name)
	runs := strict.Text(class, "provisioner")
	switch {
	case strict.Text(claim, "volumeName") != "":
		return nil
	case ofDefault(claim):
		mode := sharedMode(claim)
		if mode == "" {
			return nil
		}
		need.What, need.By = "a volume with access mode "+mode, []string{ofClass(defaultClass)}
		need.Clause = ", but lab's StorageClass has no " + mode
	case name == "":
		need.Clause = " without a StorageClass, for which nothing available has a PersistentVolume"
	case class == nil:
		need.Clause = " of StorageClass " + name + ", which nothing available defines"
	case runs == provisioner && !isLocal(class):
		need.Clause, need.May = ", whose StorageClass is not bound by WaitForFirstConsumer", nil
	default:
		need.Clause, need.mentioned = " of provisioner "+runs+", which no workload of this lab provides", runs
	}
	need.Clause = with + need.Clause
	return []Need{need}
}

// ofDefault reports whether a claim is of the StorageClass of lab's nodes.
func ofDefault(claim *yaml.Node) bool {
	of := strict.Get(claim, "storageClassName")
	return of == nil || strict.IsNull(of) || of.Value == defaultClass
}

// waitsForPod reports whether a claim remains pending until a pod uses it.
func (w World) waitsForPod(u Unit, claim *yaml.Node) bool {
	class := w.class(u, strict.Text(claim, "storageClassName"))
	return strict.Text(claim, "volumeName") == "" && (ofDefault(claim) || class != nil && isLocal(class))
}

// class returns a StorageClass in the manifests of a unit or of others on its cluster, or nil.
func (w World) class(u Unit, name string) *yaml.Node {
	for _, u := range append([]*Unit{&u}, w.on[u.Cluster]...) {
		for _, o := range u.Objects {
			if strict.Text(o.Node, "kind") == "StorageClass" && strict.Text(o.Node, "metadata", "name") == name {
				return o.Node
			}
		}
	}
	return nil
}

// sharedMode returns an access mode that a claim asks for and lab's StorageClass does not have, or "".
func sharedMode(claim *yaml.Node) string {
	for _, mode := range strict.List(claim, "accessModes") {
		if mode.Value == string(corev1.ReadWriteMany) || mode.Value == string(corev1.ReadOnlyMany) {
			return mode.Value
		}
	}
	return ""
}
