package leftout

import (
	"fmt"
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// needsOf returns the needs of manifests that are synced to namespace apps.
func needsOf(t *testing.T, manifests string) Needs { return needsFor(t, needs.Rules{}, manifests) }

func needsFor(t *testing.T, rules needs.Rules, manifests string) Needs {
	t.Helper()
	docs, problems := strict.Parse("x.yaml", []byte(manifests))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var objects []render.Document
	for _, doc := range docs {
		objects = append(objects, render.Document{Node: doc})
	}
	var n Needs
	n.Add(rules, objects, "apps", []map[string]string{{}})
	return n
}

func TestRelate(t *testing.T) {
	const (
		thing      = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"
		definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec: {group: example.com, names: {kind: Thing}, versions: [{name: v1}]}\n"
		project    = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: a}\n"
		claim      = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: fast}\n"
		class      = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: rancher.io/local-path\nvolumeBindingMode: WaitForFirstConsumer\n"
		config     = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"
	)
	hub, dev := lab.Cluster{Name: "hub", Role: lab.RoleHub, Provider: lab.ProviderKind}, lab.Cluster{Name: "dev", Role: lab.RoleSpoke, Provider: lab.ProviderKind}
	for name, c := range map[string]struct {
		cluster   lab.Cluster
		one, more string // manifests of two Applications on the cluster
		opaque    Needs  // of a third
		want      string // of the first: kinds, waits and shared objects
	}{
		"kind":                       {cluster: dev, one: thing, want: "[{nothing defines Thing of example.com/v1 on dev [] true}] [] []"},
		"defined kind":               {cluster: dev, one: thing, more: definition, want: "[{nothing defines Thing of example.com/v1 on dev [more] true}] [] []"},
		"engine's kind":              {cluster: hub, one: project, want: "[] [] []"},
		"engine's kind, no engine":   {cluster: dev, one: project, want: "[{nothing defines AppProject of argoproj.io/v1alpha1 on dev [] true}] [] []"},
		"existing cluster":           {cluster: lab.Cluster{Name: "dev", Provider: lab.ProviderExisting}, one: thing + "---\n" + claim, want: "[] [] []"},
		"unknown cluster":            {cluster: lab.Cluster{Name: "edge"}, one: thing, want: "[] [] []"},
		"volume":                     {cluster: dev, one: claim, want: "[] [{PersistentVolumeClaim data waits for StorageClass fast, which nothing provides on dev [] false}] []"},
		"provided volume":            {cluster: dev, one: claim, more: class, want: "[] [{PersistentVolumeClaim data waits for StorageClass fast, which nothing provides on dev [more] false}] []"},
		"perhaps provided":           {cluster: dev, one: claim, opaque: Needs{Opaque: true}, want: "[] [{PersistentVolumeClaim data waits for StorageClass fast, which nothing provides on dev [opaque] false}] []"},
		"nothing can provide it":     {cluster: dev, one: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {paused: true}\n", want: "[] [{Deployment web is paused [] false}] []"},
		"shared":                     {cluster: dev, one: config, more: config, want: "[] [] [{ConfigMap config more}]"},
		"shared in two ways":         {cluster: dev, one: config, more: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: apps}\n", want: "[] [] [{ConfigMap config more}]"},
		"first of several shared":    {cluster: dev, one: config + "---\n" + claim, more: claim + "---\n" + config, want: "[] [{PersistentVolumeClaim data waits for StorageClass fast, which nothing provides on dev [] false}] [{ConfigMap config more}]"},
		"in another namespace":       {cluster: dev, one: config, more: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: other}\n", want: "[] [] []"},
		"another's by its label":     {cluster: dev, one: config, more: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, labels: {app.kubernetes.io/instance: x}}\n", want: "[] [] []"},
		"definitions are not shared": {cluster: dev, one: definition, more: definition, want: "[] [] []"},
		"without a namespace":        {cluster: dev, one: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n", more: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", want: "[] [] [{Namespace a more}]"},
	} {
		t.Run(name, func(t *testing.T) {
			on := func(name, cluster string) lab.Generated {
				return lab.Generated{Application: lab.Application{Name: name, Cluster: cluster}}
			}
			e := &lab.Estate{Clusters: []lab.Cluster{hub, dev}, Applications: []lab.Generated{on("one", c.cluster.Name), on("more", c.cluster.Name), on("opaque", c.cluster.Name), on("elsewhere", "prod")}}
			if c.cluster.Provider == lab.ProviderExisting {
				e.Clusters[1] = c.cluster
			}
			Relate(e, map[string]Needs{"one": needsOf(t, c.one), "more": needsOf(t, c.more), "opaque": c.opaque, "elsewhere": needsOf(t, definition+"---\n"+class+"---\n"+config)})
			one := e.Applications[0]
			if got := fmt.Sprint(one.Kinds, one.Waits, one.Shared); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Argo CD before 3.4 considers an Application healthy without its objects if it checks none of them.
func TestChecked(t *testing.T) {
	const (
		role       = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\n"
		deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
		hook       = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, annotations: {helm.sh/hook: post-install}}\n"
	)
	for _, c := range []struct {
		minor     argo.Minor
		manifests string
		want      bool
	}{{3, role, false}, {4, role, true}, {argo.Newest, role, true}, {3, deployment, true}, {4, deployment, true}, {3, hook, false}, {4, hook, false}} {
		manifests, want := c.manifests, c.want
		n := needsFor(t, needs.Rules{Minor: c.minor}, manifests)
		e := &lab.Estate{Clusters: []lab.Cluster{{Name: "dev", Provider: lab.ProviderKind}}, Applications: []lab.Generated{{Application: lab.Application{Name: "a", Cluster: "dev"}}}}
		if Relate(e, map[string]Needs{"a": n}); n.Checked != want || e.Applications[0].Unchecked == want {
			t.Errorf("3.%d: checked %v, unchecked %v for\n%s", c.minor, n.Checked, e.Applications[0].Unchecked, manifests)
		}
	}
}

// Objects of several sources add up.
func TestAdd(t *testing.T) {
	var n Needs
	for _, name := range []string{"a", "b"} {
		docs, _ := strict.Parse("x.yaml", []byte("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: "+name+"}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: "+name+"}\nspec: {paused: true}\n"))
		n.Add(needs.Rules{}, []render.Document{{Node: docs[0]}, {Node: docs[1]}}, "apps", []map[string]string{{}})
	}
	var waits []string
	for _, w := range n.waits {
		waits = append(waits, w.Why)
	}
	if len(n.tracked) != 4 || len(n.foreign) != 2 || !slices.Equal(waits, []string{"Deployment a is paused", "Deployment b is paused"}) {
		t.Errorf("%+v", n)
	}
}
