package chart

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

//go:embed argocd
var argocdFiles embed.FS

// component is a program of Argo CD.
type component struct {
	name  string // install.yaml has argocd-repo-server
	key   string // key in the chart's values: "repoServer"
	cond  string // condition for rendering; empty: always
	extra bool   // the upstream chart has extraEnv, extraVolumes ... for env, volumes ...
}

var components = []component{
	{name: "application-controller", key: "controller"},
	{name: "applicationset-controller", key: "applicationSet", extra: true},
	{name: "dex-server", key: "dex", cond: ".Values.dex.enabled"},
	{name: "notifications-controller", key: "notifications", cond: ".Values.notifications.enabled", extra: true},
	{name: "redis", key: "redis", cond: ".Values.redis.enabled"},
	{name: "repo-server", key: "repoServer"},
	{name: "server", key: "server"},
}

// values returns the expression for a path in the component's values.
func (c component) values(path string) string { return ".Values." + c.key + "." + path }

// list returns the path of a list, which has the prefix "extra" for some components.
func (c component) list(name string) string {
	if c.extra {
		return c.values("extra" + strings.ToUpper(name[:1]) + name[1:])
	}
	return c.values(name)
}

// arg returns the argument of the named templates.
func (c component) arg() string {
	return fmt.Sprintf(`(dict "context" $ "component" %q "values" .Values.%s)`, c.name, c.key)
}

const prefix = "argocd-" // prefix of all names in install.yaml

// componentOf returns the component with the longest matching name.
func componentOf(name string) (component, bool) {
	var best component
	for _, c := range components {
		rest, ok := strings.CutPrefix(name, prefix+c.name)
		if ok && (rest == "" || strings.HasPrefix(rest, "-")) && len(c.name) > len(best.name) {
			best = c
		}
	}
	return best, best.name != ""
}

func fullname(suffix string) inline {
	return inline(`include "argo-cd.fullname" . }}-` + suffix + `{{ ""`)
}

// argoCD builds the chart from the manifests in dir. Shared objects, the ConfigMaps and the Secret, are in configs.yaml.
func argoCD(r Recipe, dir string) (*helmchart.Chart, error) {
	docs, err := readManifests(filepath.Join(dir, "install.yaml"))
	if err != nil {
		return nil, err
	}
	var files []*loader.BufferedFile
	add := func(name string, data []byte) { files = append(files, &loader.BufferedFile{Name: name, Data: data}) }
	templates := map[string]*bytes.Buffer{}
	seen := map[string]bool{}
	for _, doc := range docs {
		kind, name := doc["kind"].(string), nameOf(doc)
		if kind == "ConfigMap" || kind == "Secret" {
			continue
		}
		file, text, err := template(kind, name, doc, seen)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, name, err)
		}
		if templates[file] == nil {
			templates[file] = &bytes.Buffer{}
		}
		templates[file].WriteString("---\n")
		templates[file].Write(text)
	}
	for _, c := range components {
		if !seen[c.name] {
			return nil, fmt.Errorf("install.yaml has no workload %s%s", prefix, c.name)
		}
	}
	for file, buf := range templates {
		add("templates/"+file, buf.Bytes())
	}
	for _, f := range []string{"helpers.tpl", "configs.yaml"} {
		data, err := argocdFiles.ReadFile("argocd/" + f)
		if err != nil {
			return nil, err
		}
		if f == "helpers.tpl" {
			f = "_helpers.tpl"
		}
		add("templates/"+f, data)
	}
	values, schema, appVersion, err := argoValues(docs)
	if err != nil {
		return nil, err
	}
	add("values.yaml", values)
	add("values.schema.json", schema)
	meta, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": r.Name, "version": r.Version, "appVersion": appVersion, "type": "application", "kubeVersion": ">=1.25.0-0",
		"description": "Argo CD, made from the manifests of " + r.Module + "; takes the values of the upstream argo-cd chart",
		"home":        "https://argo-cd.readthedocs.io", "icon": "https://argo-cd.readthedocs.io/en/stable/assets/logo.png",
	})
	if err != nil {
		return nil, err
	}
	add("Chart.yaml", meta)
	return loader.LoadFiles(files)
}

