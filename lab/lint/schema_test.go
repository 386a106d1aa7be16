package lint

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// What a ResourceSet copies from the cluster is not missing.
func TestPartial(t *testing.T) {
	n, problems := strict.ParseOne("set.yaml", []byte(`
apiVersion: v1
kind: Secret
type: kubernetes.io/dockerconfigjson
metadata:
  name: registry
  namespace: web
  annotations: {fluxcd.controlplane.io/copyFrom: flux-system/registry}
  labels: {resourceset.fluxcd.controlplane.io/name: web}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	o := desired.Object{Document: render.Document{Node: n}}
	if len(invalid(o, nil)) == 0 {
		t.Fatal("it has its data")
	}
	(&linter{}).misfits(application{}, o, func(_ string, _ *yaml.Node, _ finding.Severity, message string) { t.Error(message) })
}
