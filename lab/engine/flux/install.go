package flux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/words"
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
	}, func(d string) { p(strings.Replace(d, chart.Name+" "+chart.Version, "flux", 1)) })
	if err != nil {
		return false, fmt.Errorf("flux: %w", err)
	}
	return res.Changed, f.awaitReady(ctx, res.State, p)
}

// awaitReady waits until every controller serves.
func (f *Flux) awaitReady(ctx context.Context, rel helm.State, p lab.Progress) error {
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	version := strings.TrimPrefix(rel.App, "v")
	err := workload.Wait(within, f.hub.Typed, f.namespace, rel.Workloads, func(d string) { p("flux " + version + ": " + short(d)) })
	var late *workload.NotReady
	if !errors.As(err, &late) {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	e := &lab.Error{
		Exit: lab.ExitTimeout, Code: "engine_not_ready",
		Message: fmt.Sprintf("flux %s is not ready after %s: %s", version, lab.WholeSeconds(late.Waited.Round(time.Second)), short(workload.Sentence(late.Waiting))),
		Cure:    "run lab up again to go on waiting; lab diagnose writes everything worth reading to a file",
	}
	for _, s := range late.Waiting {
		e.Details = append(e.Details, words.Wrap(short(s.String()), words.Width)...)
	}
	for _, s := range late.Pods {
		e.Details = append(e.Details, words.Wrap(s, words.Width)...)
	}
	return e
}