// template converts an object of install.yaml to a template, and returns its file.
func template(kind, name string, doc map[string]any, seen map[string]bool) (string, []byte, error) {
	if kind == "CustomResourceDefinition" {
		text, err := emit(".Values.crds.install", customResource(doc))
		return "crds/" + strings.Split(name, ".")[0] + ".yaml", text, err
	}
	if kind == "Service" {
		name = serviceName(name)
	}
	c, ok := componentOf(name)
	if !ok {
		return "", nil, errors.New("belongs to no component that the chart knows")
	}
	conds := []string{c.cond}
	doc = rename(doc).(map[string]any)
	meta := doc["metadata"].(map[string]any)
	meta["name"] = fullname(strings.TrimPrefix(name, prefix))
	meta["namespace"] = inline(".Release.Namespace")
	meta["labels"] = include{"argo-cd.labels", c.arg()}
	switch kind {
	case "ClusterRole", "ClusterRoleBinding":
		delete(meta, "namespace")
		conds = append(conds, ".Values.createClusterRoles")
	case "NetworkPolicy":
		conds = append(conds, ".Values.global.networkPolicy.create")
		guardPeers(doc)
	case "Service":
		if strings.HasSuffix(name, "-metrics") {
			conds = append(conds, c.values("metrics.enabled"))
		}
		service(c, doc, strings.HasSuffix(name, "-metrics"))
	case "Deployment", "StatefulSet":
		if err := workload(c, kind, doc); err != nil {
			return "", nil, err
		}
		seen[c.name] = true
	}
	text, err := emit(conjunction(conds), doc)
	return c.name + "/" + strings.ToLower(kind) + ".yaml", text, err
}

// serviceName returns the name of a Service in the chart, since one of install.yaml's names lacks the component.
func serviceName(name string) string {
	if name == "argocd-metrics" {
		return prefix + "application-controller-metrics"
	}
	return name
}

func conjunction(conds []string) string {
	conds = slices.DeleteFunc(conds, func(s string) bool { return s == "" })
	if len(conds) < 2 {
		return strings.Join(conds, "")
	}
	return "and " + strings.Join(conds, " ")
}

// customResource makes a CRD like the upstream chart's: kept on uninstall, since its objects would be deleted with it.
func customResource(doc map[string]any) map[string]any {
	meta := doc["metadata"].(map[string]any)
	meta["annotations"] = include{"argo-cd.crd.annotations", "$"}
	meta["labels"] = include{"argo-cd.crd.labels", fmt.Sprintf("(dict \"context\" $ \"name\" %q)", meta["name"])}
	return doc
}

// rename replaces components' names in references and name labels by the release's.
func rename(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			s, isString := x.(string)
			c, known := componentOf(s)
			switch {
			case isString && known && k == "app.kubernetes.io/name":
				out[k] = inline(`include "argo-cd.name" . }}-` + c.name + `{{ ""`)
				out["app.kubernetes.io/instance"] = inline(".Release.Name")
			case isString && known && slices.Contains([]string{"name", "serviceName", "serviceAccountName"}, k) && !isSecretRef(v):
				out[k] = fullname(strings.TrimPrefix(s, prefix))
			case isString && k == "namespace" && s == "argocd":
				out[k] = inline(".Release.Namespace")
			default:
				out[k] = rename(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = rename(x)
		}
		return out
	}
	return v
}

// isSecretRef reports whether a map references a key, a volume or a container, whose names are not those of the release's objects.
func isSecretRef(m map[string]any) bool {
	for _, k := range []string{"key", "mountPath", "image", "secret", "emptyDir", "configMap"} {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}

// guardPeers makes a network policy's peers conditional on their rendering.
func guardPeers(doc map[string]any) {
	ingress, _ := doc["spec"].(map[string]any)["ingress"].([]any)
	for _, rule := range ingress {
		from, _ := rule.(map[string]any)["from"].([]any)
		for i, peer := range from {
			for _, c := range components {
				if c.cond != "" && strings.Contains(fmt.Sprint(peer), "}}-"+c.name+"{{") {
					from[i] = when{c.cond, peer}
				}
			}
		}
	}
}

func nameOf(doc map[string]any) string {
	meta, _ := doc["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return name
}

// readManifests reads the documents of a file, without comments and empty documents.
func readManifests(file string) ([]map[string]any, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var docs []map[string]any
	for dec := yaml.NewDecoder(f); ; {
		var doc map[string]any
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			if len(docs) == 0 {
				return nil, fmt.Errorf("%s holds no manifest", filepath.Base(file))
			}
			return docs, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		if doc == nil {
			continue
		}
		if kind, _ := doc["kind"].(string); kind == "" || nameOf(doc) == "" {
			return nil, fmt.Errorf("%s: document %d has no kind or no name", filepath.Base(file), len(docs)+1)
		}
		docs = append(docs, doc)
	}
}
