package chart

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
)

// manifests builds a chart from files of manifests, with one Deployment or of definitions alone, for releases that have no chart in a module. Its values are what a lab
// changes: whether definitions are installed, and the controller's replicas, image, arguments and resources. Definitions alone stay when the release goes.
func manifests(r Recipe, module string) (*helmchart.Chart, error) {
	var docs []map[string]any
	for _, name := range append([]string{r.Path}, r.More...) {
		files, err := manifestFiles(filepath.Join(module, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			more, err := readManifests(file)
			if err != nil {
				return nil, err
			}
			docs = append(docs, more...)
		}
	}
	_, appVersion, _ := strings.Cut(r.Module, "@")
	var files []*loader.BufferedFile
	add := func(name string, data []byte) { files = append(files, &loader.BufferedFile{Name: name, Data: data}) }
	definitions := !slices.ContainsFunc(docs, func(doc map[string]any) bool { return doc["kind"] != "CustomResourceDefinition" })
	values := map[string]any{"installCRDs": true}
	for i, doc := range docs {
		kind, meta, cond := doc["kind"].(string), doc["metadata"].(map[string]any), ""
		switch kind {
		case "CustomResourceDefinition":
			cond = ".Values.installCRDs"
			if definitions { // releases with objects of their kinds cannot be removed after them
				annotations, _ := meta["annotations"].(map[string]any)
				if annotations == nil {
					annotations = map[string]any{}
				}
				annotations[kube.ResourcePolicyAnno] = kube.KeepPolicy
				meta["annotations"] = annotations
			}
		case "ClusterRole":
		case "ClusterRoleBinding":
			for _, s := range doc["subjects"].([]any) {
				s.(map[string]any)["namespace"] = inline(".Release.Namespace")
			}
		case "Deployment":
			if values["controller"] != nil {
				return nil, fmt.Errorf("%s is the second Deployment", nameOf(doc))
			}
			controller, err := controllerValues(doc, r.Image, appVersion)
			if err != nil {
				return nil, err
			}
			values["controller"] = controller
			fallthrough
		default:
			meta["namespace"] = inline(".Release.Namespace")
		}
		text, err := emit(cond, doc)
		if err != nil {
			return nil, err
		}
		add(fmt.Sprintf("templates/%02d-%s.yaml", i, strings.ToLower(kind)), text)
	}
	if values["controller"] == nil && !definitions {
		return nil, fmt.Errorf("no Deployment in %s", r.Path)
	}
	for name, doc := range map[string]map[string]any{
		chartutil.ValuesfileName: values,
		chartutil.ChartfileName: {
			"apiVersion": "v2", "name": r.Name, "version": r.Version, "appVersion": appVersion, "type": "application",
			"description": "Made from the manifests of " + r.Module,
		},
	} {
		data, err := yaml.Marshal(doc)
		if err != nil {
			return nil, err
		}
		add(name, data)
	}
	return loader.LoadFiles(files)
}

// manifestFiles returns a file, or those of a folder.
func manifestFiles(name string) ([]string, error) {
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return []string{name}, err
	}
	return filepath.Glob(filepath.Join(name, "*.yaml"))
}

// controllerValues makes values of what a Deployment has, with the release's image instead of the latest, or of a placeholder.
func controllerValues(doc map[string]any, image, tag string) (map[string]any, error) {
	c, err := mainContainer(doc)
	if err != nil {
		return nil, err
	}
	spec := doc["spec"].(map[string]any)
	repository, _ := splitImage(c["image"])
	repository = cmp.Or(image, repository)
	registry, repository, _ := strings.Cut(repository, "/")
	values := map[string]any{
		"replicas": spec["replicas"], "resources": c["resources"], "args": listOf(c["args"]),
		"image": map[string]any{"registry": registry, "repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
	}
	spec["replicas"] = inline(".Values.controller.replicas")
	c["args"] = block(".Values.controller.args")
	c["resources"] = block(".Values.controller.resources")
	c["image"] = inline(`printf "%s/%s:%s" .Values.controller.image.registry .Values.controller.image.repository .Values.controller.image.tag | quote`)
	c["imagePullPolicy"] = inline(".Values.controller.image.pullPolicy")
	return values, nil
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return append([]any{}, list...)
}
