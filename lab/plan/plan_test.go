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
		Forge: "f1", Engine: "e1", Preflight: "docker 28.3, 8 cores, 21 GiB free",
	}
}

func ready(inputs, images string) lab.ClusterState {
	return lab.ClusterState{
		Exists: true, Running: true, Answers: true, Ready: true, Made: lab.MadeWhole, Recorded: true, Marked: true, Kubernetes: "v1.36.3", Nodes: []string{"n"}, Inputs: inputs, Images: []string{images},
	}
}

func converged() Observed {
	app := func(cluster string) lab.Application {
		return lab.Application{Name: "addon-" + cluster + "-podinfo", Addon: "podinfo", Cluster: cluster, Sync: "Synced", Health: "Healthy"}
	}
	return Observed{
		Supplied: 6, Network: true, Forge: Forge{Exists: true, Running: true, Answers: true, Prepared: true, Guarded: true, Inputs: "f1"}, Hub: true,
		Clusters:     map[string]lab.ClusterState{"hub": ready("h1", "i1"), "dev": ready("d1", "i2"), "prod": ready("p1", "i2")},
		Engine:       Engine{Installed: true, Ready: true, Inputs: "e1", Status: "deployed"},
		Bridge:       map[string][]string{"hub": nil, "dev": nil, "prod": nil},
		Registered:   []string{"hub", "dev", "prod"},
		Root:         true,
		Applications: []lab.Application{app("dev"), app("prod")},
		Expected:     []string{"addon-dev-podinfo", "addon-prod-podinfo"},
	}
}

func edit(o *Observed, cluster string, change func(*lab.ClusterState)) {
	c := o.Clusters[cluster]
	change(&c)
	o.Clusters[cluster] = c
}

func makeSilent(c *lab.ClusterState) {
	c.Answers, c.Ready, c.Kubernetes, c.Images, c.Fault = false, false, "", nil, "its API does not answer"
}

func hubUnknown(o *Observed) {
	o.Hub, o.Engine, o.Bridge, o.Registered, o.Applications, o.Root = false, Engine{}, nil, nil, nil, false
}

func standalone(d *Desired, o *Observed) {
	o.Engines = map[string]Engine{}
	for i, c := range d.Clusters {
		if c.Role == lab.RoleSpoke {
			d.Clusters[i].Engine, o.Engines[c.Name] = "e1", o.Engine
		}
	}
}

// parts adds one that the clusters need, and one that needs the hub.
func parts(d *Desired, o *Observed) {
	d.Parts = []Part{
		{Name: "registry", Wanted: true, Inputs: "r1", First: true, Keeps: "the images and charts in the registry"},
		{Name: "door", Wanted: true, Inputs: "d1", Needs: []string{"cluster/hub"}},
	}
	runs := PartState{Exists: true, Volume: true, Running: true, Connected: true, Answers: true, Inputs: "r1"}
	o.Parts = map[string]PartState{"registry": runs}
	runs.Inputs, runs.Volume = "d1", false
	o.Parts["door"] = runs
}

func TestLeftParts(t *testing.T) {
	d, o := desired(), converged()
	parts(&d, &o)
	if got := LeftParts(d, o); got != nil {
		t.Errorf("%v are wanted", got)
	}
	d.Parts[0].Wanted, d.Parts[1].Wanted = false, false
	if got := LeftParts(d, o); !slices.Equal(got, []string{"registry"}) {
		t.Errorf("%v left, want registry: nobody misses the door", got)
	}
	d.Prune = true
	if got := LeftParts(d, o); got != nil {
		t.Errorf("%v are kept, though pruned", got)
	}
}

func TestDownParts(t *testing.T) {
	d, o := desired(), converged()
	parts(&d, &o)
	steps := Down(Remains{Clusters: o.Clusters, Forge: true, Network: true, Parts: d.Parts})
	last := steps[len(steps)-1]
	for _, part := range d.Parts {
		i := slices.IndexFunc(steps, func(s lab.Step) bool { return s.ID == part.Name })
		if i < 0 || steps[i].Action != lab.ActionDelete || !slices.Contains(last.Needs, part.Name) {
			t.Errorf("%s: %+v, before %+v", part.Name, steps, last)
		}
	}
}

