package kube

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// Door is what the door of a lab has in each of the lab's own clusters: an account, the lab's certificate authority for pods, and a zone in the cluster's DNS.
type Door struct {
	Lab    string
	Domain string // "LAB.localhost"
	Host   string // of the door in the lab's network
	CA     string // certificate, in PEM
}

// Resources of the roles that let pods read the authority.
var (
	roles        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

const (
	// CAName is the name of the ConfigMap with the authority in namespace kube-public, CAKey its key.
	CAName = "lab-ca"
	CAKey  = "ca.crt"

	public    = "kube-public"
	system    = "kube-system"
	coreDNS   = "coredns"
	corefile  = "Corefile"
	zoneBegin = "# lab's names begin\n"
	zoneEnd   = "# lab's names end\n"
)

// access returns the door's account, which reads what has names, and writes their addresses.
func (d Door) access() Access {
	read := []any{"get", "list", "watch"}
	rule := func(group string, resources, verbs []any) map[string]any {
		return map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": verbs}
	}
	return Access{Account: "door", Labels: d.labels(), Rules: []any{
		rule("", []any{"services"}, read), rule("networking.k8s.io", []any{"ingresses"}, read), rule("gateway.networking.k8s.io", []any{"httproutes"}, read),
		rule("", []any{"services/status"}, []any{"patch"}), rule("networking.k8s.io", []any{"ingresses/status"}, []any{"patch"}),
	}}
}

func (d Door) labels() map[string]any {
	return map[string]any{lab.LabelName: d.Lab, lab.LabelPart: "door"}
}

// authority returns the ConfigMap, and what lets every account read it.
func (d Door) authority() []part {
	meta := map[string]any{"name": CAName, "namespace": public, "labels": d.labels()}
	object := func(resource schema.GroupVersionResource, kind string, fields map[string]any) part {
		fields["apiVersion"], fields["kind"], fields["metadata"] = resource.GroupVersion().String(), kind, meta
		return part{resource, &unstructured.Unstructured{Object: fields}}
	}
	return []part{
		object(ConfigMaps, "ConfigMap", map[string]any{"data": map[string]any{CAKey: d.CA}}),
		object(roles, "Role", map[string]any{"rules": []any{map[string]any{
			"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{CAName}, "verbs": []any{"get"},
		}}}),
		object(roleBindings, "RoleBinding", map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CAName},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}},
		}),
	}
}

// zone returns the server block of CoreDNS: all names are the door's, whose address the container engine knows.
func (d Door) zone() string {
	return zoneBegin + d.Domain + `:53 {
    errors
    rewrite stop name regex .* ` + d.Host + `. answer auto
    forward . /etc/resolv.conf
    cache 5
}
` + zoneEnd
}

// withZone returns a Corefile with a zone in place of a former one; an empty one is removed.
func withZone(text, zone string) string {
	head, rest, found := strings.Cut(text, zoneBegin)
	if _, tail, ended := strings.Cut(rest, zoneEnd); found && ended {
		text = head + tail
	}
	if zone == "" {
		return text
	}
	return strings.TrimRight(text, "\n") + "\n" + zone
}

// dns returns the Corefile of a cluster, "" if it has none.
func dns(ctx context.Context, in dynamic.Interface) (string, error) {
	o, err := in.Resource(ConfigMaps).Namespace(system).Get(ctx, coreDNS, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", Wrap("configmap "+coreDNS, err)
	}
	text, _, err := unstructured.NestedString(o.Object, "data", corefile)
	return text, err
}

// resolve sets the zone of a cluster's DNS, which reads its Corefile again within a minute.
func resolve(ctx context.Context, in dynamic.Interface, zone string) error {
	text, err := dns(ctx, in)
	if err != nil || text == "" || withZone(text, zone) == text {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]any{corefile: withZone(text, zone)}})
	if err != nil {
		return err
	}
	_, err = in.Resource(ConfigMaps).Namespace(system).Patch(ctx, coreDNS, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return Wrap("configmap "+coreDNS, err)
}

// Ensure creates in a cluster what is missing, and returns the door's credential.
func (d Door) Ensure(ctx context.Context, in dynamic.Interface) (Credential, error) {
	space := Namespace{Name: SpokeNamespace, Labels: map[string]any{lab.LabelName: d.Lab, lab.LabelPart: "registration"}}
	if err := space.Ensure(ctx, in, func(string) {}); err != nil {
		return Credential{}, err
	}
	cred, _, err := d.access().Ensure(ctx, in)
	if err != nil {
		return Credential{}, err
	}
	for _, p := range d.authority() {
		if _, _, err := Apply(ctx, in, p.resource, p.want); err != nil {
			return Credential{}, err
		}
	}
	return cred, resolve(ctx, in, d.zone())
}

// Observe returns the door's credential for a cluster, and what the cluster lacks of what Ensure creates, "" for nothing.
func (d Door) Observe(ctx context.Context, in dynamic.Interface) (cred Credential, lacks string, err error) {
	cred, whole, err := d.access().Observe(ctx, in)
	if err != nil || !whole {
		return cred, "the door has no account", err
	}
	for _, p := range d.authority() {
		if _, same, err := Compare(ctx, in, p.resource, p.want); err != nil || !same {
			return cred, "pods cannot read the authority", err
		}
	}
	text, err := dns(ctx, in)
	if err != nil || text != "" && withZone(text, d.zone()) != text {
		return cred, "its DNS does not know the names", err
	}
	return cred, "", nil
}

// Leave removes what Ensure created, apart from lab's namespace.
func (d Door) Leave(ctx context.Context, in dynamic.Interface) error {
	if err := resolve(ctx, in, ""); err != nil {
		return err
	}
	for _, p := range d.authority() {
		if err := remove(ctx, in, p, d.Lab); err != nil {
			return err
		}
	}
	return d.access().Revoke(ctx, in)
}
