package chart

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// manifests builds a chart from a file of manifests with one Deployment, for releases that have no chart in a module. Its values are what a lab changes: whether definitions
// are installed, and the controller's replicas, image and resources.
func manifests(r Recipe, file string) (*helmchart.Chart, error) {
	docs, err := readManifests(file)
	if err != nil {
		return nil, err
	}
	_, appVersion, _ := strings.Cut(r.Module, "@")
	var files []*loader.BufferedFile
	add := func(name string, data []byte) { files = append(files, &loader.BufferedFile{Name: name, Data: data}) }
	values := map[string]any{"installCRDs": true}
	for i, doc := range docs {
		kind, meta, cond := doc["kind"].(string), doc["metadata"].(map[string]any), ""
		switch kind {
		case "CustomResourceDefinition":
			cond = ".Values.installCRDs"
		case "ClusterRole":
		case "ClusterRoleBinding":
			for _, s := range doc["subjects"].([]any) {
				s.(map[string]any)["namespace"] = inline(".Release.Namespace")
			}
		case "Deployment":
			if values["controller"] != nil {
				return nil, fmt.Errorf("%s is the second Deployment", nameOf(doc))
			}
			if values["controller"], err = controllerValues(doc, appVersion); err != nil {
				return nil, err
			}
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
	if values["controller"] == nil {
		return nil, fmt.Errorf("no Deployment in %s", r.Path)
	}
	for name, doc := range map[string]map[string]any{
		chartutil.ValuesfileName: values,
		chartutil.ChartfileName: {
			"apiVersion": "v2", "name": r.Name, "version": r.Version, "appVersion": appVersion, "type": "application",
			"description": "Made from the manifests of " + r.Module, "icon": "https://argoproj.github.io/argo-rollouts/assets/logo.png",
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

// controllerValues makes values of what a Deployment has, with the release's image instead of the latest.
func controllerValues(doc map[string]any, tag string) (map[string]any, error) {
	c, err := mainContainer(doc)
	if err != nil {
		return nil, err
	}
	spec := doc["spec"].(map[string]any)
	repository, _ := splitImage(c["image"])
	registry, repository, _ := strings.Cut(repository, "/")
	values := map[string]any{
		"replicas": spec["replicas"], "resources": c["resources"],
		"image": map[string]any{"registry": registry, "repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
	}
	spec["replicas"] = inline(".Values.controller.replicas")
	c["resources"] = block(".Values.controller.resources")
	c["image"] = inline(`printf "%s/%s:%s" .Values.controller.image.registry .Values.controller.image.repository .Values.controller.image.tag | quote`)
	c["imagePullPolicy"] = inline(".Values.controller.image.pullPolicy")
	return values, nil
}
