package reconciliation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab/engine"
)

var (
	externalArtifacts  = sourcev1.GroupVersion.WithResource("externalartifacts")
	artifactGenerators = swapi.GroupVersion.WithResource("artifactgenerators")
	ociRepositories    = sourcev1.GroupVersion.WithResource("ocirepositories")
	buckets            = sourcev1.GroupVersion.WithResource("buckets")
)

// generated is the state of source-watcher and its sources.
type generated struct {
	generators map[types.NamespacedName]swapi.ArtifactGenerator
	artifacts  map[types.NamespacedName]sourcev1.ExternalArtifact
	fetched    map[string]*meta.Artifact // fetched artifacts of sources, by kind and name
}

// readGenerated reads the objects of source-watcher, if installed.
func (v *View) readGenerated(ctx context.Context, client dynamic.Interface) error {
	v.generators, v.artifacts = map[types.NamespacedName]swapi.ArtifactGenerator{}, map[types.NamespacedName]sourcev1.ExternalArtifact{}
	err := listInto(ctx, client, artifactGenerators, func(o swapi.ArtifactGenerator) { v.generators[keyOf(&o)] = o })
	if err != nil || len(v.generators) == 0 {
		return err
	}
	v.fetched = map[string]*meta.Artifact{}
	note := func(kind string, o metav1.Object, a *meta.Artifact) { v.fetched[kind+" "+keyOf(o).String()] = a }
	for _, s := range v.sources {
		note(sourcev1.GitRepositoryKind, &s, s.Status.Artifact)
	}
	for _, c := range v.charts {
		note(sourcev1.HelmChartKind, &c, c.Status.Artifact)
	}
	err = listInto(ctx, client, externalArtifacts, func(o sourcev1.ExternalArtifact) {
		v.artifacts[keyOf(&o)] = o
		note(sourcev1.ExternalArtifactKind, &o, o.Status.Artifact)
	})
	if err == nil {
		err = listInto(ctx, client, ociRepositories, func(o sourcev1.OCIRepository) { note(sourcev1.OCIRepositoryKind, &o, o.Status.Artifact) })
	}
	if err == nil {
		err = listInto(ctx, client, buckets, func(o sourcev1.Bucket) { note(sourcev1.BucketKind, &o, o.Status.Artifact) })
	}
	return err
}

// artifactOf returns the artifact that a Kustomization applies; false for other sources, or none yet.
func (v View) artifactOf(k kustomizev1.Kustomization) (sourcev1.ExternalArtifact, bool) {
	ref := k.Spec.SourceRef
	a, ok := v.artifacts[types.NamespacedName{Namespace: cmp.Or(ref.Namespace, k.Namespace), Name: ref.Name}]
	return a, ok && ref.Kind == sourcev1.ExternalArtifactKind
}

// behind returns why a Kustomization has not applied the artifact of the wanted commits, or "".
func (v View) behind(k kustomizev1.Kustomization, want engine.Want) string {
	if reason := v.unmade(k, want); reason != "" {
		return reason
	}
	a, _ := v.artifactOf(k)
	if applied(k) == a.Status.Artifact.Revision {
		return ""
	}
	return cmp.Or(failure(k.Status.Conditions), "is not at the latest artifact")
}

// unmade returns why a Kustomization's artifact does not contain the wanted commits, or "".
func (v View) unmade(k kustomizev1.Kustomization, want engine.Want) string {
	a, ok := v.artifactOf(k)
	if !ok || a.Status.Artifact == nil {
		return fmt.Sprintf("artifact %s does not exist yet%s", k.Spec.SourceRef.Name, v.generatorFailure(k.Spec.SourceRef.Name, cmp.Or(k.Spec.SourceRef.Namespace, k.Namespace)))
	}
	ref := a.Spec.SourceRef
	if ref == nil || ref.Kind != swapi.ArtifactGeneratorKind {
		return "" // of another generator
	}
	g, ok := v.generators[types.NamespacedName{Namespace: cmp.Or(ref.Namespace, a.Namespace), Name: ref.Name}]
	if !ok {
		return ""
	}
	return v.ungenerated(g, want, nil)
}

// generatorFailure returns why a generator fails to create an artifact, or "".
func (v View) generatorFailure(artifact, namespace string) string {
	for _, g := range v.generators {
		names := slices.ContainsFunc(g.Spec.OutputArtifacts, func(o swapi.OutputArtifact) bool { return o.Name == artifact })
		if text := failure(g.Status.Conditions); g.Namespace == namespace && names && text != "" {
			return ": " + text
		}
	}
	return ""
}

// ungenerated returns why a generator has not processed the wanted commits, or "". of are its artifacts' users.
func (v View) ungenerated(g swapi.ArtifactGenerator, want engine.Want, of []types.NamespacedName) string {
	observed := map[string]swapi.ObservedSource{}
	for _, s := range g.Spec.Sources {
		key := types.NamespacedName{Namespace: cmp.Or(s.Namespace, g.Namespace), Name: s.Name}
		if repository, ok := v.sources[key]; ok && s.Kind == sourcev1.GitRepositoryKind && has(repository) != v.wanted(repository, want) {
			return v.notFetched(repository, want)
		}
		if made, ok := v.artifacts[key]; ok && s.Kind == sourcev1.ExternalArtifactKind && made.Spec.SourceRef != nil && !slices.Contains(of, keyOf(&g)) {
			under, known := v.generators[types.NamespacedName{Namespace: made.Namespace, Name: made.Spec.SourceRef.Name}]
			if reason := v.ungenerated(under, want, append(of, keyOf(&g))); known && reason != "" {
				return reason
			}
		}
		a := v.fetched[s.Kind+" "+key.String()]
		if a == nil {
			return fmt.Sprintf("%s %s is not fetched yet", s.Kind, s.Name)
		}
		observed[s.Alias] = swapi.ObservedSource{Digest: a.Digest, Revision: a.Revision, URL: a.URL}
	}
	if text := failure(g.Status.Conditions); text != "" {
		return "artifact generator " + g.Name + ": " + text
	}
	if g.Status.ObservedSourcesDigest != swapi.HashObservedSources(observed) {
		return "artifact generator " + g.Name + " has not processed the fetched sources yet"
	}
	return ""
}

// notFetched returns why a repository is not at the wanted commit, or "".
func (v View) notFetched(s sourcev1.GitRepository, want engine.Want) string {
	if text := failure(s.Status.Conditions); text != "" {
		return "repository " + s.Name + ": " + text
	}
	return fmt.Sprintf("repository %s is at %.7s, wanted %.7s", s.Name, has(s), v.wanted(s, want))
}

// askGenerators requests failed generators again.
func (a *Asker) askGenerators(ctx context.Context, v View) error {
	for _, key := range slices.SortedFunc(maps.Keys(v.generators), compareKeys) {
		g := v.generators[key]
		if failure(g.Status.Conditions) == "" {
			continue
		}
		if err := a.ask(ctx, artifactGenerators, &g, g.Status.GetLastHandledReconcileRequest(), againAfter); err != nil {
			return err
		}
	}
	return nil
}
