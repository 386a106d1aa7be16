package estate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/provenance"
)

// What valuesFrom and postRenderers of a HelmRelease decide has their lines.
func TestReleaseProvenance(t *testing.T) {
	files := defaultFiles(t)
	files["charts/web/Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")}
	files["charts/web/templates/map.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {host: '{{ .Values.host }}', size: '1'}\n")}
	const file = "addons/metrics-server/flux/release.yaml"
	before := string(files[file].Data) + "---\n"
	files[file] = &fstest.MapFile{Mode: 0o644, Data: []byte(before + `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux-system}
data: {domain: example.com}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec:
  interval: 1h
  chart: {spec: {chart: charts/web, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}
  valuesFrom:
    - {kind: ConfigMap, name: settings, valuesKey: domain, targetPath: host}
  postRenderers:
    - kustomize:
        patches:
          - target: {kind: ConfigMap}
            patch: |
              - {op: replace, path: /data/size, value: "7"}
`)}
	_, apps, err := Desired(files, "", "homelab", WithEngine(lab.EngineFlux))
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	got := map[string]string{}
	for _, a := range apps {
		for _, p := range a.Parts {
			if !strings.HasSuffix(p.Name, "/web") {
				continue
			}
			s, err := p.Subject()
			if err != nil {
				t.Fatal(err)
			}
			result, err := provenance.Trace(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range result.Fields {
				for _, v := range f.From {
					got[f.Path] += v.String() + " "
				}
			}
		}
	}
	at := func(line int) string { return fmt.Sprintf("%s:%d ", file, strings.Count(before, "\n")+line) }
	if !strings.HasPrefix(got["data.host"], at(13)) || !strings.Contains(got["data.size"], at(18)) {
		t.Errorf("%q", got)
	}
}
