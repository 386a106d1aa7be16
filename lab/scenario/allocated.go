package scenario

import "maps"

// allocated lists the spec fields that the API server assigns on creation. A recreated object gets other values, which
// is not a change to its users (https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/).
func allocated(kind any) []string {
	switch kind {
	case "Service":
		return []string{"clusterIP", "clusterIPs", "healthCheckNodePort"}
	case "PersistentVolumeClaim":
		return []string{"volumeName"}
	}
	return nil
}

func withoutAllocated(o map[string]any) map[string]any {
	spec, ok := o["spec"].(map[string]any)
	names := allocated(o["kind"])
	if !ok || len(names) == 0 {
		return o
	}
	out, spec := maps.Clone(o), maps.Clone(spec)
	for _, name := range names {
		delete(spec, name)
	}
	if ports, ok := spec["ports"].([]any); ok {
		kept := make([]any, len(ports))
		for i, p := range ports {
			kept[i] = p
			if m, ok := p.(map[string]any); ok {
				m = maps.Clone(m)
				delete(m, "nodePort")
				kept[i] = m
			}
		}
		spec["ports"] = kept
	}
	out["spec"] = spec
	return out
}

// identity returns the uid, which distinguishes an object from a recreated one of the same name.
func identity(o map[string]any) any {
	meta, _ := o["metadata"].(map[string]any)
	return meta["uid"]
}
