package document

import (
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/golden"
)

// Reading any document terminates, and positions are inside the file.
func FuzzDocuments(f *testing.F) {
	golden.Seed(f, "../testdata/broken/*.txtar", "../testdata/base.txtar")
	golden.Hostile(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := golden.Lines(data)
		c, problems := Cluster("clusters/dev/cluster.yaml", data, "/estate")
		if len(problems) == 0 && (c.Name != "dev" || c.Role == "") {
			t.Errorf("no problem with %+v", c)
		}
		e, more := Environment("environments/dev/environment.yaml", data)
		if len(more) == 0 && e.Name != "dev" {
			t.Errorf("no problem with %+v", e)
		}
		for _, p := range slices.Concat(problems, more) {
			if p.Line < 1 || p.Line > lines || p.Message == "" {
				t.Errorf("%d lines, and a problem at %v", lines, p)
			}
		}
	})
}

func TestThrough(t *testing.T) {
	c, problems := Cluster("clusters/hub/cluster.yaml", []byte("apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec:\n  role: hub\n"+
		`  registry: {through: [docker.io, ghcr.io, "http://mirror.example.com:5000"]}`), "/estate")
	want := []lab.Upstream{{Host: "docker.io", URL: "https://registry-1.docker.io"}, {Host: "ghcr.io", URL: "https://ghcr.io"}, {Host: "mirror.example.com:5000", URL: "http://mirror.example.com:5000"}}
	if len(problems) > 0 || !c.Registry || !slices.Equal(c.Through, want) {
		t.Errorf("got %v, %v", c.Through, problems)
	}
	for i, name := range []string{"registry-docker-io", "registry-ghcr-io", "registry-mirror-exam-"} {
		if got := c.Through[i].Cache(); !strings.HasPrefix(got, name) || len(got) > 27 {
			t.Errorf("%s is cached by %s", c.Through[i].Host, got)
		}
	}
}

// An existing Kind document can be pasted, and is canonicalized.
func TestKindDocument(t *testing.T) {
	read := func(kind string) lab.Cluster {
		t.Helper()
		c, problems := Cluster("clusters/dev/cluster.yaml",
			[]byte("apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec:\n  role: spoke\n  environment: dev\n  kind:\n"+kind), "/estate")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	c := read(`    kind: Cluster
    apiVersion: kind.x-k8s.io/v1alpha4
    name: mine # lab names it
    nodes:
      - role: control-plane
        extraPortMappings: [{hostPort: 8080, containerPort: 80, protocol: tcp}, {hostPort: 8081, containerPort: 81, listenAddress: 0.0.0.0}]
        extraMounts: [{hostPath: data, containerPath: /data}, {hostPath: /srv, containerPath: /srv, readOnly: true}]
      - {role: worker, labels: {a: b}}
      - {role: worker}
    networking: {ipFamily: dual, podSubnet: "10.244.0.0/16,fd00:10:244::/56"}
    containerdConfigPatches: ["a = 1"]
    featureGates: {X: true}
    runtimeConfig: {api/alpha: "false"}
`)
	want := `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
    - role: control-plane
      extraMounts:
        - containerPath: /data
          hostPath: /estate/data
        - containerPath: /srv
          hostPath: /srv
          readOnly: true
      extraPortMappings:
        - containerPort: 80
          hostPort: 8080
          listenAddress: 127.0.0.1
          protocol: TCP
        - containerPort: 81
          hostPort: 8081
          listenAddress: 0.0.0.0
    - role: worker
      labels:
        a: b
    - role: worker
networking:
    ipFamily: dual
    podSubnet: 10.244.0.0/16,fd00:10:244::/56
featureGates:
    X: true
runtimeConfig:
    api/alpha: "false"
containerdConfigPatches:
    - a = 1
`
	if string(c.Kind) != want || c.ControlPlanes != 1 || c.Workers != 2 {
		t.Errorf("%d control planes, %d workers, kind document:\n%s\nwant:\n%s", c.ControlPlanes, c.Workers, c.Kind, want)
	}
	a, b := read("    nodes: [{role: worker}, {role: control-plane, image: x}]\n"), read("    # later\n    nodes:\n    - role: worker\n    - image: x\n      role: control-plane\n")
	if string(a.Kind) != string(b.Kind) {
		t.Errorf("two spellings of one document differ:\n%s\n%s", a.Kind, b.Kind)
	}
}
