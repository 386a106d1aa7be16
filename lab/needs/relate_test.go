package needs

import (
	"fmt"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// unitOf returns a unit of manifests, in namespace apps, for a cluster with one node.
func unitOf(t *testing.T, manifests string) Unit {
	t.Helper()
	docs, problems := strict.Parse("x.yaml", []byte(manifests))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	u := Unit{Namespace: "apps", Nodes: []map[string]string{{}}}
	for _, doc := range docs {
		u.Objects = append(u.Objects, render.Document{Node: doc})
	}
	return u
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
	const (
		fast    = "PersistentVolumeClaim data waits for StorageClass fast, which nothing provides on dev"
		noThing = "nothing defines Thing of example.com/v1 on dev"
		secret  = "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: apps}\n"
		pod     = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web, envFrom: [{secretRef: {name: key}}]}]}\n"
		role    = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: [{apiGroups: ['*'], resources: [RESOURCE], verbs: [create]}]\n"
		noKey   = "nothing in Git creates Secret apps/key on dev"
	)
	can := func(resource string) string { return strings.Replace(role, "RESOURCE", resource, 1) }
	anything := func(Need) bool { return true }
	for name, c := range map[string]struct {
		one, more string          // manifests of two Applications on a cluster
		may       func(Need) bool // of a third
		want      string          // of the first: what it lacks, and shared objects
	}{
		"kind":                       {one: thing, want: "[{" + noThing + " [] [] absent true}] []"},
		"defined kind":               {one: thing, more: definition, want: "[{" + noThing + " [] [more] absent true}] []"},
		"another version":            {one: thing, more: strings.Replace(definition, "v1}", "v2}", 1), want: "[{" + noThing + " [] [] absent true}] []"},
		"version that is not served": {one: thing, more: strings.Replace(definition, "v1}", "v1, served: false}", 1), want: "[{" + noThing + " [] [] absent true}] []"},
		"perhaps defined kind":       {one: thing, more: can("customresourcedefinitions"), may: anything, want: "[{" + noThing + " [more third] [] absent true}] []"},
		"kind of its own":            {one: thing + "---\n" + definition, want: "[] []"},
		"former kind":                {one: "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n", may: anything, want: "[{nothing defines PodDisruptionBudget of policy/v1beta1 on dev [] [] absent true}] []"},
		"engine's kind, no engine":   {one: project, want: "[{nothing defines AppProject of argoproj.io/v1alpha1 on dev [] [] absent true}] []"},
		"what the cluster has":       {one: strings.Replace(config, "name: config", "name: config, namespace: kube-system", 1), want: "[] []"},
		"namespace":                  {one: strings.Replace(config, "name: config", "name: config, namespace: gone", 1), want: "[{nothing in Git creates Namespace gone on dev [] [] true}] []"},
		"object":                     {one: pod, want: "[{" + noKey + " [] [] true}] []"},
		"object of another":          {one: pod, more: secret, want: "[{" + noKey + " [] [more] true}] []"},
		"object perhaps of another":  {one: pod, more: can("secrets"), may: anything, want: "[{" + noKey + " [more third] [] true}] []"},
		"object of a custom one":     {one: pod, more: thing, want: "[{" + noKey + " [more] [] true}] []"},
		"object of its own":          {one: pod + "---\n" + secret, want: "[] []"},
		"volume":                     {one: claim, want: "[{" + fast + " [] [] true}] []"},
		"provided volume":            {one: claim, more: class, want: "[{" + fast + " [] [more] true}] []"},
		"perhaps provided":           {one: claim, more: can("persistentvolumes"), may: anything, want: "[{" + fast + " [more third] [] true}] []"},
		"provisioner":                {one: claim, more: strings.Replace(class, "rancher.io/local-path", "nfs.example.com", 1) + "---\n" + strings.Replace(pod, "image: web", "image: web, args: [--name=nfs.example.com]", 1), want: "[{" + fast + " [more] [] true}] []"},
		"no provisioner":             {one: claim, more: strings.Replace(class, "rancher.io/local-path", "nfs.example.com", 1), want: "[{" + fast + " [] [] true}] []"},
		"nothing can provide it":     {one: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {paused: true}\n", may: anything, want: "[{Deployment web is paused [] [] true}] []"},
		"node":                       {one: strings.Replace(pod, "containers:", "nodeSelector: {disk: ssd}, containers:", 1) + "---\n" + secret, more: can("nodes"), want: "[{Pod web waits for a node with disk=ssd, which nothing provides on dev [more] [] true}] []"},
		"controller":                 {one: "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\n---\n" + strings.NewReplacer("example.com", "cert-manager.io", "Thing", "Certificate").Replace(definition), want: "[{Certificate a waits for a controller of cert-manager.io, which nothing provides on dev [] [] true}] []"},
		"shared":                     {one: config, more: config, want: "[] [{ConfigMap config more}]"},
		"shared in two ways":         {one: config, more: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: apps}\n", want: "[] [{ConfigMap config more}]"},
		"first of several shared":    {one: config + "---\n" + claim, more: claim + "---\n" + config, want: "[{" + fast + " [] [] true}] [{ConfigMap config more}]"},
		"in another namespace":       {one: config, more: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: other}\n", want: "[] []"},
		"another's by its label":     {one: config, more: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, labels: {app.kubernetes.io/instance: x}}\n", want: "[] []"},
		"definitions are not shared": {one: definition, more: definition, want: "[] []"},
		"without a namespace":        {one: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n", more: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", want: "[] [{Namespace a more}]"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &lab.Estate{}
			for _, name := range []string{"one", "more", "third"} {
				e.Applications = append(e.Applications, lab.Generated{Application: lab.Application{Name: name, Cluster: "dev"}})
			}
			e.Applications = append(e.Applications, lab.Generated{Application: lab.Application{Name: "elsewhere", Cluster: "prod"}})
			units := map[string]Unit{"one": unitOf(t, c.one), "more": unitOf(t, c.more), "third": {May: c.may}, "elsewhere": unitOf(t, definition+"---\n"+class+"---\n"+config)}
			own := Unit{Cluster: "dev", Has: []string{Namespace("kube-system"), Namespace("apps"), Namespace("other")}}
			Relate(e, ArgoCD(0), units, []Unit{own})
			one := e.Applications[0]
			if got := strings.ReplaceAll(fmt.Sprint(one.Lacks, one.Shared), "  ", " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			e.Applications[0].Lacks = nil
			if Relate(e, ArgoCD(0), units, nil); len(e.Applications[0].Lacks) > 0 {
				t.Error("an unknown cluster lacks something")
			}
		})
	}
}

// Argo CD before 3.4 considers an Application healthy without its objects if it checks none of them.
func TestChecksOfManifests(t *testing.T) {
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
		if got := ArgoCD(c.minor).Checks(unitOf(t, c.manifests)); got != c.want {
			t.Errorf("3.%d: %t for\n%s", c.minor, got, c.manifests)
		}
	}
}
