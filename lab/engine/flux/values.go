package flux

import (
	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
)

// controllers are those that lab runs, and where the chart's values have them. Those that write images into Git are left out: promotion is lab's.
var controllers = []struct {
	image, key string
	args       []any
}{
	{"source-controller", "sourceController", []any{requeue}},
	{"kustomize-controller", "kustomizeController", []any{requeue, workers, "--feature-gates=CancelHealthCheckOnNewRevision=true"}},
	{"helm-controller", "helmController", []any{requeue, workers, "--feature-gates=CancelHealthCheckOnNewRevision=true,DefaultToRetryOnFailure=true"}},
	{"notification-controller", "notificationController", nil},
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

		"imageAutomationController": map[string]any{"create": false},
		"imageReflectionController": map[string]any{"create": false},
		"extraObjects": []any{
			kube.Secret(map[string]any{"name": receiverName, "namespace": "{{ .Release.Namespace }}", "labels": labels}, map[string]string{"token": s.WebhookSecret}).Object,
		},
	}
	for _, c := range controllers {
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
		if c.args != nil {
			of["container"] = map[string]any{"additionalArgs": c.args}
		}
		own[c.key] = of
	}
	if s.Guest {
		return helm.Merge(own, over)
	}
	notification := own["notificationController"].(map[string]any)
	notification["webhookReceiver"] = map[string]any{"service": map[string]any{"type": "NodePort", "nodePort": nodePort}}
	return helm.Merge(own, over)
}
