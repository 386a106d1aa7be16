package flux

import (
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// controller is a controller of Flux: its image, and its key in the chart's values.
type controller struct {
	image, key string
	args       []any
	gates      []string // features to enable
}

// controllers are the controllers of every lab.
var controllers = []controller{
	{"source-controller", "sourceController", []any{requeue}, nil},
	{"kustomize-controller", "kustomizeController", []any{requeue, workers}, []string{"CancelHealthCheckOnNewRevision"}},
	{"helm-controller", "helmController", []any{requeue, workers}, []string{"CancelHealthCheckOnNewRevision", "DefaultToRetryOnFailure"}},
	{"notification-controller", "notificationController", nil, nil},
}

// extras are the optional controllers.
var extras = []controller{
	{flux.ImageReflector, "imageReflectionController", nil, nil},
	{flux.ImageAutomation, "imageAutomationController", nil, nil},
	{flux.SourceWatcher, "sourceWatcher", []any{requeue}, nil},
}

// arguments returns a controller's additional arguments. Artifacts are enabled with source-watcher, as by `flux install --components-extra=source-watcher`.
func (c controller) arguments(extra []string) []any {
	gates := c.gates
	if len(gates) > 0 && slices.Contains(extra, flux.SourceWatcher) {
		gates = append(slices.Clip(gates), "ExternalArtifact")
	}
	if len(gates) == 0 {
		return c.args
	}
	return append(slices.Clip(c.args), "--feature-gates="+strings.Join(gates, "=true,")+"=true")
}

// requeue shortens the interval for unmet dependencies; Flux's default of 30 s suits clusters that are never started.
const requeue = "--requeue-dependency=2s"

// workers exceeds the number of applications: each waits for its health in a worker, so with Flux's default of four, those of a stopped cluster block all others.
const workers = "--concurrent=100"

func images() []string {
	names := make([]string, len(controllers))
	for i, c := range controllers {
		names[i] = c.image
	}
	return names
}

// Values returns lab's values for the flux2 chart of the Flux community, with over merged on top: maps by key, other values replaced; a null removes lab's
// value, so that the chart's default applies.
//
// A fix takes effect immediately, not after the health check of the broken commit timed out (CancelHealthCheckOnNewRevision); a failed release is retried
// until it succeeds (DefaultToRetryOnFailure).
func Values(s engine.Settings, over map[string]any) map[string]any {
	labels := map[string]any{lab.LabelName: s.Lab, lab.LabelPart: "engine"}
	own := map[string]any{
		// An uninstall must never delete applied objects.
		"crds": map[string]any{"annotations": map[string]any{"helm.sh/resource-policy": "keep"}},

		"extraObjects": []any{
			kube.Secret(ownMeta(receiverName, labels), map[string]string{"token": s.WebhookSecret}).Object,
		},
	}
	run := slices.Clone(controllers)
	for _, c := range extras {
		if slices.Contains(s.Extra, c.image) {
			run = append(run, c)
		} else {
			own[c.key] = map[string]any{"create": false}
		}
	}
	for _, c := range run {
		repository, tag := helm.SplitRef(s.Ref(c.image))
		of := map[string]any{
			"labels": labels,
			// Upstream's limit of one core slows the start, and an engine with a smaller quota would reject the container.
			"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}, "limits": map[string]any{"cpu": nil}},
		}
		if repository != "" {
			of["image"] = repository
		}
		if tag != "" {
			of["tag"] = tag
		}
		if args := c.arguments(s.Extra); args != nil {
			of["container"] = map[string]any{"additionalArgs": args}
		}
		own[c.key] = of
	}
	if !s.Guest {
		own["extraObjects"] = append(own["extraObjects"].([]any), nodePortService(labels))
	}
	return helm.Merge(own, over)
}

// nodePortService exposes the webhook receiver on nodes; its own Service is for ingresses.
func nodePortService(labels map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": ownMeta(receiverName, labels),
		"spec": map[string]any{
			"type": "NodePort", "selector": map[string]any{"app": "notification-controller"},
			"ports": []any{map[string]any{"name": "http", "port": 80, "targetPort": 9292, "nodePort": nodePort}},
		},
	}
}

func ownMeta(name string, labels map[string]any) map[string]any {
	return map[string]any{"name": name, "namespace": "{{ .Release.Namespace }}", "labels": labels}
}
