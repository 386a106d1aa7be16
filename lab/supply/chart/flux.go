package chart

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

//go:embed flux
var fluxFiles embed.FS

// controller is a controller of Flux.
type controller struct {
	name string // as its module: "source-controller"
	key  string // key in the chart's values: "sourceController"
}

var controllers = []controller{
	{"helm-controller", "helmController"},
	{"image-automation-controller", "imageAutomationController"},
	{"image-reflector-controller", "imageReflectionController"},
	{"kustomize-controller", "kustomizeController"},
	{"notification-controller", "notificationController"},
	{"source-controller", "sourceController"},
	{"source-watcher", "sourceWatcher"},
}

func (c controller) values(path string) string { return ".Values." + c.key + "." + path }

// fluxManifests are the shared folders of flux2's module, with their conditions.
var fluxManifests = []struct{ file, cond string }{
	{"rbac/controller.yaml", ".Values.rbac.create"},
	{"rbac/reconciler.yaml", ".Values.rbac.create"},
	{"rbac/edit.yaml", ".Values.rbac.createAggregation"},
	{"rbac/view.yaml", ".Values.rbac.createAggregation"},
	{"policies/allow-egress.yaml", ".Values.policies.create"},
	{"policies/allow-scraping.yaml", ".Values.policies.create"},
	{"policies/allow-webhooks.yaml", ".Values.policies.create"},
}

// flux builds the chart from the manifests of flux2 and of its controllers' modules. flux2's overlays are kustomize patches of the controllers' releases, which they
// download; the templates contain the same changes.
func flux(r Recipe, src Sources) (*helmchart.Chart, error) {
	_, appVersion, _ := strings.Cut(r.Module, "@")
	b := &fluxChart{values: map[string]any{}}
	for _, at := range r.Parts {
		module, _, _ := strings.Cut(at, "@")
		i := slices.IndexFunc(controllers, func(c controller) bool { return c.name == path.Base(strings.TrimSuffix(module, "/v2")) })
		if i < 0 {
			return nil, fmt.Errorf("unknown controller %s", at)
		}
		if err := b.addController(controllers[i], at, filepath.Join(src[at], "config")); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	for _, m := range fluxManifests {
		docs, err := readManifests(filepath.Join(src[r.Module], filepath.FromSlash(r.Path), filepath.FromSlash(m.file)))
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			if err := b.addShared(m.file, m.cond, doc); err != nil {
				return nil, err
			}
		}
	}
	return b.chart(r, appVersion)
}

// fluxChart is a chart being built.
type fluxChart struct {
	files  []*loader.BufferedFile
	values map[string]any // of the controllers, by key
}

func (b *fluxChart) add(name string, data []byte) {
	b.files = append(b.files, &loader.BufferedFile{Name: name, Data: data})
}

func (b *fluxChart) addController(c controller, at, dir string) error {
	crds, err := filepath.Glob(filepath.Join(dir, "crd", "bases", "*.yaml"))
	if err != nil {
		return err
	}
	slices.Sort(crds)
	for _, file := range crds {
		docs, err := readManifests(file)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			meta := doc["metadata"].(map[string]any)
			annotations, _ := meta["annotations"].(map[string]any)
			meta["annotations"] = include{"flux.crdAnnotations", fmt.Sprintf(`(dict "values" .Values "own" %s)`, dict(annotations))}
			meta["labels"] = include{"flux.labels", c.arg()}
			text, err := emit("and .Values.installCRDs "+c.values("create"), doc)
			if err != nil {
				return err
			}
			b.add("templates/crds/"+strings.TrimSuffix(filepath.Base(file), ".yaml")+".yaml", text)
		}
	}
	docs, err := readManifests(filepath.Join(dir, "manager", "deployment.yaml"))
	if err != nil {
		return err
	}
	if len(docs) != 1 || docs[0]["kind"] != "Deployment" {
		return errors.New("config/manager/deployment.yaml is not one Deployment")
	}
	container, err := mainContainer(docs[0])
	if err != nil {
		return err
	}
	_, version, _ := strings.Cut(at, "@")
	b.values[c.key] = c.defaults(container, version)
	if err := c.deployment(docs[0]); err != nil {
		return err
	}
	if services, err := readManifests(filepath.Join(dir, "manager", "service.yaml")); err == nil {
		docs = append(docs, services...)
	}
	docs = append(docs, map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": c.name, "annotations": with(c.values("serviceAccount.annotations"))},
		"automountServiceAccountToken": inline(c.values("serviceAccount.automount")),
	})
	for _, doc := range docs {
		meta := doc["metadata"].(map[string]any)
		meta["namespace"], meta["labels"] = inline(".Release.Namespace"), include{"flux.labels", c.arg()}
		cond := c.values("create")
		if doc["kind"] == "Service" {
			c.service(doc)
		}
		if doc["kind"] == "ServiceAccount" {
			cond = "and " + cond + " " + c.values("serviceAccount.create")
		}
		text, err := emit(cond, doc)
		if err != nil {
			return err
		}
		b.add("templates/"+c.name+"/"+strings.ToLower(doc["kind"].(string))+"-"+nameOf(doc)+".yaml", text)
	}
	return nil
}

