package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// scaled finds workloads whose number of replicas both Git and a scaler set.
func (l *linter) scaled() {
	type key struct{ cluster, id string }
	scalers := map[key]string{}
	for _, a := range l.apps {
		for _, o := range a.objects {
			gk := kindOf(o).GroupKind()
			scales := gk.Group == "autoscaling" && gk.Kind == "HorizontalPodAutoscaler" || gk.Group == "keda.sh" && gk.Kind == "ScaledObject"
			if !scales || !needs.Applied(o.Document) {
				continue
			}
			ref := strict.Get(o.Node, "spec", "scaleTargetRef")
			kind := cmp.Or(strict.Text(ref, "kind"), "Deployment") // KEDA's default
			scalers[key{o.Cluster, kind + " " + strict.Text(o.Node, "metadata", "namespace") + "/" + strict.Text(ref, "name")}] = o.ID()
		}
	}
	for _, a := range l.apps {
		for _, o := range a.objects {
			replicas := strict.Get(o.Node, "spec", "replicas")
			by := scalers[key{o.Cluster, o.ID()}]
			if by == "" || replicas == nil || strict.IsNull(replicas) || yields(o.Node) || !builtin(o) {
				continue
			}
			gvk := kindOf(o)
			ignored := slices.ContainsFunc(a.manifest().Spec.IgnoreDifferences, func(d difference) bool {
				return render.Globs(d.Group, gvk.Group) && render.Globs(d.Kind, gvk.Kind) && fits(d.Name, o.Node, "name") && fits(d.Namespace, o.Node, "namespace") && d.replicas()
			})
			if ignored {
				continue
			}
			at, message := l.place(a, o, replicas, fmt.Sprintf("%s has spec.replicas %s, and %s scales it", o.ID(), replicas.Value, by))
			l.add(finding.Finding{Rule: finding.ReplicasScaled, Position: at, Message: message, Subject: finding.Subject{Cluster: o.Cluster, Application: a.Name, Object: o.ID()}})
		}
	}
}

// difference is an entry of ignoreDifferences.
type difference struct {
	Group, Kind, Name, Namespace                           string
	JSONPointers, JQPathExpressions, ManagedFieldsManagers []string
}

// replicas reports whether the entry may ignore the number of replicas.
func (d difference) replicas() bool {
	return slices.ContainsFunc(slices.Concat(d.JSONPointers, d.JQPathExpressions), func(p string) bool {
		p = strings.ReplaceAll(p, "/", ".")
		return p == ".spec" || strings.Contains(p, "replicas")
	}) || len(d.ManagedFieldsManagers) > 0
}
