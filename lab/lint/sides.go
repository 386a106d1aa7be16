package lint

import (
	"cmp"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/estate"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

// located is an object on a cluster.
type located struct{ cluster, id string }

// sides finds what a Kustomization or a HelmRelease for a remote cluster needs on one cluster, and the files have on the other: namespaces are needed where its objects
// are, ConfigMaps and Secrets where Flux is.
func (l *linter) sides() {
	hub := l.Estate.Hub()
	if hub.Engine.Type != lab.EngineFlux || hub.Engine.Everywhere() {
		return
	}
	at := map[located]lab.Position{}
	for _, c := range l.Estate.Clusters {
		for _, name := range estate.Namespaces(l.Estate, c.Name) {
			at[located{c.Name, "Namespace " + name}] = c.Position("metadata.name")
		}
		at[located{hub.Name, "Namespace " + flux.NamespaceOf(c.Name)}] = hub.Position("metadata.name")
	}
	remotes := map[string]string{} // by Kustomization, as in units
	for _, a := range l.apps {
		for _, o := range a.objects {
			at[located{o.Cluster, o.ID()}] = lab.Position{File: o.File, Line: o.Line}
		}
		manifest, _ := a.Manifest.(map[string]any)
		metadata, _ := manifest["metadata"].(map[string]any)
		for _, p := range a.Parts[:min(1, len(a.Parts))] {
			remotes[fmt.Sprint("Kustomization ", metadata["namespace"], "/", metadata["name"])] = p.Cluster
		}
	}
	unsure := map[string]bool{} // clusters that may get other namespaces
	for _, a := range l.apps {
		for _, o := range a.objects {
			if o.Cluster != hub.Name || strict.Text(o.Node, "spec", "install", "createNamespace") != "true" {
				continue
			}
			target := cmp.Or(strict.Text(o.Node, "spec", "targetNamespace"), strict.Text(o.Node, "metadata", "namespace"))
			at[located{remoteOf(a, o, remotes), "Namespace " + target}] = lab.Position{File: o.File, Line: o.Line}
		}
		for _, p := range a.Parts {
			unsure[p.Cluster] = unsure[p.Cluster] || !a.complete
		}
	}
	for _, a := range l.apps {
		for _, o := range a.objects {
			if o.Cluster != hub.Name || strict.Get(o.Node, "spec", "kubeConfig") == nil {
				continue
			}
			remote := remoteOf(a, o, remotes)
			c, known := l.Estate.Cluster(remote)
			if !known || remote == hub.Name || c.Provider == lab.ProviderExisting {
				continue
			}
			for name, n := range namespacesOf(o) {
				here, elsewhere := at[located{hub.Name, "Namespace " + name}]
				if _, there := at[located{remote, "Namespace " + name}]; there || !elsewhere || unsure[remote] && name != strict.Text(o.Node, "metadata", "namespace") {
					continue
				}
				position, _ := l.place(a, o, n, "")
				l.add(finding.Finding{
					Rule: finding.OtherSide, Position: position, Subject: finding.Subject{Cluster: remote, Application: a.Name, Object: o.ID()},
					Message: fmt.Sprintf("%s needs namespace %s on %s, and it is on %s (%s)", o.ID(), name, remote, hub.Name, here),
					Cure:    fmt.Sprintf("create the namespace on %s: a HelmRelease with install.createNamespace creates its targetNamespace there", remote),
				})
			}
		}
		if a.Layers == nil {
			continue
		}
		for _, layer := range a.Layers() {
			for _, c := range l.Estate.Clusters {
				there, elsewhere := at[located{c.Name, layer.Object}]
				if layer.Object == "" || layer.Exists || !elsewhere || c.Name == hub.Name {
					continue
				}
				l.add(finding.Finding{
					Rule: finding.OtherSide, Position: layer.At, Subject: finding.Subject{Cluster: c.Name, Application: a.Name},
					Message: fmt.Sprintf("Flux reads %s on %s, and it is on %s (%s)", layer.Object, hub.Name, c.Name, there),
					Cure:    fmt.Sprintf("apply it to %s: values are read where Flux runs, whatever cluster spec.kubeConfig names", hub.Name),
				})
			}
		}
	}
}

// remoteOf returns the cluster of the objects of a Kustomization or a HelmRelease.
func remoteOf(a application, o desired.Object, kustomizations map[string]string) string {
	for _, p := range a.Parts {
		if p.Name != "" && "HelmRelease "+p.Name == o.ID() {
			return p.Cluster
		}
	}
	return kustomizations[o.ID()]
}

// namespacesOf returns the namespaces that an object of Flux needs on the cluster of its objects and does not create, with the fields that name them.
func namespacesOf(o desired.Object) map[string]*yaml.Node {
	list := map[string]*yaml.Node{}
	if strict.Text(o.Node, "spec", "suspend") == "true" {
		return nil
	}
	own := strict.Get(o.Node, "metadata", "namespace")
	target, storage := strict.Get(o.Node, "spec", "targetNamespace"), strict.Get(o.Node, "spec", "storageNamespace")
	add := func(n *yaml.Node) {
		if n != nil && n.Value != "" {
			list[n.Value] = n
		}
	}
	if strict.Text(o.Node, "kind") != helmv2.HelmReleaseKind {
		add(target)
		return list
	}
	target = cmp.Or(target, own)
	add(cmp.Or(storage, own))
	if add(target); target != nil && strict.Text(o.Node, "spec", "install", "createNamespace") == "true" {
		delete(list, target.Value)
	}
	return list
}
