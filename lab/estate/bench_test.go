package estate_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"

	"homelab/lab/estate"
)

// large is an estate with charts in folders: each addon on each cluster, with a layer of values for each of three environments.
func large(addons, clusters int) fstest.MapFS {
	files := fstest.MapFS{}
	add := func(name, text string, args ...any) {
		files[name] = &fstest.MapFile{Data: fmt.Appendf(nil, text, args...), Mode: 0o644}
	}
	add("addons/root.yaml", `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://git.example.com/lab/estate.git, targetRevision: main, path: addons, directory: {recurse: true, include: "*/applicationset.yaml"}}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy: {automated: {}}
`)
	add("clusters/hub/cluster.yaml", "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec: {role: hub, provider: kind, engine: {type: argocd}}\n")
	labels := ""
	for a := range addons {
		labels += fmt.Sprintf("    addon-%d: true\n", a)
		dir := fmt.Sprintf("addons/addon-%d/", a)
		add(dir+"applicationset.yaml", `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: addon-%[1]d, namespace: argocd}
spec:
  goTemplate: true
  generators: [{clusters: {selector: {matchLabels: {enable_addon_%[1]d: "true"}}}}]
  template:
    metadata: {name: '{{.name}}-addon-%[1]d'}
    spec:
      project: default
      source:
        repoURL: '{{.metadata.annotations.addons_repo_url}}'
        targetRevision: main
        path: addons/addon-%[1]d/chart
        helm:
          ignoreMissingValueFiles: true
          valueFiles: ['../../../environments/{{.metadata.labels.environment}}/addons/addon-%[1]d/values.yaml']
          valuesObject: {cluster: '{{.name}}'}
      destination: {name: '{{.name}}', namespace: addon-%[1]d}
      syncPolicy: {automated: {}}
`, a)
		add(dir+"chart/Chart.yaml", "apiVersion: v2\nname: addon-%d\nversion: 1.0.0\n", a)
		add(dir+"chart/values.yaml", "replicas: 1\nimage: {name: web, tag: 1.0.0}\ncluster: none\n")
		add(dir+"chart/templates/all.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, labels: {cluster: {{ .Values.cluster }} } }
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "{{ .Values.image.name }}:{{ .Values.image.tag }}"}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }} }
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }} }
data: {cluster: {{ .Values.cluster }} }
`)
		for _, env := range []string{"dev", "staging", "prod"} {
			add(fmt.Sprintf("environments/%s/addons/addon-%d/values.yaml", env, a), "replicas: 2\n")
		}
	}
	for i, env := range []string{"dev", "staging", "prod"} {
		add("environments/"+env+"/environment.yaml", "apiVersion: lab/v1alpha1\nkind: Environment\nmetadata: {name: %s}\nspec: {order: %d}\n", env, i+1)
		for c := i; c < clusters; c += 3 {
			add(fmt.Sprintf("clusters/c%d/cluster.yaml", c), "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: c%d}\nspec:\n  role: spoke\n  environment: %s\n  provider: kind\n  addons:\n%s", c, env, labels)
		}
	}
	return files
}

// BenchmarkDesired loads an estate of addons on clusters, and renders all objects.
func BenchmarkDesired(b *testing.B) {
	for _, size := range [][2]int{{50, 50}, {100, 25}, {100, 50}} {
		files := large(size[0], size[1])
		name := fmt.Sprintf("%dx%d", size[0], size[1])
		b.Run("model-"+name, func(b *testing.B) {
			for range b.N {
				if _, apps, err := estate.Desired(files, "", "bench"); err != nil || len(apps) != size[0]*size[1] {
					b.Fatalf("%d applications, %v", len(apps), err)
				}
			}
		})
		b.Run("objects-"+name, func(b *testing.B) {
			for range b.N {
				_, apps, err := estate.Desired(files, "", "bench")
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for _, app := range apps {
					objects, problems := app.Objects()
					if n += len(objects); len(problems) > 0 {
						b.Fatal(problems)
					}
				}
				if n != 3*len(apps) {
					b.Fatalf("%d objects", n)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
			}
		})
	}
}