// arg returns the argument of the named templates.
func (c controller) arg() string {
	return fmt.Sprintf(`(dict "context" $ "component" %q "values" .Values.%s)`, c.name, c.key)
}

// defaults returns the values of a controller, with the keys of upstream's chart.
func (c controller) defaults(container map[string]any, version string) map[string]any {
	v := map[string]any{
		"create": true, "image": "ghcr.io/fluxcd/" + c.name, "tag": version, "imagePullPolicy": "", "resources": container["resources"],
		"priorityClassName": "", "annotations": map[string]any{"prometheus.io/port": "8080", "prometheus.io/scrape": "true"}, "labels": map[string]any{},
		"container": map[string]any{"additionalArgs": []any{}}, "extraEnv": []any{},
		"serviceAccount": map[string]any{"create": true, "automount": true, "annotations": map[string]any{}},
		"volumes":        []any{}, "volumeMounts": []any{}, "nodeSelector": map[string]any{}, "affinity": map[string]any{}, "tolerations": []any{},
	}
	if c.key == "notificationController" {
		v["webhookReceiver"] = map[string]any{"service": map[string]any{"annotations": map[string]any{}}}
	}
	return v
}

// deployment adds a controller's values and the changes of flux2's overlay to its Deployment.
func (c controller) deployment(doc map[string]any) error {
	template := doc["spec"].(map[string]any)["template"].(map[string]any)
	template["metadata"] = map[string]any{"labels": include{"flux.podLabels", c.arg()}, "annotations": with(c.values("annotations"))}
	pod := template["spec"].(map[string]any)
	m := pod["containers"].([]any)[0].(map[string]any)
	m["image"] = inline(fmt.Sprintf(`printf "%%s:%%s" %s %s | quote`, c.values("image"), c.values("tag")))
	m["imagePullPolicy"] = inline(c.values("imagePullPolicy") + ` | default "IfNotPresent"`)
	m["resources"] = block(c.values("resources"))
	args, _ := m["args"].([]any)
	var out []any
	if c.key != "sourceController" {
		out = append(out, when{".Values.multitenancy.enabled", "--no-cross-namespace-refs=true"})
	}
	if c.key == "kustomizeController" || c.key == "helmController" {
		out = append(out, when{
			"and .Values.multitenancy.enabled .Values.multitenancy.privileged",
			inline(`printf "--default-service-account=%s" .Values.multitenancy.defaultServiceAccount`),
		})
	}
	if c.key != "notificationController" {
		out = append(out, when{
			".Values.notificationController.create",
			inline(`printf "--events-addr=http://notification-controller.%s.svc.%s./" .Release.Namespace .Values.clusterDomain`),
		})
	}
	for _, arg := range args {
		text, _ := arg.(string)
		switch name, value, _ := strings.Cut(text, "="); name {
		case "--watch-all-namespaces":
			out = append(out, inline(`printf "--watch-all-namespaces=%t" .Values.watchAllNamespaces`))
		case "--log-level":
			out = append(out, inline(`printf "--log-level=%s" .Values.logLevel`))
		case "--storage-adv-addr":
			out = append(out, inline(`printf "`+name+"="+strings.Replace(value, "cluster.local", "%s", 1)+`" .Values.clusterDomain`))
		default:
			out = append(out, arg)
		}
	}
	m["args"] = append(out, spread(c.values("container.additionalArgs")))
	env, _ := m["env"].([]any)
	m["env"] = append(env, map[string]any{
		"name": "GOMEMLIMIT", "valueFrom": map[string]any{"resourceFieldRef": map[string]any{"containerName": m["name"], "resource": "limits.memory"}},
	}, spread(c.values("extraEnv")))
	mounts, _ := m["volumeMounts"].([]any)
	volumes, _ := pod["volumes"].([]any)
	m["volumeMounts"], pod["volumes"] = append(mounts, spread(c.values("volumeMounts"))), append(volumes, spread(c.values("volumes")))
	pod["serviceAccountName"] = c.name
	pod["priorityClassName"] = when{c.values("priorityClassName"), inline(c.values("priorityClassName"))}
	for _, name := range []string{"nodeSelector", "affinity", "tolerations"} {
		pod[name] = with(c.values(name))
	}
	pod["imagePullSecrets"] = with(".Values.imagePullSecrets")
	return nil
}

