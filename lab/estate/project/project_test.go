package project

import (
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

var estate = &lab.Estate{
	Name: "homelab", Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub}, {Name: "dev", Role: lab.RoleSpoke, Server: "https://dev.example.com"}},
	Repositories: []lab.Repository{{Name: "shop", URL: "https://git.example.com/shop", Dir: "../shop"}},
}

const anywhere = "sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}]"

func parsed(t *testing.T, doc string) *Project {
	t.Helper()
	docs, problems := strict.Parse("x.yaml", []byte("apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shops}\n"+doc))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return Read(docs[0], argo.Default)
}

func application(t *testing.T, spec string) *appset.Template {
	t.Helper()
	docs, problems := strict.Parse("x.yaml", []byte("apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web}\nspec: {"+spec+"}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	app, problems := appset.ParseApplication("x.yaml", docs[0])
	if app == nil {
		t.Fatal(problems)
	}
	return app
}

func TestRefuses(t *testing.T) {
	const (
		source      = "source: {repoURL: https://git.example.com/web.git, path: .}, "
		dev         = "destination: {name: dev, namespace: web}"
		destination = "its project shops does not permit the destination https://dev.example.com, namespace web"
	)
	for name, c := range map[string]struct{ project, app, want string }{
		"anywhere":         {anywhere, source + dev, ""},
		"nothing":          {"description: none", source + dev, "its project shops does not permit the source https://git.example.com/web.git"},
		"source":           {"sourceRepos: ['https://GIT.example.com/web'], destinations: [{name: dev, namespace: web}]", source + dev, ""},
		"one path segment": {"sourceRepos: ['https://*/web']", source + dev, destination},
		"path segments":    {"sourceRepos: ['https://*']", source + dev, "its project shops does not permit the source https://git.example.com/web.git"},
		"denied source":    {"sourceRepos: ['*', '!https://git.example.com/*']", source + dev, "its project shops does not permit the source https://git.example.com/web.git"},
		"over SSH":         {"sourceRepos: ['git@git.example.com:*']", strings.Replace(source, "https://git.example.com/", "ssh://git@git.example.com/", 1) + dev, destination},
		"mirror": {
			"sourceRepos: ['https://git.example.com/shop']", strings.Replace(source, "https://git.example.com/web.git", "http://lab-homelab-forge:3000/lab/shop.git", 1) + dev,
			"its project shops does not permit the source http://lab-homelab-forge:3000/lab/shop.git, the mirror of https://git.example.com/shop",
		},
		"server":           {"sourceRepos: ['*'], destinations: [{server: 'https://dev.*', namespace: 'w*'}]", source + dev, ""},
		"another server":   {"sourceRepos: ['*'], destinations: [{server: 'https://prod.*', namespace: '*'}]", source + dev, destination},
		"denied server":    {"sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}, {server: '!https://dev.*', namespace: '*'}]", source + dev, destination},
		"denied name":      {"sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}, {name: '!dev', namespace: x}]", source + dev, destination},
		"denied namespace": {"sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}, {server: '*', namespace: '!web'}]", source + dev, destination},
		"own clusters":     {anywhere + ", permitOnlyProjectScopedClusters: true", source + dev, destination},
		"unknown cluster":  {"sourceRepos: ['*']", source + "destination: {name: edge, namespace: web}", ""},
		"namespace": {
			anywhere, source + dev + ", syncPolicy: {syncOptions: [CreateNamespace=true]}",
			"its project shops does not permit Namespace, of which CreateNamespace=true creates one",
		},
		"permitted namespace": {anywhere + ", clusterResourceWhitelist: [{group: '', kind: Name*}]", source + dev + ", syncPolicy: {syncOptions: [CreateNamespace=true]}", ""},
		"namespace of a permitted name": {
			anywhere + ", clusterResourceWhitelist: [{group: '', kind: Namespace, name: w*}]", source + dev + ", syncPolicy: {syncOptions: [CreateNamespace=true]}", "",
		},
		"namespace of another name": {
			anywhere + ", clusterResourceWhitelist: [{group: '', kind: Namespace, name: shop-*}]", source + dev + ", syncPolicy: {syncOptions: [CreateNamespace=true]}",
			"its project shops does not permit Namespace web, of which CreateNamespace=true creates one",
		},
		"signatures":     {anywhere + ", signatureKeys: [{keyID: a}]", source + dev, "its project shops requires signed commits, whose keys the lab's engine does not have"},
		"window":         {anywhere + ", syncWindows: [{clusters: [dev]}]", source + dev, "its project shops has sync windows, outside of which Argo CD may not sync it"},
		"window of all":  {anywhere + ", syncWindows: [{andOperator: true, applications: ['w*'], namespaces: [web]}]", source + dev, "its project shops has sync windows, outside of which Argo CD may not sync it"},
		"window of some": {anywhere + ", syncWindows: [{andOperator: true, applications: ['w*'], namespaces: [other]}]", source + dev, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := application(t, c.app)
			if got := parsed(t, "spec: {"+c.project+"}").Refuses(estate, app, app.Spec.Destination.Name); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRefusesObject(t *testing.T) {
	app := application(t, "source: {repoURL: https://git.example.com/web.git, path: .}, destination: {name: dev, namespace: web}")
	const (
		configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
		role      = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
	)
	for name, c := range map[string]struct{ project, object, want string }{
		"namespaced":              {anywhere, configMap, ""},
		"no namespaced kind":      {anywhere + ", namespaceResourceWhitelist: []", configMap, "its project shops does not permit ConfigMap"},
		"one namespaced kind":     {anywhere + ", namespaceResourceWhitelist: [{group: '', kind: Secret}]", configMap, "its project shops does not permit ConfigMap"},
		"denied kind":             {anywhere + ", namespaceResourceBlacklist: [{group: '*', kind: Config*}]", configMap, "its project shops does not permit ConfigMap"},
		"of the cluster":          {anywhere, role, "its project shops does not permit ClusterRole.rbac.authorization.k8s.io"},
		"permitted":               {anywhere + ", clusterResourceWhitelist: [{group: rbac.*, kind: '*'}]", role, ""},
		"denied of the cluster":   {anywhere + ", clusterResourceWhitelist: [{group: '*', kind: '*'}], clusterResourceBlacklist: [{group: '*', kind: ClusterRole}]", role, "its project shops does not permit ClusterRole.rbac.authorization.k8s.io"},
		"of a permitted name":     {anywhere + ", clusterResourceWhitelist: [{group: '*', kind: '*', name: '[a-c]'}]", role, ""},
		"of a denied name":        {anywhere + ", clusterResourceWhitelist: [{group: '*', kind: '*'}], clusterResourceBlacklist: [{group: '*', kind: '*', name: a}]", role, "its project shops does not permit ClusterRole.rbac.authorization.k8s.io a"},
		"in another namespace":    {"destinations: [{name: dev, namespace: web}]", strings.Replace(configMap, "name: a", "name: a, namespace: b", 1), "its project shops does not permit the destination https://dev.example.com, namespace b"},
		"in a permitted one":      {"destinations: [{name: dev, namespace: b}]", strings.Replace(configMap, "name: a", "name: a, namespace: b", 1), ""},
		"cannot be read, so none": {"destinations: 1, namespaceResourceWhitelist: []", configMap, ""},
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems := strict.Parse("x.yaml", []byte(c.object))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := parsed(t, "spec: {"+c.project+"}").RefusesObject(estate, app, "dev", render.Document{Node: docs[0]}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Argo CD creates a project default that permits everything.
func TestDefault(t *testing.T) {
	app := application(t, "source: {repoURL: https://git.example.com/web.git, path: .}, destination: {name: dev, namespace: web}")
	if got := Of(app); got != Default {
		t.Errorf("project %s", got)
	}
	var none *Project
	if got := none.Refuses(estate, app, "dev") + none.RefusesObject(estate, app, "dev", render.Document{}); got != "" {
		t.Errorf("got %q", got)
	}
}

// Argo CD 3.2 drops what it does not know.
func TestNamesSinceMinor(t *testing.T) {
	const kinds = "spec: {clusterResourceWhitelist: [{group: '*', kind: '*', name: shop}]}"
	docs, problems := strict.Parse("x.yaml", []byte("kind: AppProject\nmetadata: {name: shops}\n"+kinds))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for minor, want := range map[argo.Minor]bool{2: true, 3: false, argo.Newest: false} {
		if got := Read(docs[0], minor).spec.permitsOfCluster("", "Namespace", "web"); got != want {
			t.Errorf("%s: %t", minor, got)
		}
	}
}
