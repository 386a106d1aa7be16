package estate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/strict"
)

// Reading any file terminates, and positions are inside the file.
func FuzzDocuments(f *testing.F) {
	cases, err := filepath.Glob("testdata/broken/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(cases, "testdata/base.txtar") {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u2028") +
			strings.Count(string(data), "\u2029") + strings.Count(string(data), "\u0085") + 1 // YAML breaks lines at all of these
		c, problems := readCluster("clusters/dev/cluster.yaml", data, "/estate")
		if len(problems) == 0 && (c.Name != "dev" || c.Role == "") {
			t.Errorf("no problem with %+v", c)
		}
		e, more := readEnvironment("environments/dev/environment.yaml", data)
		if len(more) == 0 && e.Name != "dev" {
			t.Errorf("no problem with %+v", e)
		}
		docs, rest := strict.Parse("addons/x/applicationset.yaml", data)
		for _, doc := range docs {
			rest = append(rest, escapes("addons/x/applicationset.yaml", doc)...)
			set, unread := appset.Parse("addons/x/applicationset.yaml", doc)
			if rest = append(rest, unread...); len(unread) > 0 {
				continue
			}
			reads(set)
			if _, err := set.Expand(appset.World{Clusters: []appset.Cluster{{Name: "dev", Server: "https://dev", Labels: map[string]string{argo.SecretType: "cluster"}}}}); err != nil {
				var fault *appset.Error
				if errors.As(err, &fault) {
					rest = append(rest, fault.Problems...)
				}
			}
		}
		for _, p := range slices.Concat(problems, more, rest) {
			if p.Line < 1 || p.Line > lines || p.Message == "" {
				t.Errorf("%d lines, and a problem at %v", lines, p)
			}
		}
	})
}

func TestParseBounds(t *testing.T) {
	_, problems := strict.Parse("x.yaml", make([]byte, strict.MaxFile+1))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "too large") {
		t.Errorf("a huge file: %v", problems)
	}
	if _, problems = strict.Parse("x.yaml", []byte(strings.Repeat("a: 1\n---\n", strict.MaxDocs+1))); len(problems) != 1 {
		t.Errorf("many documents: %v", problems)
	}
}

func TestManyProblems(t *testing.T) {
	var file strings.Builder
	for i := range 200 {
		fmt.Fprintf(&file, "key%d: 1\n", i)
	}
	dir, fsys := build(t, &txtar.Archive{Files: []txtar.File{
		{Name: "clusters/dev/cluster.yaml", Data: []byte(file.String())},
		{Name: "environments/dev/environment.yaml", Data: []byte("a: 1\n")},
	}})
	_, err := Load(fsys, dir, "homelab")
	var failed *lab.Error
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.Message, "208 problems") {
		t.Fatalf("%v", err)
	}
	if got := failed.Problems[50].String(); len(failed.Problems) != 55 || !strings.Contains(got, "and 154 more in this file") {
		t.Errorf("%d problems, after the most: %s", len(failed.Problems), got)
	}
}

func TestMergeKeys(t *testing.T) {
	docs, problems := strict.Parse("x.yaml", []byte("base: &b {a: 1, c: 2}\nmore: {<<: [*b, {d: 4}], c: 3}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got struct{ More map[string]int }
	if err := docs[0].Decode(&got); err != nil || got.More["a"] != 1 || got.More["c"] != 3 || got.More["d"] != 4 || len(got.More) != 3 {
		t.Errorf("%v, %v", got.More, err)
	}
}

// An existing Kind document can be pasted, and is canonicalized.
func TestKindDocument(t *testing.T) {
	read := func(kind string) lab.Cluster {
		t.Helper()
		c, problems := readCluster("clusters/dev/cluster.yaml",
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

func TestClosest(t *testing.T) {
	known := []string{"environment", "role", "region", "podinfo", "metrics-server"}
	for word, want := range map[string]string{
		"enviroment": "environment", "rloe": "role", "regoin": "region", "metrics_server": "metrics-server",
		"Region": "region", "banana": "", "": "", "e": "", strings.Repeat("x", 1<<16): "",
	} {
		if got := strict.Closest(word, known); got != want {
			t.Errorf("closest to %.20q is %q, want %q", word, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for dir, want := range map[string]string{
		"/home/me/homelab": "homelab", "/x/My Estate_2": "my-estate-2", "/": "homelab", "/...": "homelab",
		"/" + strings.Repeat("ab-", 20): "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab",
	} {
		if got := DefaultName(dir); got != want {
			t.Errorf("name of %s is %q, want %q", dir, got, want)
		}
	}
	var failed *lab.Error
	if _, err := Load(os.DirFS("../.."), "", "My Lab"); !errors.As(err, &failed) || failed.Code != "invalid_name" || failed.Exit != lab.ExitInvalid {
		t.Errorf("a name with a space: %v", err)
	}
}
