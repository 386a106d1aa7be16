package estate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/strict"
)

const fluxReleases = `
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: http, namespace: default}
spec: {interval: 1h, url: "https://charts.example.com/stable"}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: oci, namespace: default}
spec: {type: oci, url: "oci://registry.example.com/team"}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: range, namespace: default}
spec: {interval: 1h, url: "oci://registry.example.com/team/lamp", ref: {semver: 1.x, tag: ignored}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: digest, namespace: default}
spec: {interval: 1h, url: "oci://registry.example.com/team/lamp", ref: {digest: "sha256:abc"}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: latest, namespace: default}
spec: {interval: 1h, url: "oci://registry.example.com/team/lamp"}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: http, namespace: default}
spec: {interval: 1h, chart: {spec: {chart: lamp, version: 1.x, sourceRef: {kind: HelmRepository, name: http}}}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: files, namespace: default}
spec: {interval: 1h, chart: {spec: {chart: lamp, sourceRef: {kind: HelmRepository, name: oci}, valuesFiles: [values.yaml, large.yaml]}}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: range, namespace: default}
spec: {interval: 1h, chartRef: {kind: OCIRepository, name: range}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: digest, namespace: default}
spec: {interval: 1h, chartRef: {kind: OCIRepository, name: digest}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: latest, namespace: default}
spec: {interval: 1h, chartRef: {kind: OCIRepository, name: latest}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: absent, namespace: default}
spec: {interval: 1h, chart: {spec: {chart: none, sourceRef: {kind: HelmRepository, name: http}}}}
`

// TestFluxCharts renders HelmReleases of charts in repositories of every kind. What Flux does to the version of a chart is that of source-controller's
// and helm-controller's source; no recording has a registry.
func TestFluxCharts(t *testing.T) {
	files := defaultFiles(t)
	const file = "addons/identity/flux/release.yaml"
	files[file] = &fstest.MapFile{Data: append(slices.Clone(files[file].Data), fluxReleases...), Mode: 0o644}
	var asked []string
	open := func(use lab.ChartUse) (lab.ChartFiles, error) {
		if use.Repository == "" {
			return lab.ChartFiles{}, errors.New("lab's own")
		}
		asked = append(asked, strings.Join([]string{use.Repository, use.Name, use.Version}, " "))
		if use.Name == "none" {
			return lab.ChartFiles{}, errors.New("lab charts pull")
		}
		of := lab.ChartFiles{Version: "1.2.0", FS: fstest.MapFS{
			"Chart.yaml": {Data: []byte("apiVersion: v2\nname: lamp\nversion: 1.2.0\n")}, "values.yaml": {Data: []byte("size: 1\n")}, "large.yaml": {Data: []byte("size: 9\n")},
			"templates/cm.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}, version: {{ .Chart.Version | quote }}}\n")},
		}}
		if strings.HasPrefix(use.Repository, "oci://") {
			of.Manifest = "sha256:0123456789abcdef"
		}
		return of, nil
	}
	_, apps, err := Desired(files, "", "homelab", WithEngine(lab.EngineFlux), WithChartFiles(open))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(apps, func(a desired.App) bool { return a.Name == "dev-identity" })
	objects, problems := apps[i].Objects()
	got := map[string]string{}
	for _, o := range objects {
		if o.Part != "" && strings.HasPrefix(o.File, "lamp-1.2.0/") {
			_, name, _ := strings.Cut(o.Part, "/")
			got[name] = strict.Text(o.Node, "data", "size") + " " + strict.Text(o.Node, "data", "version")
		}
	}
	for name, want := range map[string]string{"http": "1 1.2.0", "files": "9 1.2.0+1", "range": "1 1.2.0+0123456789ab", "digest": "1 1.2.0+0123456789ab"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	slices.Sort(messages)
	text := strings.Join(messages, "\n")
	for _, want := range []string{"absent: chart none is not on this machine: lab charts pull", "latest: Flux rejects a chart of version 1.2.0 under the tag latest"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
	if len(problems) != 2 {
		t.Errorf("problems:\n%s", text)
	}
	slices.Sort(asked)
	want := []string{
		"https://charts.example.com/stable lamp 1.x", "https://charts.example.com/stable none ",
		"oci://registry.example.com/team lamp ", "oci://registry.example.com/team lamp 1.x", "oci://registry.example.com/team lamp latest", "oci://registry.example.com/team lamp sha256:abc",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
}