// cases are modifications of a converged lab, each with a golden file of the same name.
var cases = map[string]func(d *Desired, o *Observed){
	"converged": func(*Desired, *Observed) {},
	"bare":      func(_ *Desired, o *Observed) { *o = Observed{Missing: []string{"node", "gitea"}} },
	"region-edited": func(_ *Desired, o *Observed) {
		o.Bridge["prod"] = []string{"annotation aws_region: eu-west-1 -> eu-central-1", "label region: eu-west-1 -> eu-central-1"}
		o.Estate = []string{"clusters/prod/cluster.yaml"}
	},
	"killed-in-cluster": func(_ *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) { *c = lab.ClusterState{Exists: true, Running: true, Made: lab.MadeHalf} })
		delete(o.Bridge, "dev")
		o.Registered = []string{"hub", "prod"}
		o.Applications, o.Root = nil, false
	},
	"killed-in-hub": func(_ *Desired, o *Observed) {
		edit(o, "hub", func(c *lab.ClusterState) { *c = lab.ClusterState{Exists: true, Running: true, Made: lab.MadeHalf} })
		hubUnknown(o)
	},
	"api-silent": func(_ *Desired, o *Observed) { edit(o, "dev", makeSilent) },
	"hub-silent": func(_ *Desired, o *Observed) { edit(o, "hub", makeSilent); hubUnknown(o) },
	"node-paused": func(_ *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) { makeSilent(c); c.Running, c.Fault = false, "paused" })
	},
	"node-gone": func(_ *Desired, o *Observed) { edit(o, "dev", func(c *lab.ClusterState) { c.Gone = 1 }) },
	"certificates-end": func(_ *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) { c.Renew = "its certificates expire on 2026-12-17" })
		edit(o, "prod", func(c *lab.ClusterState) {
			makeSilent(c)
			c.Renew = "its certificates expired on 2026-11-17"
			c.Fault = c.Renew
		})
	},
	"engine-upgraded": func(d *Desired, o *Observed) {
		o.Engine.Version, d.Version, d.Engine = "v3.2.11", "3.6.1", "e2"
	},
	"kubernetes-edited": func(d *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) { c.Kubernetes = "v1.36.3" })
		edit(o, "prod", func(c *lab.ClusterState) { c.Kubernetes = "v1.36.3" })
		d.Clusters[1].Kubernetes, d.Clusters[2].Kubernetes = "1.35", "1.36"
	},
	"not-ready": func(_ *Desired, o *Observed) { edit(o, "dev", func(c *lab.ClusterState) { c.Ready = false }) },
	"some-missing": func(_ *Desired, o *Observed) {
		o.Missing, o.Supplied = []string{"podinfo 6.9.2"}, 5
	},
	"several-lag": func(_ *Desired, o *Observed) {
		o.Applications[1].Health, o.Applications[0].Sync = "Degraded", "OutOfSync"
		slices.Reverse(o.Applications)
	},
	"two-left-pruned": func(d *Desired, _ *Observed) { d.Clusters, d.Prune = d.Clusters[:1], true },
	"no-mark": func(_ *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) { c.Made, c.Inputs = lab.MadeUnknown, "" })
	},
	"stopped-no-mark": func(_ *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) {
			makeSilent(c)
			c.Running, c.Fault, c.Made, c.Inputs = false, "stopped", lab.MadeUnknown, ""
		})
	},
	"mark-half-written": func(_ *Desired, o *Observed) {
		edit(o, "dev", func(c *lab.ClusterState) { c.Marked, c.Images = false, nil })
	},
	"switched": func(_ *Desired, o *Observed) {
		o.Former, o.Engine, o.Bridge, o.Registered, o.Applications, o.Root = "flux", Engine{}, nil, nil, nil, false
		edit(o, "dev", func(c *lab.ClusterState) { makeSilent(c); c.Running, c.Fault = false, "stopped" })
	},
	"reshaped": func(d *Desired, o *Observed) {
		d.Clusters[1].Engine, d.Clusters[2].Engine, o.Former = "e1", "e1", "flux"
	},
	"recreate":     func(d *Desired, _ *Observed) { d.Recreate = []string{"dev"} },
	"recreate-hub": func(d *Desired, _ *Observed) { d.Recreate = []string{"hub"} },
	"forge-silent": func(_ *Desired, o *Observed) { o.Forge.Answers, o.Forge.Prepared = false, false },
	"forge-unprepared": func(_ *Desired, o *Observed) {
		o.Forge.Prepared = false
	},
	"forge-open": func(_ *Desired, o *Observed) { o.Forge.Guarded = false },
	"forge-lost": func(_ *Desired, o *Observed) { o.Forge = Forge{Lost: true} },
	"killed-in-helm": func(_ *Desired, o *Observed) {
		o.Engine = Engine{Installed: true, Status: "pending-install"}
		o.Root, o.Applications = false, nil
	},
	"engine-part-gone": func(_ *Desired, o *Observed) {
		o.Engine.Ready, o.Engine.Waiting = false, "secret argocd-secret is gone"
	},
	"rebooted": func(_ *Desired, o *Observed) {
		o.Forge.Running = false
		for name := range o.Clusters {
			edit(o, name, func(c *lab.ClusterState) { makeSilent(c); c.Running, c.Fault = false, "stopped" })
		}
		hubUnknown(o)
	},
	"cluster-left":        func(d *Desired, _ *Observed) { d.Clusters = d.Clusters[:2] },
	"cluster-left-pruned": func(d *Desired, _ *Observed) { d.Clusters, d.Prune = d.Clusters[:2], true },
	"cluster-left-hub-off": func(d *Desired, o *Observed) {
		d.Clusters, d.Prune = d.Clusters[:2], true
		edit(o, "hub", func(c *lab.ClusterState) { makeSilent(c); c.Running, c.Fault = false, "stopped" })
		hubUnknown(o)
	},
	"kind-edited":   func(d *Desired, _ *Observed) { d.Clusters[1].Inputs = "d2" },
	"addon-off":     func(d *Desired, _ *Observed) { d.Clusters[1].Images = nil },
	"images-edited": func(d *Desired, _ *Observed) { d.Clusters[0].Images = []string{"i1", "i9"} },
	"values-edited": func(d *Desired, _ *Observed) { d.Engine = "e2" },
	"degraded":      func(_ *Desired, o *Observed) { o.Applications[1].Health = "Degraded" },
	"drift": func(_ *Desired, o *Observed) {
		o.Drift = []string{"repository estate is gone", "repository charts was changed"}
	},
	"behind":     func(_ *Desired, o *Observed) { o.Behind = []string{"addons", "dev-podinfo"} },
	"absent-app": func(_ *Desired, o *Observed) { o.Applications = o.Applications[:1] },
	"only-leaves-others-alone": func(d *Desired, o *Observed) {
		d.Clusters, d.Others = d.Clusters[:2], true
	},
	"standalone": func(d *Desired, o *Observed) { standalone(d, o) },
	"standalone-bare": func(d *Desired, o *Observed) {
		standalone(d, o)
		*o = Observed{Missing: []string{"node", "gitea"}}
	},
	"standalone-spoke-silent": func(d *Desired, o *Observed) {
		standalone(d, o)
		edit(o, "dev", makeSilent)
		delete(o.Engines, "dev")
	},
	"standalone-values-edited": func(d *Desired, o *Observed) {
		standalone(d, o)
		d.Clusters[1].Engine = "e2"
		o.Engines["prod"] = Engine{Installed: true, Status: "deployed", Inputs: "e1", Waiting: "source 0 of 1 ready"}
	},
	"standalone-recreate": func(d *Desired, o *Observed) {
		standalone(d, o)
		d.Recreate = []string{"dev"}
	},
	"standalone-attached": func(d *Desired, o *Observed) {
		standalone(d, o)
		d.Clusters[2].Attached = true
		edit(o, "prod", func(c *lab.ClusterState) { c.Attached = true })
		o.Engines["prod"] = Engine{}
	},
	"parts": func(d *Desired, o *Observed) { parts(d, o) },
	"parts-bare": func(d *Desired, o *Observed) {
		parts(d, o)
		*o = Observed{Missing: []string{"node", "gitea"}}
	},
	"parts-off": func(d *Desired, o *Observed) {
		parts(d, o)
		off, silent := o.Parts["registry"], o.Parts["door"]
		off.Running, silent.Answers = false, false
		o.Parts["registry"], o.Parts["door"] = off, silent
	},
	"parts-edited": func(d *Desired, o *Observed) {
		parts(d, o)
		d.Parts[0].Inputs = "r2"
		apart := o.Parts["door"]
		apart.Connected = false
		o.Parts["door"] = apart
	},
	"parts-serving": func(d *Desired, o *Observed) {
		parts(d, o)
		d.Parts[1].Needs, d.Parts[1].Serves, d.Recreate = nil, []string{"hub", "dev", "other"}, []string{"dev"}
	},
	"parts-behind": func(d *Desired, o *Observed) {
		parts(d, o)
		d.Parts[1].Serves = []string{"dev"}
		door := o.Parts["door"]
		door.Behind = "it does not know cluster dev"
		o.Parts["door"] = door
	},
	"parts-left": func(d *Desired, o *Observed) {
		parts(d, o)
		d.Parts[0].Wanted, d.Parts[1].Wanted = false, false
	},
	"parts-left-pruned": func(d *Desired, o *Observed) {
		parts(d, o)
		d.Parts[0].Wanted, d.Parts[1].Wanted, d.Prune = false, false, true
		o.Parts["registry"] = PartState{Volume: true}
	},
	"parts-left-only": func(d *Desired, o *Observed) {
		parts(d, o)
		d.Parts[0].Wanted, d.Parts[1].Wanted, d.Others, d.Prune = false, false, true, true
	},
	"only-prunes-nothing": func(d *Desired, _ *Observed) {
		d.Clusters, d.Others, d.Prune = d.Clusters[:2], true, true
	},
}

