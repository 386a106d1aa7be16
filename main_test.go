package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"lab": main}) }

// quiet has a repository with deprecated fields of kustomize.
const quiet = `! exec lab init --from fleet fleet
stderr '^error: '
exec lab init --from fleet new
stderr 'reading the repositories'
! stderr 'deprecated'
exists new/clusters/prod/cluster.yaml
-- fleet/clusters/prod/flux-system/gotk-sync.yaml --
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, ref: {branch: main}, url: https://github.com/acme/fleet}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 10m, path: ./clusters/prod, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- fleet/clusters/prod/kustomization.yaml --
resources: [flux-system/gotk-sync.yaml, web.yaml]
commonLabels: {team: a}
-- fleet/clusters/prod/web.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default}
`

// Only lab itself writes to the terminal.
func TestQuiet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quiet.txtar")
	if err := os.WriteFile(file, []byte(quiet), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: []string{file}})
}
