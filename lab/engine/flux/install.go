package flux

import (
	"context"
	"fmt"
	"strings"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/workload"
)

// Install installs or upgrades Flux to the chart and values, and waits until it serves. It reports whether anything changed: a release of the same inputs whose
// objects are all there is left alone. What a killed run left half installed is completed; nothing is uninstalled.
func (f *Flux) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	ns := kube.Namespace{Name: f.namespace, Labels: f.labels("engine"), Leaving: f.letGo}
	if err := ns.Ensure(ctx, f.hub.Dynamic, p); err != nil {
		return false, err
	}
	res, err := f.release.Ensure(ctx, helm.Release{
		Name: releaseName, Namespace: f.namespace, Chart: chart, Values: values, Labels: map[string]string{lab.LabelName: f.lab},
		NoHooks: true, // those of the community's chart check the cluster with an image of their own
	}, func(d string) { p(strings.Replace(d, chart.Name+" "+chart.Version, "flux", 1)) })
	if err != nil {
		return false, fmt.Errorf("flux: %w", err)
	}
	return res.Changed, workload.AwaitEngine(ctx, f.hub.Typed, workload.Engine{
		Name: "flux " + strings.TrimPrefix(res.State.App, "v"), Namespace: f.namespace, Workloads: res.State.Workloads, Affix: "-controller", Within: readyWithin,
	}, p)
}
