package plan

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
)

var update = flag.Bool("update", false, "write the golden files")

func desired() Desired {
	return Desired{
		Clusters: []Cluster{
			{Name: "hub", Role: lab.RoleHub, Inputs: "h1", Images: []string{"i1"}},
			{Name: "dev", Role: lab.RoleSpoke, Inputs: "d1", Images: []string{"i2"}},
			{Name: "prod", Role: lab.RoleSpoke, Inputs: "p1", Images: []string{"i2"}},
		},
		Forge: "f1", Engine: "e1", Prune: true, Preflight: "docker 28.3, 8 cores, 21 GiB free",
	}
}

func ready(inputs, images string) lab.ClusterState {
	return lab.ClusterState{Exists: true, Running: true, Ready: true, Kubernetes: "v1.36.3", Inputs: inputs, Images: []string{images}}
}

func converged() Observed {
	app := func(cluster string) lab.Application {
		return lab.Application{Name: "addon-" + cluster + "-podinfo", Addon: "podinfo", Cluster: cluster, Sync: "Synced", Health: "Healthy"}
	}
	return Observed{
		Supplied: 6, Network: true, Forge: Forge{Exists: true, Running: true, Inputs: "f1"},
		Clusters:     map[string]lab.ClusterState{"hub": ready("h1", "i1"), "dev": ready("d1", "i2"), "prod": ready("p1", "i2")},
		Engine:       Engine{Installed: true, Ready: true, Inputs: "e1", Status: "deployed"},
		Bridge:       map[string][]string{"hub": nil, "dev": nil, "prod": nil},
		Registered:   []string{"hub", "dev", "prod"},
		Root:         true,
		Applications: []lab.Application{app("dev"), app("prod")},
		Expected:     []string{"dev-podinfo", "prod-podinfo"},
	}
}

// cases are edits of a converged lab; each has a golden file of its name.
var cases = map[string]func(d *Desired, o *Observed){
	"converged": func(*Desired, *Observed) {},
	"bare":      func(_ *Desired, o *Observed) { *o = Observed{Missing: []string{"node", "gitea"}} },
	"region-edited": func(_ *Desired, o *Observed) {
		o.Bridge["prod"] = []string{"annotation aws_region: eu-west-1 -> eu-central-1", "label region: eu-west-1 -> eu-central-1"}
		o.Estate = []string{"clusters/prod/cluster.yaml"}
	},
	"killed-in-cluster": func(_ *Desired, o *Observed) {
		half := ready("", "")
		half.Ready = false
		o.Clusters["dev"] = half
		delete(o.Bridge, "dev")
		o.Registered = []string{"hub", "prod"}
		o.Applications, o.Root = nil, false
	},
	"killed-in-helm": func(_ *Desired, o *Observed) {
		o.Engine = Engine{Installed: true, Status: "pending-install"}
		o.Root, o.Applications = false, nil
	},
	"rebooted": func(_ *Desired, o *Observed) {
		o.Forge.Running = false
		for name, c := range o.Clusters {
			c.Running, c.Ready = false, false
			o.Clusters[name] = c
		}
		o.Engine, o.Bridge, o.Registered, o.Applications, o.Root = Engine{}, nil, nil, nil, false
	},
	"cluster-left":  func(d *Desired, _ *Observed) { d.Clusters = d.Clusters[:2] },
	"kind-edited":   func(d *Desired, _ *Observed) { d.Clusters[1].Inputs = "d2" },
	"addon-off":     func(d *Desired, _ *Observed) { d.Clusters[1].Images = nil },
	"images-edited": func(d *Desired, _ *Observed) { d.Clusters[0].Images = []string{"i1", "i9"} },
	"values-edited": func(d *Desired, _ *Observed) { d.Engine = "e2" },
	"degraded":      func(_ *Desired, o *Observed) { o.Applications[1].Health = "Degraded" },
	"behind":        func(_ *Desired, o *Observed) { o.Behind = []string{"addons", "dev-podinfo"} },
	"absent-app":    func(_ *Desired, o *Observed) { o.Applications = o.Applications[:1] },
	"only-leaves-others-alone": func(d *Desired, o *Observed) {
		d.Clusters, d.Prune = d.Clusters[:2], false
	},
}

func TestBuild(t *testing.T) {
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			d, o := desired(), converged()
			edit(&d, &o)
			got := String(Build(d, o))
			file := filepath.Join("testdata", name+".plan")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGoldenFilesAllHaveACase(t *testing.T) {
	files, err := filepath.Glob("testdata/*.plan")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Base(f[:len(f)-len(".plan")])
		if cases[name] == nil {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

func TestChangesAndRemade(t *testing.T) {
	d, o := desired(), converged()
	if Changes(Build(d, o)) {
		t.Error("a converged lab has changes")
	}
	d.Clusters[1].Inputs = "d2"
	steps := Build(d, o)
	if !Changes(steps) || !slices.Equal(Remade(steps), []string{"dev"}) {
		t.Errorf("changes %v, remade %v", Changes(steps), Remade(steps))
	}
}

// Every plan can be run: needs exist and come before.
func TestNeedsComeBefore(t *testing.T) {
	for name, edit := range cases {
		d, o := desired(), converged()
		edit(&d, &o)
		var seen []string
		for _, s := range Build(d, o) {
			for _, need := range s.Needs {
				if !slices.Contains(seen, need) {
					t.Errorf("%s: %s needs %s, which does not come before it", name, s.ID, need)
				}
			}
			seen = append(seen, s.ID)
		}
	}
}
