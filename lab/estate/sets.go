package estate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/bridge"
	"homelab/lab/estate/judge"
	"homelab/lab/estate/project"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// NamespaceOf returns the namespace of the estate's engine.
func NamespaceOf(e *lab.Estate) string { return cmp.Or(e.Hub().Engine.Namespace, argo.Namespace) }

// initial are the namespaces of a new cluster.
var initial = []string{"default", "kube-system", "kube-public", "kube-node-lease", "local-path-storage"}

// Namespaces returns the namespaces of a cluster without Applications.
func Namespaces(e *lab.Estate, cluster string) []string {
	c, _ := e.Cluster(cluster)
	names := slices.Concat(initial, c.Namespaces)
	if c.Role == lab.RoleHub {
		names = append(names, NamespaceOf(e))
	}
	return names
}

type set struct {
	*appset.Set
	addon  string
	manual string // manually synced application above it, or empty
	wave   judge.Wave

	strategy *yaml.Node // or nil
}

// registrations returns clusters as registered in the hub, sorted by name like their Secrets.
func registrations(e *lab.Estate, clusters []lab.Cluster) []appset.Cluster {
	in := bridge.InputsOf(e)
	var list []appset.Cluster
	for _, c := range clusters {
		reg := bridge.Registered(e, c, in)
		list = append(list, appset.Cluster{Name: c.Name, Server: reg.Server, Labels: lab.Strings(reg.Labels), Annotations: lab.Strings(reg.Annotations)})
		list[len(list)-1].Labels[argo.SecretType] = argo.SecretTypeCluster
	}
	slices.SortFunc(list, func(a, b appset.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// World returns the inputs for expanding the estate's ApplicationSets.
func World(e *lab.Estate, clusters []lab.Cluster) appset.World {
	in := bridge.InputsOf(e)
	in.Mounts = slices.Clone(in.Mounts) // sets are expanded in parallel
	return appset.World{
		Minor:     MinorOf(e),
		Namespace: NamespaceOf(e),
		Clusters:  registrations(e, clusters),
		Repository: func(url, revision string) (fs.FS, error) {
			r, ok := in.Mounted(url)
			switch {
			case url == in.RepoURL || ok && r.Dir == ".":
				if why := missingRevision(e, revision); why != "" {
					return nil, &appset.AbsentError{Reason: why}
				}
				return e.FS, nil
			case !ok:
				return nil, nil // not in the files
			}
			at, err := r.Of(revision)
			if err != nil {
				return nil, &appset.AbsentError{Reason: err.Error()}
			}
			return at.FS, nil
		},
	}
}

// allAddons returns a cluster with all addons enabled.
func allAddons(c lab.Cluster, addons []lab.Addon) lab.Cluster {
	c.Addons = map[string]bool{}
	for _, a := range addons {
		c.Addons[a.Name] = true
	}
	return c
}

// withAllAddons returns the estate's clusters with all addons enabled.
func (l *loader) withAllAddons() []lab.Cluster {
	list := make([]lab.Cluster, 0, len(l.estate.Clusters))
	for _, c := range l.estate.Clusters {
		list = append(list, allAddons(c, l.estate.Addons))
	}
	return list
}

// selected records for each cluster the addons whose ApplicationSets select it, if known.
func (l *loader) selected() {
	w := World(l.estate, l.estate.Clusters)
	for i := range l.estate.Clusters {
		l.estate.Clusters[i].Selected = map[string]bool{}
	}
	for _, a := range l.estate.Addons {
		picked := map[string]bool{}
		known := false
		for _, s := range l.sets {
			if s.addon != a.Name {
				continue
			}
			of, err := s.Selects(w)
			if known = err == nil && !s.selectsByEngine(); !known {
				break
			}
			maps.Copy(picked, of)
		}
		for i := range l.estate.Clusters {
			if c := &l.estate.Clusters[i]; known {
				c.Selected[a.Name] = picked[c.Name]
			}
		}
	}
}

// expand expands the estate's ApplicationSets on its clusters, as they are and with every addon enabled.
func (l *loader) expand() {
	actual, all := l.world(), World(l.estate, l.withAllAddons())
	unsure := l.unsure // final, but application sets it again while sets are expanded
	actual.Project = func(name string) bool { return unsure || name == "" || l.projects[name].Known }
	l.rootProjects()
	owners := map[string]string{} // application -> file
	for _, root := range l.rootApplications() {
		owners[strict.Text(root.Node, "metadata", "name")] = lab.RootFile
	}
	known := map[string]bool{} // addons whose sets could be expanded
	for _, s := range l.sets {
		known[s.addon] = true
	}
	type expanded struct {
		actual   *appset.Expansion
		possible []lab.Application
		err      error
	}
	expand := func(i int) (x expanded) {
		s := l.sets[i]
		if s.selectsByEngine() {
			return x
		}
		if x.actual, x.err = s.Expand(actual.World); x.err != nil {
			return x
		}
		if possible, err := s.Expand(all); err == nil {
			for _, app := range possible.Applications {
				x.possible = append(x.possible, observed(s, &app))
			}
		}
		return x
	}
	appset.InOrder(len(l.sets), expand, func(i int, x expanded) {
		s := l.sets[i]
		if x.err != nil {
			l.expandFailed(s, x.err)
		}
		if x.actual == nil {
			known[s.addon] = false
			return
		}
		l.estate.Notes = append(l.estate.Notes, x.actual.Notes...)
		for _, i := range x.actual.Invalid {
			l.rejected(s, i)
		}
		for i := range x.actual.Applications {
			l.application(s, &x.actual.Applications[i], owners)
		}
		l.estate.Possible = append(l.estate.Possible, x.possible...)
	})
	for url := range actual.read {
		l.served(url)
	}
	for _, app := range l.plain {
		l.plainApplication(app, actual.World, owners)
	}
	for i := range l.estate.Clusters {
		c := &l.estate.Clusters[i]
		for addon, ok := range known {
			if ok {
				c.Selected[addon] = slices.ContainsFunc(l.estate.Applications, func(a lab.Generated) bool { return a.Addon == addon && a.Cluster == c.Name })
			}
		}
	}
	for i := range l.estate.Addons {
		a := &l.estate.Addons[i]
		of := func(g lab.Generated) bool { return g.Addon == a.Name }
		others := func(g lab.Generated) bool { return of(g) && !g.Leads }
		a.Leads = slices.ContainsFunc(l.estate.Applications, of) && !slices.ContainsFunc(l.estate.Applications, others)
	}
	l.unselected(known)
}

// expandFailed reports why a set was not expanded. Only a note if the running engine is needed.
func (l *loader) expandFailed(s set, err error) {
	var unknown *appset.UnknownError
	var fault *appset.Error
	switch {
	case errors.As(err, &unknown):
		message := "only the running engine knows what a " + unknown.What + " generates"
		if unknown.Reason != "" {
			message = "unknown output of a " + unknown.What + ": " + unknown.Reason
		}
		l.note(finding.UnknownOutput, unknown.Position, message, "lab does not wait for it")
		l.estate.UnknownSets = append(l.estate.UnknownSets, lab.UnknownSet{Name: s.Name, At: unknown.Position, Why: message})
	case errors.As(err, &fault):
		for _, p := range fault.Problems {
			if !l.isOwn(p.File) {
				why := "the set generates nothing: " + p.Message
				if p.Cure != "" {
					why += ": " + p.Cure
				}
				l.addLeftOut(s.wave, lab.Generated{At: p.Position, Application: lab.Application{Name: lab.SetName(s.Name), Addon: s.addon, LeftOut: why}})
				return
			}
			l.addProblem(p)
		}
	default:
		l.addProblem(lab.Problem{Code: finding.InvalidSet, Position: lab.Position{File: s.File}, Message: err.Error()})
	}
}

// addProblem adds a problem unless its line already has one.
func (l *loader) addProblem(p lab.Problem) {
	if !slices.ContainsFunc(l.problems, func(q lab.Problem) bool { return q.File == p.File && q.Line == p.Line && (p.Line > 0 || q == p) }) {
		l.problems = append(l.problems, p)
	}
}

func observed(s set, app *appset.Application) lab.Application {
	return lab.Application{Name: app.Metadata.Name, Addon: s.addon, Cluster: app.Cluster, Namespace: app.Spec.Destination.Namespace}
}

// application adds a generated Application.
func (l *loader) application(s set, app *appset.Application, owners map[string]string) {
	name := app.Metadata.Name
	if other, ok := owners[name]; ok {
		l.second(name, other, app.Origins("metadata", "name")[0].Position)
		return
	}
	owners[name] = s.File
	g := lab.Generated{Application: observed(s, app), At: app.Origins("metadata", "name")[0].Position}
	known := l.begin(&g, &app.Template, s.manual, s.wave)
	known.Strategy = s.strategy
	l.checkPaths(app)
	for i, source := range app.Spec.All() {
		of, r := l.addSource(&g, &app.Template, source, func(path ...string) lab.Position { return place(app, sourceField(&app.Template, i, path...)...) })
		if known.Sources = append(known.Sources, of); of.NoFolder == "" || source.Path == "" {
			continue
		}
		origins := app.Origins(sourceField(&app.Template, i, "path")...)
		if r == nil || slices.ContainsFunc(origins, func(o appset.Origin) bool { return l.isOwn(o.Position.File) }) {
			l.addProblem(lab.Problem{Code: finding.PathMissing, Position: append(origins, app.Origins("metadata", "name")...)[0].Position, Message: of.NoFolder, Cure: "create it, or correct the path"})
		}
	}
	known.Judge(l.estate, &g)
	l.want(&g, &app.Template, func(source int, path []string) []lab.Position { return l.origins(app, source, path) })
	l.apps[len(l.apps)-1].Set, l.apps[len(l.apps)-1].Matches = s.Name, app.Matches()
	if policy := s.Spec.SyncPolicy; policy != nil && !policy.Deletes() {
		l.apps[len(l.apps)-1].Kept = "its ApplicationSet keeps Applications (applicationsSync: " + *policy.ApplicationsSync + ")"
	}
	if policy := s.Spec.SyncPolicy; policy != nil && !policy.Updates() {
		l.apps[len(l.apps)-1].Fixed = "its ApplicationSet does not update Applications (applicationsSync: " + *policy.ApplicationsSync + ")"
	}
	l.estate.Applications = append(l.estate.Applications, g)
}

// begin returns what an Application's own fields say, besides its sources. above is the manually synced application above it.
func (l *loader) begin(g *lab.Generated, app *appset.Template, above string, w judge.Wave) judge.Application {
	g.Leads = l.leads(app, g.At)
	l.writesBack(app.Metadata.Annotations[argo.WriteBackMethod])
	replaces := above == "" && l.replaces(app, g.At)
	for _, t := range l.trees(app, "", g.At) {
		g.Syncs = append(g.Syncs, t.key())
	}
	g.Folder, g.Wave = w.Folder, w.Number
	return judge.Application{Template: app, Minor: MinorOf(l.estate), Above: above, Replaces: replaces, Project: l.projects[project.Of(app)], Rendered: l.component != nil}
}

// addSource adds what an Application needs of a source, and returns what is known of it, and its repository if mounted. at returns the position of a field of the source.
func (l *loader) addSource(g *lab.Generated, app *appset.Template, source appset.Source, at func(path ...string) lab.Position) (judge.Source, *lab.Repository) {
	charts := l.inputs().ChartRepoURL
	if source.Chart != "" {
		chart := lab.ChartUse{Name: source.Chart, Version: source.TargetRevision, Repository: source.RepoURL, At: at("targetRevision")}
		if source.RepoURL == charts {
			chart.Repository = ""
		}
		g.Charts = append(g.Charts, chart)
	}
	r, ours := l.served(source.RepoURL)
	g.Mounted = g.Mounted || r != nil || !l.isOwn(g.At.File)
	if !ours && source.RepoURL != charts && !slices.Contains(g.Others, source.RepoURL) {
		g.Others = append(g.Others, source.RepoURL)
	}
	l.fetches(g, r, ours, source)
	of := l.sourceObjects(g, app, source, at)
	if of.Mounted, of.NoFolder = g.Mounted, l.badPath(r, ours, source); source.Chart == "" {
		of.Unread = l.unreadableSource(source.RepoURL, source.TargetRevision)
	}
	return of, r
}

// plainApplication adds an Application that no ApplicationSet generates.
func (l *loader) plainApplication(app plainApplication, w appset.World, owners map[string]string) {
	name := app.Metadata.Name
	other, ok := owners[name]
	if ok && other == lab.RootFile && app.file != lab.RootFile && l.isRoot(app) {
		owners[name] = app.file
		return // synced by itself; lab applies and judges it as the root
	}
	if ok && !(other == lab.RootFile && l.isRoot(app)) {
		l.second(name, other, app.at)
		return
	}
	owners[name] = app.file
	cluster, err := w.Destination(app.Spec.Destination)
	if err != nil && l.isOwn(app.at.File) {
		l.addProblem(lab.Problem{Code: finding.UnknownDestination, Position: app.at, Message: fmt.Sprintf("application %s: %v", name, err), Cure: "name a cluster of the estate, or set its spec.server to this address"})
		return
	}
	if err != nil {
		l.addLeftOut(app.wave, lab.Generated{At: app.at, Application: lab.Application{Name: name, Addon: name, LeftOut: err.Error()}})
		return
	}
	if l.isMissing(app.Spec.Project) && l.isOwn(app.at.File) {
		l.addProblem(lab.Problem{Code: finding.ProjectMissing, Position: app.at, Message: fmt.Sprintf("application %s: project %q does not exist", name, app.Spec.Project), Cure: "add an AppProject of that name to a folder that the root syncs"})
		return
	}
	g := lab.Generated{At: app.at, Application: lab.Application{Name: name, Addon: name, Cluster: cluster, Namespace: app.Spec.Destination.Namespace}}
	known := l.begin(&g, app.Template, app.manual, app.wave)
	known.Plain = true
	for i, source := range app.Spec.All() {
		of, _ := l.addSource(&g, app.Template, source, func(path ...string) lab.Position { return app.position(i, path) })
		if known.Sources = append(known.Sources, of); of.NoFolder != "" && l.isOwn(app.at.File) && source.Path != "" {
			l.addProblem(lab.Problem{Code: finding.PathMissing, Position: app.at, Message: fmt.Sprintf("application %s: %s", name, of.NoFolder), Cure: "create it, or correct the path"})
		}
	}
	known.Judge(l.estate, &g)
	l.want(&g, app.Template, func(source int, path []string) []lab.Position { return []lab.Position{app.position(source, path)} })
	l.estate.Applications = append(l.estate.Applications, g)
}

// place returns the position of a field's value: that of a lone parameter, or else of the template.
func place(app *appset.Application, field ...string) lab.Position {
	origins := app.Origins(field...)
	switch {
	case len(origins) == 0:
		return lab.Position{}
	case len(origins) == 2 && origins[1].Exact:
		return origins[1].Position
	}
	return origins[0].Position
}

// rejected adds an Application that Argo CD rejects: a problem of the estate's own sets, left out of those in other repositories.
func (l *loader) rejected(s set, i appset.Invalid) {
	if l.isOwn(s.File) {
		code := finding.InvalidApplication
		if i.Twice {
			code = finding.DuplicateName
		}
		l.addProblem(lab.Problem{Code: code, Position: i.Position, Message: fmt.Sprintf("application %s: %s", i.Name, i.Message), Cure: i.Cure})
		return
	}
	l.addLeftOut(s.wave, lab.Generated{At: i.Position, Set: s.Name, Application: lab.Application{Name: i.Name, Addon: s.addon, LeftOut: i.Message}})
}

// second is rejected for an Application whose name another has.
func (l *loader) second(name, owner string, at lab.Position) {
	if l.isOwn(at.File) || l.isOwn(owner) {
		l.addProblem(lab.Problem{Code: finding.DuplicateName, Position: at, Message: "a second application " + name, Cure: "the name is taken by " + owner})
		return
	}
	l.note(finding.DuplicateName, at, fmt.Sprintf("a second application %s: the name is taken by %s", name, owner), "the first is waited for")
}

// addLeftOut adds an Application without a cluster of the estate.
func (l *loader) addLeftOut(w judge.Wave, g lab.Generated) {
	g.Cluster, g.Blocks, g.State = l.estate.Hub().Name, true, lab.Absent
	g.Folder, g.Wave = w.Folder, w.Number
	l.estate.Applications = append(l.estate.Applications, g)
}
