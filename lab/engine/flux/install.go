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

// Install installs or upgrades Flux and waits until it is ready. It reports whether anything changed: a complete release with the same inputs is left alone. An
// interrupted release is resumed; nothing is ever uninstalled.
func (f *Flux) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	ns := kube.Namespace{Name: f.namespace, Labels: f.labels("engine"), Leaving: f.dropIn}
	if err := ns.Ensure(ctx, f.hub.Dynamic, p); err != nil {
		return false, err
	}
	res, err := f.release.Ensure(ctx, helm.Release{
		Name: releaseName, Namespace: f.namespace, Chart: chart, Values: values, Labels: map[string]string{lab.LabelName: f.lab},
		NoHooks: true, // the community chart's check the cluster with a separate image
	}, func(d string) { p(strings.Replace(d, chart.Name+" "+chart.Version, "flux", 1)) })
	if err != nil {
		return false, fmt.Errorf("flux: %w", err)
	}
	return res.Changed, workload.AwaitEngine(ctx, f.hub.Typed, workload.Engine{
		Name: "flux " + strings.TrimPrefix(res.State.App, "v"), Namespace: f.namespace, Workloads: res.State.Workloads, Affix: "-controller", Within: readyWithin,
	}, p)
}