func TestBuild(t *testing.T) {
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			d, o := desired(), converged()
			change(&d, &o)
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

func TestGoldenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.plan")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Base(f[:len(f)-len(".plan")])
		if cases[name] == nil {
			t.Errorf("%s has no case", f)
		}
	}
}

func TestChangesAndRemade(t *testing.T) {
	d, o := desired(), converged()
	if Changes(Build(d, o)) {
		t.Error("Changes = true for a converged lab")
	}
	d.Clusters[1].Inputs = "d2"
	steps := Build(d, o)
	if !Changes(steps) || !slices.Equal(Remade(steps), []string{"dev"}) {
		t.Errorf("Changes = %v, Remade = %v", Changes(steps), Remade(steps))
	}
}

func TestBuildOrder(t *testing.T) {
	for name, change := range cases {
		d, o := desired(), converged()
		change(&d, &o)
		var seen []string
		for _, s := range Build(d, o) {
			for _, need := range s.Needs {
				if !slices.Contains(seen, need) {
					t.Errorf("%s: %s needs %s, which does not precede it", name, s.ID, need)
				}
			}
			seen = append(seen, s.ID)
		}
	}
}

// Without flags a plan deletes nothing, and only recreates clusters recorded as half created, or with spec.kind changed,
// which the caller rejects.
func TestBuildKeepsClusters(t *testing.T) {
	for _, exists := range []bool{false, true} {
		for _, running := range []bool{false, true} {
			for _, answers := range []bool{false, true} {
				for _, ready := range []bool{false, true} {
					for _, made := range []lab.Made{lab.MadeUnknown, lab.MadeWhole, lab.MadeHalf} {
						for _, inputs := range []string{"", "d1", "other"} {
							for _, cluster := range []string{"hub", "dev", "left"} {
								for _, hub := range []bool{false, true} {
									d, o := desired(), converged()
									o.Hub = hub
									c := lab.ClusterState{Exists: exists, Running: running, Answers: running && answers, Ready: ready, Made: made, Inputs: inputs}
									o.Clusters[cluster] = c
									for _, s := range Build(d, o) {
										removes := s.Action == lab.ActionDelete || s.Action == lab.ActionRecreate
										if removes && !(s.Reason == ReasonRemake && made == lab.MadeWhole) || removes && s.Kind == KindCluster && s.Loses == "" {
											t.Errorf("%s observed as %+v: %s %s, %s", cluster, c, s.Action, s.ID, s.Reason)
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestPartFault(t *testing.T) {
	for _, c := range []struct {
		seen PartState
		want string
	}{
		{PartState{Exists: true}, "stopped"},
		{PartState{Exists: true, Fault: "panic: no upstream"}, "stopped: panic: no upstream"},
		{PartState{Exists: true, Running: true, Connected: true, Fault: "/ answers 500"}, "does not answer: / answers 500"},
	} {
		if action, reason := partAction(Part{}, c.seen); action != lab.ActionRepair || reason != c.want {
			t.Errorf("%+v: %s, %s; want %s", c.seen, action, reason, c.want)
		}
	}
}
