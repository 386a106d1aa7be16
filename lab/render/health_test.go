package render

import (
	"path/filepath"
	"slices"
	"testing"

	"homelab/lab/strict"
	"homelab/lab/upstream"
)

func TestChecked(t *testing.T) {
	for manifest, want := range map[string]bool{
		"{kind: Deployment}":     true,
		"{kind: ConfigMap}":      true, // overridden in upstream's argocd-cm
		"{kind: ServiceAccount}": false,
		"{kind: Job, metadata: {annotations: {argocd.argoproj.io/hook: PreSync}}}": false,
	} {
		docs, problems := strict.Parse("x.yaml", []byte(manifest))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := Checked(Document{Node: docs[0]}); got != want {
			t.Errorf("%s: %t", manifest, got)
		}
	}
}

func TestIsLocal(t *testing.T) {
	for manifest, want := range map[string]bool{
		"{provisioner: rancher.io/local-path, volumeBindingMode: WaitForFirstConsumer}": true,
		"{provisioner: rancher.io/local-path}":                                          false, // fails: no node was specified
		"{provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}":       false,
	} {
		docs, problems := strict.Parse("x.yaml", []byte(manifest))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := IsLocal(docs[0]); got != want {
			t.Errorf("%s: %t", manifest, got)
		}
	}
}

func TestHasCheck(t *testing.T) {
	for _, c := range []struct {
		group, kind string
		want        bool
	}{
		{"cert-manager.io", "Certificate", true},
		{"cert-manager.io", "Order", false},
		{"s3.aws.crossplane.io", "Bucket", true}, // by wildcard
		{"apps", "Deployment", false},
		{"", "Service", false},
	} {
		if got := hasCheck(c.group, c.kind); got != c.want {
			t.Errorf("%s of %s: %t", c.kind, c.group, got)
		}
	}
}

// TestCustomChecks compares the table with the checks of the Argo CD that lab installs.
func TestCustomChecks(t *testing.T) {
	root := filepath.Join(upstream.Dir(t, "github.com/argoproj/argo-cd/v3@v3.2.11"), "resource_customizations")
	scripts, err := filepath.Glob(filepath.Join(root, "*", "*", "health.lua"))
	if err != nil || len(scripts) == 0 {
		t.Fatal("no checks: ", err)
	}
	others := []string{"ApplicationSet", "CronJob", "CustomResourceDefinition", "PodDisruptionBudget", "SealedSecret"} // every cluster has their controllers, or they are judged elsewhere
	upstream := map[string][]string{}
	for _, script := range scripts {
		kind := filepath.Dir(script)
		group := filepath.Base(filepath.Dir(kind))
		upstream[group] = append(upstream[group], filepath.Base(kind))
	}
	for group, kinds := range upstream {
		for _, kind := range kinds {
			if !slices.Contains(customChecks()[group], kind) && !slices.Contains(others, kind) {
				t.Errorf("missing: %s of %s", kind, group)
			}
		}
	}
	for group, kinds := range customChecks() {
		for _, kind := range kinds {
			if !slices.Contains(upstream[group], kind) {
				t.Errorf("not upstream: %s of %s", kind, group)
			}
		}
	}
}
