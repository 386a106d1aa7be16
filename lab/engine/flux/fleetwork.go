package flux

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// Register registers a cluster with its own Flux and with the hub's. It works before Flux is installed.
func (t *Fleet) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	if spoke == nil {
		return t.hub.Register(ctx, reg, nil)
	}
	f, err := t.at(reg.Cluster, spoke)
	if err != nil {
		return nil, err
	}
	lines, err := t.hub.Register(ctx, reg, nil)
	if err != nil {
		return nil, err
	}
	own := kube.Namespace{Name: kube.SpokeNamespace, Labels: f.labels("engine")} // its note lists the objects removed with the lab
	if err := own.Ensure(ctx, f.hub.Dynamic, silent); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
	}
	there, err := f.Register(ctx, reg, nil)
	if err != nil {
		return nil, err
	}
	isNew := "registered as " + reg.Server
	if slices.Equal(there, []string{isNew}) && !slices.Contains(lines, isNew) {
		there = []string{"registered again"}
	}
	for _, line := range there {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// CheckCredentials reports why a spoke is no longer the registered one, or "" if it is, or is not registered.
func (t *Fleet) CheckCredentials(ctx context.Context, cluster string, spoke *rest.Config) (string, error) {
	have, err := t.hub.registrationSecret(ctx, cluster)
	if have == nil || err != nil {
		return "", err
	}
	f, err := t.at(cluster, spoke)
	if err != nil {
		return "", err
	}
	own, err := f.registrationSecret(ctx, cluster)
	switch {
	case err != nil:
		return "", fmt.Errorf("cluster %s: %w", cluster, err)
	case own == nil:
		return "it is not registered there", nil
	case own.GetLabels()[lab.LabelName] != f.lab:
		return "it is registered there by another lab", nil
	}
	return f.defectOf(ctx, own)
}

// Registration returns a cluster's own registration, or the hub's copy if the cluster does not answer.
func (t *Fleet) Registration(ctx context.Context, cluster string) (engine.Registered, error) {
	of, err := t.hub.Registration(ctx, cluster)
	if err != nil || cluster == t.hub.home {
		return of, err
	}
	f, err := t.on(cluster)
	if err != nil {
		return of, nil
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if own, err := f.Registration(within, cluster); err == nil {
		return own, nil
	}
	return of, ctx.Err()
}

// Mark changes labels and annotations of a cluster's registration, in the cluster and on the hub.
func (t *Fleet) Mark(ctx context.Context, cluster string, m engine.Marks) error {
	if cluster != t.hub.home {
		f, err := t.on(cluster)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", cluster, err)
		}
		if err := f.Mark(ctx, cluster, m); err != nil {
			return err
		}
	}
	return t.hub.Mark(ctx, cluster, m)
}

// ApplyRepositories applies the lab's repositories to every Flux that answers, and describes the changes.
func (t *Fleet) ApplyRepositories(ctx context.Context, repos []engine.Repository) ([]string, error) {
	return t.forEach(ctx, acceptWithin, func(ctx context.Context, m member) ([]string, error) { return m.ApplyRepositories(ctx, repos) })
}

// ApplyRoot applies the roots to every Flux that answers, and reports whether that changed anything.
func (t *Fleet) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	lines, err := t.forEach(ctx, acceptWithin, func(ctx context.Context, m member) ([]string, error) {
		own, ok := rootFor(m, root)
		if !ok {
			return nil, nil
		}
		changed, err := m.ApplyRoot(ctx, own)
		if changed {
			return []string{"changed"}, err
		}
		return nil, err
	})
	return len(lines) > 0, err
}

// Drift describes missing or modified roots and repositories in the clusters that answer.
func (t *Fleet) Drift(ctx context.Context, root engine.Root, repos []engine.Repository) ([]string, error) {
	return t.forEach(ctx, answerWithin, func(ctx context.Context, m member) ([]string, error) {
		own, ok := rootFor(m, root)
		if !ok {
			return nil, nil
		}
		return m.Drift(ctx, own, repos)
	})
}

// rootFor returns a cluster's root, or false if the estate has none for it.
func rootFor(m member, root engine.Root) (engine.Root, bool) {
	own, ok := root.Own[m.cluster]
	root.Manifest, root.Clusters = own, []string{m.cluster}
	return root, ok
}

// doWithin bounds the calls to one Flux, whose cluster may stop answering.
func doWithin(ctx context.Context, m member, do func(context.Context, member) ([]string, error)) ([]string, error) {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lines, err := do(within, m)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = &lab.Error{
			Exit: lab.ExitTimeout, Code: "unreachable", Message: "it stopped answering for " + lab.WholeSeconds(callTimeout), Err: err,
			Cure: "lab up retries; lab diagnose collects details",
		}
	}
	return lines, err
}

// forEach calls do for each Flux that answers, and merges the lines: those common to all appear once.
func (t *Fleet) forEach(ctx context.Context, limit time.Duration, do func(context.Context, member) ([]string, error)) ([]string, error) {
	list, err := t.answering(ctx, limit)
	if err != nil {
		return nil, err
	}
	results := make([][]string, 0, len(list))
	for _, m := range list {
		lines, failed := doWithin(ctx, m, do)
		results = append(results, lines)
		if failed != nil {
			err = fmt.Errorf("cluster %s: %w", m.cluster, failed)
			break
		}
	}
	var all []string
	for i, lines := range results {
		for _, line := range lines {
			common := !slices.ContainsFunc(results, func(other []string) bool { return !slices.Contains(other, line) })
			switch {
			case !common:
				all = append(all, "cluster "+list[i].cluster+": "+line)
			case i == 0:
				all = append(all, line)
			}
		}
	}
	return all, err
}
