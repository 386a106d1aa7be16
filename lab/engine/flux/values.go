package flux

import (
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
)

// controller is a controller of Flux: its image, and where the chart's values have it.
type controller struct {
	image, key string
	args       []any
	gates      []string // features to switch on
}

// controllers are those of every lab.
var controllers = []controller{
	{"source-controller", "sourceController", []any{requeue}, nil},
	{"kustomize-controller", "kustomizeController", []any{requeue, workers}, []string{"CancelHealthCheckOnNewRevision"}},
	{"helm-controller", "helmController", []any{requeue, workers}, []string{"CancelHealthCheckOnNewRevision", "DefaultToRetryOnFailure"}},
	{"notification-controller", "notificationController", nil, nil},
}

// extras run where an estate asks for them.
var extras = []controller{
	{lab.FluxImageReflector, "imageReflectionController", nil, nil},
	{lab.FluxImageAutomation, "imageAutomationController", nil, nil},
	{lab.FluxSourceWatcher, "sourceWatcher", []any{requeue}, nil},
}

// arguments are those beside the chart's own. What source-watcher makes is taken where it runs, as by `flux install --components-extra=source-watcher`.
func (c controller) arguments(extra []string) []any {
	gates := c.gates
	if len(gates) > 0 && slices.Contains(extra, lab.FluxSourceWatcher) {
		gates = append(slices.Clip(gates), "ExternalArtifact")
	}
	if len(gates) == 0 {
		return c.args
	}
	return append(slices.Clip(c.args), "--feature-gates="+strings.Join(gates, "=true,")+"=true")
}

// requeue has what waits for a source or for a dependency look again soon; Flux's 30 s suit clusters that are never started.
const requeue = "--requeue-dependency=2s"

// workers is more than there are applications: each waits for its health in a worker, and those of a cluster that is off would hold up all others with Flux's four.
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
// A commit that mends what is broken is taken up at once, and not when the wait for what is broken has run out (CancelHealthCheckOnNewRevision); a release that
// failed is tried until it works (DefaultToRetryOnFailure).
func Values(s engine.Settings, over map[string]any) map[string]any {
	labels := map[string]any{lab.LabelName: s.Lab, lab.LabelPart: "engine"}
	own := map[string]any{
		// An uninstall must never delete what was applied.
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
			"labels":    labels,
			"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}},
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

// nodePortService leads from a node to the receiver of webhooks, whose own Service is for ingresses.
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
