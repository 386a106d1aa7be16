package scenario

import (
	"strings"
	"testing"
)

func TestAllocatedFieldsIgnored(t *testing.T) {
	service := func(uid, ip string, target int64) map[string]any {
		return map[string]any{
			"kind": "Service", "metadata": map[string]any{"name": "podinfo", "uid": uid},
			"spec": map[string]any{"clusterIP": ip, "ports": []any{map[string]any{"port": int64(80), "targetPort": target, "nodePort": int64(len(ip))}}},
		}
	}
	at := Subject{Cluster: "dev", APIVersion: "v1", Kind: "Service", Namespace: "podinfo", Name: "podinfo"}
	before := newSnapshot()
	before.keep(View{at: State{Known: true, Object: service("1", "10.96.0.1", 8080)}}, []Subject{at})
	for name, c := range map[string]struct {
		now  map[string]any
		want string
	}{
		"recreated":          {service("2", "10.96.0.22", 8080), ""},
		"recreated, changed": {service("2", "10.96.0.22", 8081), "spec.ports"},
		"changed":            {service("1", "10.96.0.22", 8080), "spec.clusterIP"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(before.changed(View{Applications(): {Known: true}, at: {Known: true, Object: c.now}}, ""), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
