package render

import (
	"testing"

	"homelab/lab/strict"
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
