package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// argoValues returns the chart's values.yaml, its schema and the version of Argo CD. Values have the upstream chart's keys, with the images and ConfigMaps of
// install.yaml.
func argoValues(docs []map[string]any) (values, schema []byte, appVersion string, err error) {
	text, err := argocdFiles.ReadFile("argocd/values.yaml")
	if err != nil {
		return nil, nil, "", err
	}
	var v map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, nil, "", err
	}
	workloads := map[string]map[string]any{}
	measured := map[string]bool{} // has a metrics Service
	for _, doc := range docs {
		kind, name := doc["kind"].(string), nameOf(doc)
		switch {
		case kind == "Deployment" || kind == "StatefulSet":
			c, _ := componentOf(name)
			workloads[c.name], err = mainContainer(doc)
		case kind == "Service" && strings.HasSuffix(name, "-metrics"):
			c, _ := componentOf(serviceName(name))
			measured[c.name] = true
		case kind == "ConfigMap" && name == "argocd-cm":
			maps.Copy(v["configs"].(map[string]any)["cm"].(map[string]any), dataOf(doc))
		case kind == "ConfigMap" && name == "argocd-ssh-known-hosts-cm":
			v["configs"].(map[string]any)["ssh"].(map[string]any)["knownHosts"] = dataOf(doc)["ssh_known_hosts"]
		}
		if err != nil {
			return nil, nil, "", fmt.Errorf("%s %s: %w", kind, name, err)
		}
	}
	repository, tag := splitImage(workloads["server"]["image"])
	v["global"].(map[string]any)["image"].(map[string]any)["repository"] = repository
	for _, c := range components {
		v[c.key] = componentValues(c, workloads[c.name])
		if measured[c.name] {
			v[c.key].(map[string]any)["metrics"] = map[string]any{"enabled": false}
		}
	}
	schema, err = json.MarshalIndent(schemaOf(v, ""), "", " ")
	if err != nil {
		return nil, nil, "", err
	}
	body, err := yaml.Marshal(v)
	if err != nil {
		return nil, nil, "", err
	}
	var head strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		head.WriteString(line)
	}
	return append([]byte(head.String()), body...), append(schema, '\n'), tag, nil
}

// componentValues returns the values of a component.
func componentValues(c component, container map[string]any) map[string]any {
	image := map[string]any{"repository": "", "tag": "", "imagePullPolicy": ""}
	if c.key == "redis" || c.key == "dex" {
		image["repository"], image["tag"] = splitImage(container["image"])
	}
	v := map[string]any{
		"image": image, "resources": map[string]any{}, "extraArgs": []any{}, "initContainers": []any{}, "extraContainers": []any{},
		"podAnnotations": map[string]any{}, "podLabels": map[string]any{}, "nodeSelector": map[string]any{}, "tolerations": []any{},
		"affinity": map[string]any{}, "imagePullSecrets": []any{}, "priorityClassName": "", "terminationGracePeriodSeconds": 30,
	}
	for _, name := range []string{"readinessProbe", "livenessProbe"} {
		if container[name] != nil {
			v[name] = maps.Clone(probeDefaults)
		}
	}
	for _, name := range []string{"env", "envFrom", "volumes", "volumeMounts"} {
		path := strings.TrimPrefix(c.list(name), ".Values."+c.key+".")
		v[path] = []any{}
	}
	if c.cond != "" {
		v["enabled"] = true
	} else {
		v["replicas"] = 1
	}
	switch c.key {
	case "server":
		v["service"] = map[string]any{
			"type": "ClusterIP", "annotations": map[string]any{}, "nodePortHttp": 30080, "nodePortHttps": 30443, "servicePortHttp": 80, "servicePortHttps": 443,
		}
	case "notifications":
		maps.Copy(v, map[string]any{
			"argocdUrl": "", "context": map[string]any{}, "notifiers": map[string]any{}, "templates": map[string]any{}, "triggers": map[string]any{},
			"subscriptions": []any{}, "cm": map[string]any{"create": true}, "secret": map[string]any{"create": true, "items": map[string]any{}},
		})
	}
	return v
}

// open are the maps with arbitrary keys, in addition to those without default keys: paths, or names at any path.
var open = []string{"configs.cm", "configs.params", "configs.rbac", "global.nodeSelector", "annotations", "resources"}

// schemaOf returns a schema with exactly the keys of v. Scalars may have any type, since --set may pass a port as text.
func schemaOf(v any, path string) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		s := map[string]any{"type": []string{"object", "null"}}
		if len(v) == 0 || slices.Contains(open, path) || slices.Contains(open, path[strings.LastIndexByte(path, '.')+1:]) {
			return s
		}
		props := map[string]any{}
		for k, x := range v {
			props[k] = schemaOf(x, strings.TrimPrefix(path+"."+k, "."))
		}
		s["properties"], s["additionalProperties"] = props, false
		return s
	case []any:
		return map[string]any{"type": []string{"array", "null"}}
	}
	return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
}

func dataOf(doc map[string]any) map[string]any {
	data, _ := doc["data"].(map[string]any)
	return data
}

// mainContainer returns the only container of a workload.
func mainContainer(doc map[string]any) (map[string]any, error) {
	spec, _ := doc["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	containers, _ := pod["containers"].([]any)
	if len(containers) == 1 {
		m, _ := containers[0].(map[string]any)
		if _, ok := m["image"].(string); ok {
			return m, nil
		}
	}
	return nil, errors.New("has not one container with an image")
}

// splitImage splits repository and tag; a port in the repository is not a tag.
func splitImage(image any) (repository, tag string) {
	ref, _ := image.(string)
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}
