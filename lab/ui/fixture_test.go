package ui

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
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
		t.Errorf("%s (-want +got, go test -update writes it):\n%s", file, diff)
	}
}

// fits fails on lines wider than a screen.
func fits(t *testing.T, text string) {
	t.Helper()
	for l := range strings.SplitSeq(text, "\n") {
		if w := width(l); w > screenWidth {
			t.Errorf("%d columns: %s", w, l)
		}
	}
}

const header = "lab homelab · argocd · 4 clusters · images from the registry"

func step(kind, cluster string, action lab.Action, needs ...string) lab.Step {
	id := kind
	if cluster != "" {
		id += "/" + cluster
	}
	return lab.Step{ID: id, Kind: kind, Cluster: cluster, Action: action, Needs: needs}
}

// upSteps is the plan of a first `lab up`.
func upSteps() []lab.Step {
	const c = lab.ActionCreate
	return []lab.Step{
		step("preflight", "", c),
		step("images", "", c, "preflight"),
		step("forge", "", c, "images"),
		step("cluster", "hub", c, "images"),
		step("cluster", "dev", c, "images"),
		step("cluster", "staging", c, "images"),
		step("cluster", "prod", c, "images"),
		step("engine", "", c, "cluster/hub"),
		step("bridge", "", c, "engine", "cluster/hub", "cluster/dev", "cluster/staging", "cluster/prod"),
		step("addons", "", c, "bridge"),
	}
}

func event(s lab.Step, state lab.StepState, detail string, since, elapsed time.Duration) lab.Event {
	return lab.Event{Step: s, State: state, Detail: detail, Since: since, Elapsed: elapsed}
}

const ms = time.Millisecond

// halfWay returns the events of the first half of a first `lab up`.
func halfWay() []lab.Event {
	s := upSteps()
	const running, done = lab.StepRunning, lab.StepDone
	return []lab.Event{
		event(s[0], running, "", 0, 0),
		event(s[0], done, "docker 28.3, 8 cores, 21 GiB free", 400*ms, 400*ms),
		event(s[1], running, "", 400*ms, 0),
		event(s[1], done, "6 available", 500*ms, 100*ms),
		event(s[2], running, "", 500*ms, 0),
		event(s[3], running, "node is starting", 500*ms, 0),
		event(s[4], running, "node is starting", 500*ms, 0),
		event(s[5], running, "node is starting", 500*ms, 0),
		event(s[6], running, "node is starting", 500*ms, 0),
		event(s[2], done, "http://127.0.0.1:3000", 2600*ms, 2100*ms),
		event(s[5], running, "control plane is starting", 7*time.Second, 6500*ms),
		event(s[3], done, "v1.36.3", 18300*ms, 17800*ms),
		event(s[7], running, "argo cd 3.2.11: repo-server 0 of 1 ready", 18300*ms, 0),
		event(s[4], done, "v1.36.3", 19400*ms, 18900*ms),
		event(s[6], done, "v1.36.3", 19500*ms, 19000*ms),
	}
}

func clusters() []lab.ClusterState {
	return []lab.ClusterState{
		{Name: "hub", Role: lab.RoleHub, Kubernetes: "v1.36.3", Exists: true, Running: true, Answers: true, Ready: true},
		{Name: "dev", Role: lab.RoleSpoke, Env: "dev", Kubernetes: "v1.36.3", Exists: true, Running: true, Answers: true, Ready: true},
		{Name: "staging", Role: lab.RoleSpoke, Env: "staging", Kubernetes: "v1.36.3", Exists: true, Running: true, Answers: true, Ready: true},
		{Name: "prod", Role: lab.RoleSpoke, Env: "prod", Kubernetes: "v1.36.3", Exists: true, Running: true, Answers: true, Ready: true},
	}
}

func applications() []lab.Application {
	var apps []lab.Application
	add := func(cluster, addon, version string) {
		apps = append(apps, lab.Application{
			Name: cluster + "-" + addon, Addon: addon, Cluster: cluster, Version: version, Sync: "Synced", Health: "Healthy",
		})
	}
	add("hub", "metrics-server", "3.13.0")
	for _, cluster := range []string{"dev", "staging", "prod"} {
		version := "6.9.1"
		if cluster == "dev" {
			version = "6.9.2"
		}
		add(cluster, "podinfo", version)
		add(cluster, "metrics-server", "3.13.0")
		add(cluster, "identity", "0.1.0")
	}
	return apps
}

func summary() Summary {
	return Summary{
		Lab:  "homelab",
		Took: 72 * time.Second,
		Longest: []Leg{
			{"images", 100 * ms}, {"cluster hub", 17800 * ms}, {"engine", 31 * time.Second}, {"addons", 14 * time.Second},
		},
		Clusters:     StatusClusters(clusters()),
		Applications: applications(),
		Addons:       []string{"podinfo", "metrics-server", "identity"},
		Endpoints: []Entry{
			{"argo cd", "http://127.0.0.1:8080", "user admin, password: lab creds argocd"},
			{"forge", "http://127.0.0.1:3000", "user lab, password: lab creds forge"},
			{"kubectl", "export KUBECONFIG=$(lab kubeconfig)", ""},
		},
		Next: "edit environments/dev/addons/podinfo/values.yaml and run lab up, or play a story: lab scenario run drift",
	}
}

func timeoutError() error {
	return &lab.Error{
		Exit: lab.ExitTimeout, Code: "timeout",
		Message: "1 of 11 applications is not healthy after 5m 0s",
		Cure:    "nothing is rolled back. fix the cause and run lab up again; lab diagnose collects details",
		Details: []string{
			"prod-podinfo   Degraded   deployment podinfo: 0 of 2 ready",
			"               pod podinfo-6c9f-x2x: ImagePullBackOff, ghcr.io/stefanprodan/podinfo:9.9.9 not found",
			"               the version comes from addons/podinfo/applicationset.yaml:31 (environment prod)",
		},
	}
}

func brokenEstate() error {
	at := func(file string, line, column int) lab.Position {
		return lab.Position{File: file, Line: line, Column: column}
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "invalid_estate",
		Message: "3 problems in the estate, nothing was touched",
		Problems: lab.Problems{
			{Position: at("clusters/prod/cluster.yaml", 7, 3), Message: `unknown key "enviroment"`, Cure: `did you mean "environment"?`},
			{
				Position: at("clusters/hub2/cluster.yaml", 5, 9), Message: "a second hub",
				Cure: "clusters/hub is one already, make this a spoke",
			},
			{
				Position: at("addons/kro/applicationset.yaml", 12, 0), Message: "chart kro 0.2.1 is in no repository that lab can reach",
				Cure: "lab bundle ls",
			},
		},
	}
}

func doctorRows() []Row {
	return []Row{
		{SymbolOK, "docker", "28.3 at unix:///var/run/docker.sock", ""},
		{
			SymbolFailed, "privileged", "refused: the host's bounding set lacks CAP_SYS_RESOURCE",
			"lab doctor --fix registers a runtime that does not ask for it and reloads docker",
		},
		{
			SymbolWarning, "inotify", `8192 watches, kind wants 524288: pods may fail with "too many open files"`,
			"sysctl fs.inotify.max_user_watches=524288",
		},
		{SymbolOK, "memory", "21 GiB free, this estate needs about 4 GiB", ""},
	}
}
