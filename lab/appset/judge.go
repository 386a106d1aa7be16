package appset

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"homelab/lab/strict"
)

// syncPath is the CRD's pattern for the folder of a hydrated source: not the repository's root.
var syncPath = regexp.MustCompile(`^.{2,}|[^./]$`)

// validate separates Applications that the controller or the API server rejects.
func (x *expander) validate(all []Application) *Expansion {
	out := &Expansion{}
	known := x.registered()
	wrong := map[string]Invalid{}
	seen := map[string]bool{}
	refuse := func(app *Application, reason, message, cure string, path ...string) {
		wrong[app.Metadata.Name] = Invalid{
			Name: app.Metadata.Name, Reason: reason, Message: message, Cure: cure,
			Position: strict.Position(x.File, cmp.Or(templateNode(app.origin.template, x.node, path), x.node)), Destination: app.Spec.Destination,
		}
	}
	for i := range all {
		app := &all[i]
		name := app.Metadata.Name
		if seen[name] { // all of them are rejected
			refuse(app, ReasonInvalid, fmt.Sprintf("several applications are named %s", name), "include a distinct parameter in metadata.name, or select fewer clusters", "metadata", "name")
			twice := wrong[name]
			twice.Twice = true
			wrong[name] = twice
			continue
		}
		seen[name] = true
		if x.Project != nil && !x.Project(app.Spec.Project) || app.Spec.Project == "" {
			refuse(app, ReasonInvalid, fmt.Sprintf("project %q does not exist", app.Spec.Project), "add an AppProject of that name to a folder that the root syncs", "spec", "project")
			continue
		}
		cluster, err := destination(app.Spec.Destination, known)
		if err != nil {
			refuse(app, ReasonInvalid, err.Error(), "name a cluster of the estate, or set its spec.server to this address", "spec", "destination")
			continue
		}
		app.Cluster = cluster
	}
	for _, app := range all {
		name := app.Metadata.Name
		if _, ok := wrong[name]; ok {
			continue
		}
		if errs := validateMetadata(app.Metadata); len(errs) > 0 {
			refuse(&app, ReasonRefused, errs.ToAggregate().Error(), "", "metadata")
			continue
		}
		if h := app.Spec.SourceHydrator; h != nil && !syncPath.MatchString(h.SyncSource.Path) {
			refuse(&app, ReasonRefused, h.SyncSource.Path+" is not a folder to sync from", "", "spec", "sourceHydrator", "syncSource", "path")
			continue
		}
		dropEmpty(&app.Spec)
		out.Applications = append(out.Applications, app)
	}
	for _, i := range wrong {
		out.Invalid = append(out.Invalid, i)
	}
	slices.SortFunc(out.Applications, func(a, b Application) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortFunc(out.Invalid, func(a, b Invalid) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Destination returns the name of the destination cluster.
func (w World) Destination(d Destination) (string, error) { return destination(d, w.registered()) }

func destination(d Destination, known []Cluster) (string, error) {
	switch {
	case d.Name != "" && d.Server != "":
		return "", fmt.Errorf("a destination has a name or a server, not both: %s, %s", d.Name, d.Server)
	case d.Name == "" && d.Server == "":
		return "", errors.New("no destination: neither name nor server")
	}
	var names []string
	for _, c := range known { // registered servers have no trailing slash
		if d.Name != "" && c.Name == d.Name || d.Server != "" && c.Server == d.Server {
			names = append(names, c.Name)
		}
	}
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("no cluster %s%s is registered", d.Name, d.Server)
	case len(names) > 1 && d.Name != "":
		return "", fmt.Errorf("%d clusters are named %s", len(names), d.Name)
	}
	return names[0], nil
}

// registered returns the clusters known to Argo CD, including its own.
func (w World) registered() []Cluster {
	list := make([]Cluster, 0, len(w.Clusters)+1)
	local := false
	for _, c := range w.Clusters {
		c.Server = strings.TrimRight(c.Server, "/")
		local = local || c.Server == InCluster
		list = append(list, c)
	}
	if !local {
		list = append(list, Cluster{Name: InClusterName, Server: InCluster})
	}
	return list
}

// validateMetadata returns why an API server would reject the metadata.
func validateMetadata(m Metadata) field.ErrorList {
	at := field.NewPath("metadata")
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(m.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), m.Name, message))
	}
	errs = append(errs, metavalidation.ValidateLabels(m.Labels, at.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(m.Annotations, at.Child("annotations"))...)
	for _, f := range m.Finalizers {
		errs = append(errs, apivalidation.ValidateFinalizerName(f, at.Child("finalizers"))...)
	}
	return errs
}

// dropEmpty removes empty fields, like the controller. Like it, it works on copies of multiple sources, which keep theirs.
func dropEmpty(s *Spec) {
	if s.SyncPolicy != nil && s.SyncPolicy.empty() {
		s.SyncPolicy = nil
	}
	if len(s.Sources) > 0 || s.Source == nil {
		return
	}
	source := *s.Source
	if source.Kustomize != nil && source.Kustomize.empty() {
		source.Kustomize = nil
	}
	if source.Helm != nil && source.Helm.empty() {
		source.Helm = nil
	}
	if d := source.Directory; d != nil && d.empty() {
		source.Directory = nil
		if d.Exclude != "" || d.Include != "" {
			source.Directory = &Directory{Exclude: d.Exclude, Include: d.Include}
		}
	}
	s.Source = &source
}
