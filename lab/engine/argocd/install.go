package argocd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/workload"
)

// redisSecret is where every component of Argo CD reads the password of Redis; the name is compiled into them.
const redisSecret = "argocd-redis"

// Install makes Argo CD as the chart and values say and waits until it serves. It says whether anything was changed: a release that was made from the same
// inputs, with all its workloads there, is left alone. A release that a killed run left half made is gone on with; nothing is ever uninstalled.
func (a *ArgoCD) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	if err := a.ensureNamespace(ctx, a.hub.dynamic, Namespace, p); err != nil {
		return false, err
	}
	if err := a.ensureRedisPassword(ctx); err != nil {
		return false, err
	}
	res, err := a.release.Ensure(ctx, helm.Release{
		Name: releaseName, Namespace: Namespace, Chart: chart, Values: values,
		Labels: map[string]string{lab.LabelName: a.lab},
		Repair: func(have helm.State) (string, error) { return a.missing(ctx, have) },
	}, func(d string) { p(strings.Replace(d, chart.Name+" "+chart.Version, "argo cd", 1)) })
	if err != nil {
		return false, fmt.Errorf("argo cd: %w", err)
	}
	return res.Changed, a.awaitReady(ctx, res.State, p)
}

// missing says which workload of a release someone removed since it was applied; empty when all are there.
func (a *ArgoCD) missing(ctx context.Context, have helm.State) (string, error) {
	all, err := workload.Observe(ctx, a.hub.typed, Namespace, have.Workloads)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if !s.Seen {
			return s.String(), nil
		}
	}
	return "", nil
}

// awaitReady waits until every workload of the release serves.
func (a *ArgoCD) awaitReady(ctx context.Context, rel helm.State, p lab.Progress) error {
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	version := strings.TrimPrefix(rel.App, "v")
	err := workload.Wait(within, a.hub.typed, Namespace, rel.Workloads, func(d string) { p("argo cd " + version + ": " + short(d)) })
	var late *workload.NotReady
	if !errors.As(err, &late) {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	e := &lab.Error{
		Exit: lab.ExitTimeout, Code: "engine_not_ready",
		Message: fmt.Sprintf("argo cd %s is not ready after %s: %s", version, duration(late.Waited), short(workload.Sentence(late.Waiting))),
		Cure:    "run lab up again to go on waiting; lab diagnose writes everything worth reading to a file",
	}
	for _, s := range late.Waiting {
		e.Details = append(e.Details, wrapAt(short(s.String()), width)...)
	}
	for _, s := range late.Pods {
		e.Details = append(e.Details, wrapAt(s, width)...)
	}
	return e
}

// ensureRedisPassword makes the Secret with Redis' password where it is missing. Argo CD's own way is a Job before the install; a Secret that is there
// already is never touched, since every component has read it.
func (a *ArgoCD) ensureRedisPassword(ctx context.Context) error {
	objects := a.hub.dynamic.Resource(secrets).Namespace(Namespace)
	_, err := objects.Get(ctx, redisSecret, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		return wrap("secret "+redisSecret, err)
	}
	meta := map[string]any{"name": redisSecret, "namespace": Namespace, "labels": a.labels("engine")}
	_, err = objects.Create(ctx, secret(meta, map[string]string{"auth": rand.Text()}), metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return wrap("secret "+redisSecret, err)
}

// duration is how long something took, as a person says it.
func duration(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
}