// service adds the annotations of the webhook receiver.
func (c controller) service(doc map[string]any) {
	if nameOf(doc) != "webhook-receiver" {
		return
	}
	doc["metadata"].(map[string]any)["annotations"] = with(c.values("webhookReceiver.service.annotations"))
}

// addShared adds an object of flux2 itself.
func (b *fluxChart) addShared(file, cond string, doc map[string]any) error {
	meta := doc["metadata"].(map[string]any)
	shared := `(dict "context" $ "component" "" "values" (dict "labels" ` + dict(meta["labels"]) + `))`
	meta["labels"] = include{"flux.labels", shared}
	name := nameOf(doc)
	switch doc["kind"] {
	case "NetworkPolicy":
		meta["namespace"] = inline(".Release.Namespace")
	case "ClusterRole", "ClusterRoleBinding": // install.yaml has the namespace in their names
		meta["name"] = inline(`printf "` + name + `-%s" .Release.Namespace`)
		meta["annotations"] = with(".Values.rbac.annotations")
	default:
		return fmt.Errorf("%s: unknown kind %s", file, doc["kind"])
	}
	if ref, ok := doc["roleRef"].(map[string]any); ok {
		ref["name"] = meta["name"]
		if name == "cluster-reconciler" {
			ref["name"] = inline(".Values.rbac.roleRef.name")
			cond = "and " + cond + " (not (and .Values.multitenancy.enabled (not .Values.multitenancy.privileged)))"
		}
		subjects, _ := doc["subjects"].([]any)
		var known []any
		for _, s := range subjects {
			subject := s.(map[string]any)
			if i := slices.IndexFunc(controllers, func(c controller) bool { return c.name == subject["name"] }); i >= 0 {
				subject["namespace"] = inline(".Release.Namespace")
				known = append(known, when{controllers[i].values("create"), subject})
			}
		}
		doc["subjects"] = known
	}
	text, err := emit(cond, doc)
	if err != nil {
		return err
	}
	b.add("templates/"+strings.TrimSuffix(file, ".yaml")+"-"+strings.ToLower(doc["kind"].(string))+".yaml", text)
	return nil
}

// dict formats a map of strings for a template.
func dict(v any) string {
	m, _ := v.(map[string]any)
	var b strings.Builder
	b.WriteString("(dict")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, " %q %q", k, m[k])
	}
	return b.String() + ")"
}

// chart packs the chart.
func (b *fluxChart) chart(r Recipe, appVersion string) (*helmchart.Chart, error) {
	for _, c := range controllers {
		if b.values[c.key] == nil {
			return nil, fmt.Errorf("no module of %s", c.name)
		}
	}
	// Helm upgrades a kind's objects in the order of their files: the last one can take a node port that an earlier one releases.
	for file, as := range map[string]string{"helpers.tpl": "templates/_helpers.tpl", "extra.yaml": "templates/zz-extra.yaml"} {
		data, err := fluxFiles.ReadFile("flux/" + file)
		if err != nil {
			return nil, err
		}
		b.add(as, data)
	}
	text, err := fluxFiles.ReadFile("flux/values.yaml")
	if err != nil {
		return nil, err
	}
	var own map[string]any
	if err := yaml.Unmarshal(text, &own); err != nil {
		return nil, err
	}
	all := maps.Clone(own)
	maps.Copy(all, b.values)
	schema, err := json.MarshalIndent(schemaOf(all, ""), "", " ")
	if err != nil {
		return nil, err
	}
	controllers, err := yaml.Marshal(b.values)
	if err != nil {
		return nil, err
	}
	meta, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": r.Name, "version": r.Version, "appVersion": strings.TrimPrefix(appVersion, "v"), "type": "application", "kubeVersion": ">=1.33.0-0",
		"description": "Flux, made from the manifests of " + r.Module + " and its controllers; takes the values of the community's flux2 chart",
		"home":        "https://fluxcd.io", "icon": "https://raw.githubusercontent.com/fluxcd/flux2/main/docs/_files/cover.png",
	})
	if err != nil {
		return nil, err
	}
	b.add("values.yaml", append(text, controllers...))
	b.add("values.schema.json", append(schema, '\n'))
	b.add("Chart.yaml", meta)
	return loader.LoadFiles(b.files)
}
