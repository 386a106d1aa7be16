package manifest_test

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/draft/manifest"
)

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}

// Keys keep their order, and an empty spec is left out.
func TestObject(t *testing.T) {
	m := manifest.Of("z", []string{"one"})
	m.Add("a", manifest.Of("inner", 1))
	m.Add("node", &yaml.Node{Kind: yaml.ScalarNode, Value: "x"})
	m.Comment("made up")
	equal(t, manifest.Object("v1", "Thing", manifest.Of("name", "it"), "spec", m), `apiVersion: v1
kind: Thing
metadata:
  name: it
spec:
  z:
    - one
  a:
    inner: 1
  node: x # made up
`)
	equal(t, manifest.Object("v1", "Namespace", manifest.Of("name", "it"), "spec", &manifest.Mapping{}), "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: it\n")
}

func TestEnvironment(t *testing.T) {
	origin := func(name string) string { return "of " + name }
	e := lab.Environment{Name: "prod", Order: 2, Labels: map[string]string{"b": "2", "a": "1"}, Metadata: map[string]string{"m": "x"}}
	e.Cloud.Provider = "aws"
	equal(t, manifest.Environment(e, manifest.Origins{Label: origin, Metadata: func(string) string { return "" }}), `apiVersion: lab/v1alpha1
kind: Environment
metadata:
  name: prod
spec:
  order: 2
  cloud:
    provider: aws
  labels:
    a: "1" # of a
    b: "2" # of b
  metadata:
    m: x
`)
	equal(t, manifest.Environment(lab.Environment{Name: lab.DefaultEnvironment}, manifest.Origins{}), "apiVersion: lab/v1alpha1\nkind: Environment\nmetadata:\n  name: "+lab.DefaultEnvironment+"\n")
}

func TestCluster(t *testing.T) {
	c := lab.Cluster{
		Name: "prod", Role: lab.RoleSpoke, Environment: "prod", Server: "https://prod:6443", Mounts: map[string]string{"https://git.example.com/a": "../a"},
		Namespaces: []string{"web", "db"}, KubeconfigSecrets: []lab.KubeconfigSecret{{Namespace: "live", Name: "access", Key: "value"}, {Namespace: "live", Name: "other", Key: "config"}},
		Labels: map[string]string{"tier": "one"},
	}
	addons := manifest.Mapping{}
	addons.Add("podinfo", false)
	addons.Comment("elsewhere")
	origin := func(name string) string { return "of " + name }
	of := manifest.Origins{Label: origin, Metadata: origin, Namespace: origin, Secret: func(k lab.KubeconfigSecret) string { return "of " + k.Name }}
	equal(t, manifest.Cluster(c, addons, of), `apiVersion: lab/v1alpha1
kind: Cluster
metadata:
  name: prod
spec:
  role: spoke
  environment: prod
  server: https://prod:6443 # as in manifests
  repositories:
    https://git.example.com/a: ../a
  namespaces:
    - web # of web
    - db # of db
  kubeconfigSecrets:
    - {namespace: live, name: access} # of access
    - {namespace: live, name: other, key: config} # of other
  labels:
    tier: one # of tier
  addons:
    podinfo: false # elsewhere
`)
	hub := lab.Cluster{Name: "hub", Role: lab.RoleHub}
	hub.Engine = lab.EngineSpec{Type: lab.EngineFlux, Shape: lab.ShapeHub, Extra: []string{"source-watcher"}}
	equal(t, manifest.Cluster(hub, manifest.Mapping{}, manifest.Origins{}), `apiVersion: lab/v1alpha1
kind: Cluster
metadata:
  name: hub
spec:
  role: hub
  engine:
    type: flux
    shape: hub
    componentsExtra:
      - source-watcher
`)
	hub.Engine = lab.EngineSpec{Namespace: "delivery"}
	equal(t, manifest.Cluster(hub, manifest.Mapping{}, manifest.Origins{}), "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata:\n  name: hub\nspec:\n  role: hub\n  engine:\n    namespace: delivery\n")
}
