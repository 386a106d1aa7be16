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

// namesakes returns the parameters of the Applications of a name, and how to tell them apart.
func namesakes(all []Application, name string) (same []paramSet, cure string) {
	cure = "include a parameter in metadata.name that tells them apart"
	git := func(c contribution) bool { return c.generator == "git" }
	for _, app := range all {
		if app.Metadata.Name == name {
			same = append(same, app.origin.params)
		}
	}
	switch {
	case !slices.ContainsFunc(same[0].from, git):
		cure += ", such as a cluster's name"
	case slices.ContainsFunc(same[0].from, func(c contribution) bool { return c.pattern != "" }):
		cure += ", such as another part of the path; in the patterns of files, * matches / too"
	default:
		cure += ", such as another part of the path"
	}
	return same, cure
}

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
		if seen[name] && (name != "" || !x.Minor.Has(6)) { // all of them are rejected
			if wrong[name].Twice {
				continue
			}
			same, cure := namesakes(all, name)
			refuse(app, ReasonInvalid, fmt.Sprintf("several applications are named %s: those of %s", name, clashing(same)), cure, "metadata", "name")
			twice := wrong[name]
			twice.Twice = true
			wrong[name] = twice
			continue
		}
		seen[name] = true
		if name == "" && x.Minor.Has(6) {
			refuse(app, ReasonInvalid, "an application has no name", "set metadata.name in the template or in templatePatch", "metadata", "name")
			continue
		}
		if x.Project != nil && !x.Project(app.Spec.Project) || app.Spec.Project == "" {
			refuse(app, ReasonInvalid, fmt.Sprintf("project %q does not exist", app.Spec.Project), "add an AppProject of that name to a folder that the root syncs", "spec", "project")
			continue
		}
		cluster, err := x.destination(app.Spec.Destination, known)
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
		API{x.Minor}.conform(&app.Template)
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
func (w World) Destination(d Destination) (string, error) { return w.destination(d, w.registered()) }

func (w World) destination(d Destination, known []Cluster) (string, error) {
	switch {
	case d.Name != "" && d.Server != "":
		return "", fmt.Errorf("a destination has a name or a server, not both: %s, %s", d.Name, d.Server)
	case d.Name == "" && d.Server == "":
		return "", errors.New("no destination: neither name nor server")
	}
	if w.Minor.Has(3) {
		d.Server = strings.TrimRight(d.Server, "/")
	}
	var names []string
	for _, c := range known { // registered servers have no trailing slash
		if d.Name != "" && c.Name == d.Name || d.Server != "" && c.Server == d.Server {
			names = append(names, c.Name)
		}
	}
	if d.Name == InClusterName && len(names) == 0 && w.Minor.Has(3) { // whatever the registration of Argo CD's own cluster is called
		return w.destination(Destination{Server: InCluster}, known)
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

// dropEmpty removes empty fields, like the controller. Before 3.5, it worked on copies of multiple sources, which kept theirs.
func (a API) dropEmpty(s *Spec) {
	if s.SyncPolicy != nil && s.SyncPolicy.empty() {
		s.SyncPolicy = nil
	}
	switch {
	case len(s.Sources) > 0 && a.Minor.Has(5):
		s.Sources = slices.Clone(s.Sources)
		for i := range s.Sources {
			s.Sources[i] = s.Sources[i].withoutEmpty()
		}
	case len(s.Sources) == 0 && s.Source != nil:
		source := s.Source.withoutEmpty()
		s.Source = &source
	}
}

func (s Source) withoutEmpty() Source {
	if s.Kustomize != nil && s.Kustomize.empty() {
		s.Kustomize = nil
	}
	if s.Helm != nil && s.Helm.empty() {
		s.Helm = nil
	}
	if d := s.Directory; d != nil && d.empty() {
		s.Directory = nil
		if d.Exclude != "" || d.Include != "" {
			s.Directory = &Directory{Exclude: d.Exclude, Include: d.Include}
		}
	}
	return s
}
