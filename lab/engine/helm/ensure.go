package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"

	"homelab/lab"
)

// Release is the wanted state of a release.
type Release struct {
	Name      string
	Namespace string // must exist
	Chart     lab.Chart
	Values    map[string]any
	Labels    map[string]string // further labels of the release record
	NoHooks   bool              // do not run the chart's hooks
}

// Inputs returns a digest of a release's chart and values, short enough for a label.
func Inputs(chart lab.Chart, values map[string]any) (string, error) {
	if values == nil {
		values = map[string]any{}
	}
	// encoding/json sorts the keys of maps.
	b, err := json.Marshal(struct {
		Name, Version, Digest string
		Values                map[string]any
	}{chart.Name, chart.Version, chart.Digest, values})
	if err != nil {
		return "", fmt.Errorf("values of chart %s: %w", chart.Name, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:20]), nil
}

// Result is the result of Ensure.
type Result struct {
	State
	Changed bool
	Reason  string // empty if nothing changed
	// Replaced are the missing objects of the previous revision, which were recreated.
	Replaced []string
}

// Ensure installs or upgrades a release if needed. It compares digests, not manifests, so that an up-to-date release costs one read.
//
// Helm continues in the background when its context ends, so ctx is only checked between calls.
func (c *Client) Ensure(ctx context.Context, want Release, p lab.Progress) (Result, error) {
	inputs, err := Inputs(want.Chart, want.Values)
	if err != nil {
		return Result{}, err
	}
	last, err := c.last(ctx, want.Name)
	if err != nil {
		return Result{}, err
	}
	reason := ""
	var have State
	if last != nil {
		if have, err = c.observe(ctx, last); err != nil {
			return Result{}, err
		}
		reason = c.reason(last, want, inputs)
		if reason == "" && len(have.Missing) > 0 {
			reason = have.Missing[0] + " is gone"
		}
		if reason == "" {
			return Result{State: have}, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}

	chart, err := loader.Load(want.Chart.Archive)
	if err != nil {
		return Result{}, fmt.Errorf("chart %s %s: %w", want.Chart.Name, want.Chart.Version, err)
	}
	if crds := chart.CRDObjects(); len(crds) > 0 {
		// Helm installs the crds/ folder once and never upgrades it; lab applies it each time.
		p(fmt.Sprintf("%s %s: applying resource definitions", want.Chart.Name, want.Chart.Version))
		if err := c.applyCRDs(ctx, crds); err != nil {
			return Result{}, err
		}
	}
	labels := maps.Clone(want.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[lab.LabelInputs] = inputs

	inFlight := context.WithoutCancel(ctx)
	given := clone(want.Values) // Helm may modify it
	if last == nil {
		p(fmt.Sprintf("%s %s: installing", want.Chart.Name, want.Chart.Version))
		in := action.NewInstall(c.cfg)
		in.ReleaseName, in.Namespace = want.Name, want.Namespace
		in.Timeout = hookTimeout
		in.SkipCRDs, in.DisableHooks = true, want.NoHooks
		in.DisableOpenAPIValidation = true // the API server validates; fetching its schema costs a second
		in.Labels = labels
		in.Description = "installed by lab"
		rel, err := in.RunWithContext(inFlight, chart, given)
		if err != nil {
			return Result{}, fmt.Errorf("install %s: %w", want.Name, err)
		}
		return Result{State: stateOf(rel), Changed: true, Reason: "not installed"}, nil
	}

	if err := c.settle(last); err != nil {
		return Result{}, err
	}
	p(fmt.Sprintf("%s %s: upgrading, %s", want.Chart.Name, want.Chart.Version, reason))
	up := action.NewUpgrade(c.cfg)
	up.Namespace = want.Namespace
	up.Timeout = hookTimeout
	up.SkipCRDs, up.DisableHooks = true, want.NoHooks
	up.DisableOpenAPIValidation = true
	up.ResetValues = true // use exactly the given values
	up.MaxHistory = history
	up.Labels = labels
	up.Description = "upgraded by lab: " + reason
	rel, err := up.RunWithContext(inFlight, want.Name, chart, given)
	if err != nil {
		return Result{}, fmt.Errorf("upgrade %s: %w", want.Name, err)
	}
	return Result{State: stateOf(rel), Changed: true, Reason: reason, Replaced: have.Missing}, nil
}

// reason returns why a release must be upgraded, or "".
func (c *Client) reason(last *release.Release, want Release, inputs string) string {
	have := stateOf(last)
	switch {
	case !have.Deployed():
		return "the last revision is " + have.Status
	case have.Inputs == inputs:
		return ""
	case have.Inputs == "":
		return "the last revision is not lab's"
	case have.Chart != want.Chart.Version:
		return fmt.Sprintf("chart %s -> %s", have.Chart, want.Chart.Version)
	}
	return "chart or values changed"
}

// settle marks an incomplete revision of a killed run as failed. Helm upgrades from a failed revision, creating missing objects and patching others, but refuses to
// upgrade a pending one. Nothing is uninstalled for that, so that no CustomResourceDefinition and its objects are lost.
func (c *Client) settle(last *release.Release) error {
	switch last.Info.Status {
	case release.StatusDeployed, release.StatusFailed, release.StatusSuperseded:
		return nil
	}
	last.SetStatus(release.StatusFailed, fmt.Sprintf("%s was interrupted; taken over by lab", last.Info.Status))
	if err := c.cfg.Releases.Update(last); err != nil {
		return fmt.Errorf("release %s, revision %d: %w", last.Name, last.Version, err)
	}
	return nil
}

// clone copies the maps of a tree of values.
func clone(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for k, v := range values {
		if m, ok := v.(map[string]any); ok {
			v = clone(m)
		}
		out[k] = v
	}
	return out
}
