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

// Release is what a release should be.
type Release struct {
	Name      string
	Namespace string // must exist
	Chart     lab.Chart
	Values    map[string]any
	Labels    map[string]string // further labels of the release record
	NoHooks   bool              // the chart's hooks are not run
}

// Inputs is the digest of everything a release is made from. It is short enough for a label.
func Inputs(chart lab.Chart, values map[string]any) (string, error) {
	if values == nil {
		values = map[string]any{}
	}
	// encoding/json sorts the keys of maps, so equal values give equal bytes.
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

// Result is what Ensure did.
type Result struct {
	State
	Changed bool
	Reason  string // why, in words; empty when nothing changed
	// Replaced are the objects of the revision before that were missing, and were made again.
	Replaced []string
}

// Ensure makes a release so. It compares digests, not manifests, so a release that is as it should be costs one read.
//
// Helm goes on in the background when its context ends, so a call in flight is left to finish and ctx is heeded between calls.
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
	given := clone(want.Values) // Helm may write into what it is given
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
	up.ResetValues = true // the values given are all of them
	up.MaxHistory = history
	up.Labels = labels
	up.Description = "upgraded by lab: " + reason
	rel, err := up.RunWithContext(inFlight, want.Name, chart, given)
	if err != nil {
		return Result{}, fmt.Errorf("upgrade %s: %w", want.Name, err)
	}
	return Result{State: stateOf(rel), Changed: true, Reason: reason, Replaced: have.Missing}, nil
}

// reason says why a release must be upgraded; empty when it is as it should be.
func (c *Client) reason(last *release.Release, want Release, inputs string) string {
	have := stateOf(last)
	switch {
	case !have.Deployed():
		return "the last revision is " + have.Status
	case have.Inputs == inputs:
		return ""
	case have.Inputs == "":
		return "lab did not make the last revision"
	case have.Chart != want.Chart.Version:
		return fmt.Sprintf("chart %s -> %s", have.Chart, want.Chart.Version)
	}
	return "chart or values changed"
}

// settle turns a revision that a killed run left half made into a failed one. Helm upgrades from a failed revision, creating what is missing and patching
// what is there, but refuses to touch a pending one. Nothing is uninstalled for that, so no CustomResourceDefinition goes, nor what is in it.
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
