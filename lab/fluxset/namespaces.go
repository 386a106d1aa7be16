package fluxset

import (
	"cmp"
	"fmt"
	"slices"

	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// leaveOutHomeless leaves out mounted applications with an object, or a release, in a namespace that does not exist and that nothing creates.
func (x *expander) leaveOutHomeless() {
	if x.Namespaces == nil {
		return
	}
	all := slices.Concat(x.Roots, x.Applications)
	made := func(remote, name string) bool {
		existing := x.Namespaces(cmp.Or(remote, x.Scope.Home))
		return existing == nil || slices.Contains(existing, name) || slices.ContainsFunc(all, func(a Application) bool {
			return x.mayCreateNamespaces(a, remote) || a.Elsewhere != "" || a.Missing != "" ||
				a.Remote == remote && slices.ContainsFunc(a.Objects, func(o render.Document) bool {
					return strict.Text(o.Node, "kind") == "Namespace" && strict.Text(o.Node, "metadata", "name") == name
				}) ||
				slices.ContainsFunc(a.Releases, func(r Release) bool {
					return r.Remote == remote && r.TargetNamespace == name && r.object.GetInstall().CreateNamespace
				})
		})
	}
	for _, list := range [][]Application{x.Roots, x.Applications} {
		for i := range list {
			a := &list[i]
			if !a.mounted {
				continue
			}
			for _, o := range a.Objects {
				if name := strict.Text(o.Node, "metadata", "namespace"); name != "" && !ignored(o.Node) && !made(a.Remote, name) {
					a.stall(fmt.Sprintf("%s is in namespace %s, which nothing creates", strict.Title(o.Node), name))
				}
			}
			for _, r := range a.Releases {
				if !r.Suspended && !made(r.Remote, r.TargetNamespace) {
					a.LeftOut = cmp.Or(a.LeftOut, fmt.Sprintf("HelmRelease %s is for namespace %s, which nothing creates", r.Name, r.TargetNamespace))
				}
			}
		}
	}
}

// mayCreateNamespaces reports whether an application may create namespaces that are not in its manifests: with a role that creates objects, or with a release whose chart is
// elsewhere or mentions them.
func (x *expander) mayCreateNamespaces(a Application, remote string) bool {
	return a.Remote == remote && slices.Contains(needs.Provides(a.Objects, ""), needs.CreatesObjects) || slices.ContainsFunc(a.Releases, func(r Release) bool {
		return r.Remote == remote && x.mentions(r, "kind: Namespace")
	})
}
