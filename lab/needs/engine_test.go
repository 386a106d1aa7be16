package needs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
	"homelab/lab/upstream"
)

func TestChecked(t *testing.T) {
	for manifest, want := range map[string][2]bool{ // before 3.4, and since
		"{kind: Deployment}":     {true, true},
		"{kind: ConfigMap}":      {true, true}, // overridden in upstream's argocd-cm
		"{kind: ServiceAccount}": {false, true},
		"{kind: Job, metadata: {annotations: {argocd.argoproj.io/hook: PreSync}}}": {false, false},
	} {
		docs, problems := strict.Parse("x.yaml", []byte(manifest))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		u := Unit{Objects: []render.Document{{Node: docs[0]}}}
		if got := [2]bool{ArgoCD(3).Checks(u), ArgoCD(4).Checks(u)}; got != want {
			t.Errorf("%s: %t", manifest, got)
		}
		if ArgoCD(argo.Newest).Checks(u) != want[1] {
			t.Errorf("%s: the newest is not as 3.4", manifest)
		}
	}
}

func TestLocal(t *testing.T) {
	for manifest, want := range map[string]bool{
		"{provisioner: rancher.io/local-path, volumeBindingMode: WaitForFirstConsumer}": true,
		"{provisioner: rancher.io/local-path}":                                          false, // fails: no node was specified
		"{provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}":       false,
	} {
		docs, problems := strict.Parse("x.yaml", []byte(manifest))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := isLocal(docs[0]); got != want {
			t.Errorf("%s: %t", manifest, got)
		}
	}
}

func TestAsks(t *testing.T) {
	for _, c := range []struct {
		group, kind string
		since       argo.Minor // 0 for never
	}{
		{"cert-manager.io", "Certificate", 2},
		{"cert-manager.io", "Order", 0},
		{"acme.cert-manager.io", "Order", 6},
		{"s3.aws.crossplane.io", "Bucket", 2},                  // by wildcard
		{"compute.cnrm.cloud.google.com", "ComputeDisk", 2},    // by name, then by wildcard
		{"compute.cnrm.cloud.google.com", "ComputeAddress", 3}, // by wildcard
		{"operator.victoriametrics.com", "VMCluster", 5},       // any kind of one group
		{"other.operator.victoriametrics.com", "VMCluster", 0}, // and of no other
		{"nmstate.io", "NodeNetworkConfigurationPolicy", 4},
		{"apps", "Deployment", 0},
		{"", "Service", 0},
	} {
		for _, m := range argo.Minors() {
			if got, want := ArgoCD(m).asks(c.group, c.kind), c.since != 0 && m >= c.since; got != want {
				t.Errorf("%s: %s of %s: %t", m, c.kind, c.group, got)
			}
		}
		if got := ArgoCD(argo.Newest).asks(c.group, c.kind); got != (c.since != 0) {
			t.Errorf("the newest: %s of %s: %t", c.kind, c.group, got)
		}
	}
}

// TestCustomChecks compares the table with the checks of each minor of Argo CD.
func TestCustomChecks(t *testing.T) {
	for m, version := range map[argo.Minor]string{2: "3.2.11", 3: "3.3.19", 4: "3.4.13", 5: "3.5.7", 6: "3.6.1"} {
		t.Run(m.String(), func(t *testing.T) { compareChecks(t, m, version) })
	}
}

func compareChecks(t *testing.T, m argo.Minor, version string) {
	root := filepath.Join(upstream.Dir(t, "github.com/argoproj/argo-cd/v3@v"+version), "resource_customizations")
	scripts, err := filepath.Glob(filepath.Join(root, "*", "*", "health.lua"))
	if err != nil || len(scripts) == 0 {
		t.Fatal("no checks: ", err)
	}
	others := []string{"ApplicationSet", "CronJob", "CustomResourceDefinition", "PodDisruptionBudget", "SealedSecret"} // every cluster has their controllers, or they are judged elsewhere
	known := map[string][]string{}
	for _, script := range scripts {
		kind := filepath.Dir(script)
		group := filepath.Base(filepath.Dir(kind))
		known[group] = append(known[group], filepath.Base(kind))
	}
	for group, kinds := range known {
		for _, kind := range kinds {
			if since := customChecks()[group][kind]; (since == 0 || !m.Has(since)) && !slices.Contains(others, kind) {
				t.Errorf("missing: %s of %s", kind, group)
			}
		}
	}
	for group, kinds := range customChecks() {
		for kind, since := range kinds {
			wildcard := strings.HasSuffix(group, ".cnrm.cloud.google.com") && m.Has(3) // took the place of kinds by name
			if m.Has(since) && !wildcard && !slices.Contains(known[group], kind) {
				t.Errorf("not upstream: %s of %s", kind, group)
			}
		}
	}
}

// Each manifest has what it lacks with Argo CD, and with Flux: kstatus and Flux's reader of Jobs.
func TestEngines(t *testing.T) {
	for manifest, want := range map[string][2]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {paused: true}}":                                                               {"[paused]", "[paused]"},
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true}}":                                                                    {"[suspended]", "[]"},
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}}":                                                                               {"[]", "[a pod that uses it]"},
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {volumeName: a}}":                                                        {"[]", "[]"},
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: x}}":                                                  {"[StorageClass x]", "[StorageClass x]"},
		"{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: a}}":                                                                              {"[a controller of cert-manager.io]", "[]"},
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, annotations: {argocd.argoproj.io/ignore-healthcheck: 'true'}}, spec: {paused: true}}": {"[]", "[paused]"},
	} {
		u := unitOf(t, manifest)
		u.Has = []string{Namespace("apps"), "Issuer of cert-manager.io/v1"}
		for i, e := range []Engine{ArgoCD(0), Flux()} {
			what := []string{}
			for _, n := range (World{}).Lacks(e, u) {
				what = append(what, n.What)
			}
			if got := fmt.Sprint(what); got != want[i] {
				t.Errorf("%s: %s, want %s", manifest, got, want[i])
			}
		}
	}
}
