package fluxset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// origins holds the applied sources, by "KIND NAMESPACE/NAME".
type origins struct {
	url   map[string]string
	of    map[string]*yaml.Node // objects, including HelmCharts
	files map[string]fs.FS      // files not ignored

	generators []*yaml.Node    // ArtifactGenerators
	made       map[string]tree // artifacts
}

// sources records sources and their addresses. A HelmChart has none.
func (x *expander) sources(objects []render.Document) {
	for _, o := range objects {
		if !strings.HasPrefix(strict.Text(o.Node, "apiVersion"), "source.toolkit.fluxcd.io/") && !IsGenerator(o.Node) {
			continue
		}
		of := strict.Text(o.Node, "kind") + " " + key(o.Node)
		if x.of[of] != nil || ignored(o.Node) {
			continue // the root's own, not the copy in Git
		}
		x.of[of] = o.Node
		if IsGenerator(o.Node) {
			x.generators = append(x.generators, o.Node)
		}
		if url := strict.Text(o.Node, "spec", "url"); url != "" {
			x.Sources[of] = url
		} else if endpoint := strict.Text(o.Node, "spec", "endpoint"); endpoint != "" {
			x.Sources[of] = "https://" + endpoint + "/" + strict.Text(o.Node, "spec", "bucketName")
		}
	}
}

// revision returns the revision of a source, by default Flux's for a GitRepository.
func (x *expander) revision(source string) string {
	revision := Revision(strict.Get(x.of[source], "spec", "ref"))
	if revision == "" && strings.HasPrefix(source, "GitRepository ") {
		return DefaultBranch
	}
	return revision
}

// DefaultBranch is the branch of a GitRepository without spec.ref.
const DefaultBranch = "master"

// Revision returns the revision in spec.ref of a source, or "".
func Revision(ref *yaml.Node) string {
	versions := strict.Text(ref, "semver")
	if _, err := semver.NewVersion(versions); err == nil { // the tag may be "v1.2.0"
		versions = "=" + versions
	}
	return cmp.Or(strict.Text(ref, "commit"), strict.Text(ref, "name"), versions, strict.Text(ref, "tag"), strict.Text(ref, "branch"))
}

// excludedGit are the files that source-controller always ignores, and excluded those that it ignores unless a .sourceignore or spec.ignore says anything:
// https://fluxcd.io/flux/components/source/gitrepositories/#excluding-files
var (
	excludedGit = strings.Fields(".git/ .gitignore .gitmodules .gitattributes")
	excluded    = strings.Fields("*.jpg *.jpeg *.gif *.png *.wmv *.flv *.tar.gz *.zip " +
		".github/ .circleci/ .travis.yml .gitlab-ci.yml appveyor.yml .drone.yml cloudbuild.yaml codeship-services.yml codeship-steps.yml " +
		"**/.goreleaser.yml **/.sops.yaml **/.flux.yaml")
)

// artifact returns a repository without the files that a source ignores.
func (x *expander) artifact(source string, fsys fs.FS) fs.FS {
	if known := x.files[source]; known != nil {
		return known
	}
	var patterns []gitignore.Pattern
	_ = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // reported when needed
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir() || e.Name() != ".sourceignore":
			return nil
		}
		data, _ := fs.ReadFile(fsys, name)
		var domain []string
		if dir := path.Dir(name); dir != "." {
			domain = strings.Split(dir, "/")
		}
		patterns = append(patterns, parsed(strings.Split(string(data), "\n"), domain)...)
		return nil
	})
	patterns = append(patterns, parsed(strings.Split(strict.Text(x.of[source], "spec", "ignore"), "\n"), nil)...)
	if len(patterns) == 0 {
		patterns = parsed(excluded, nil)
	}
	patterns = append(parsed(excludedGit, nil), patterns...)
	a := artifact{FS: fsys, ignored: gitignore.NewMatcher(patterns), links: map[string]bool{}, folders: map[string]bool{}}
	for _, dir := range strict.List(x.of[source], "spec", "sparseCheckout") {
		a.only = append(a.only, strings.TrimPrefix(path.Join("/", dir.Value), "/"))
	}
	x.files[source] = a
	return x.files[source]
}

func parsed(lines, domain []string) []gitignore.Pattern {
	var patterns []gitignore.Pattern
	for _, line := range lines {
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, gitignore.ParsePattern(line, domain))
		}
	}
	return patterns
}

// artifact is a repository without symlinks, which source-controller drops, without ignored files, and without folders that Git does not have. Folders are never ignored.
type artifact struct {
	fs.FS
	ignored gitignore.Matcher
	links   map[string]bool // known files and folders
	folders map[string]bool // known ones, and whether Git has them
	only    []string        // folders that are checked out; empty for all
}

func (a artifact) hides(name string, dir bool) bool {
	return a.linked(name) || !a.checksOut(name, dir) || dir && !a.has(name) || !dir && a.ignored.Match(strings.Split(name, "/"), false)
}

// checksOut reports whether a name is in the checked-out folders, or a folder leads to one.
func (a artifact) checksOut(name string, dir bool) bool {
	return len(a.only) == 0 || slices.ContainsFunc(a.only, func(of string) bool {
		return strings.HasPrefix(name+"/", of+"/") || dir && (name == "." || strings.HasPrefix(of, name+"/"))
	})
}

// has reports whether Git has a folder.
func (a artifact) has(dir string) bool {
	if dir == "." {
		return true
	}
	is, known := a.folders[dir]
	if !known {
		is = render.HasFolder(a.FS, dir)
		a.folders[dir] = is
	}
	return is
}

// linked reports whether a path has a symlink.
func (a artifact) linked(name string) bool {
	if name == "." {
		return false
	}
	is, known := a.links[name]
	if !known {
		info, err := fs.Lstat(a.FS, name)
		is = a.linked(path.Dir(name)) || err == nil && info.Mode().Type() == fs.ModeSymlink
		a.links[name] = is
	}
	return is
}

func (a artifact) Open(name string) (fs.File, error) {
	f, err := a.FS.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && a.hides(name, info.IsDir()) {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if dir, ok := f.(fs.ReadDirFile); ok && info.IsDir() {
		return &listing{ReadDirFile: dir, of: sync.OnceValues(func() ([]fs.DirEntry, error) { return a.ReadDir(name) })}, nil
	}
	return f, nil
}

// listing is an open folder without hidden entries.
type listing struct {
	fs.ReadDirFile
	of   func() ([]fs.DirEntry, error)
	next int
}

// ReadDir implements [fs.ReadDirFile].
func (l *listing) ReadDir(n int) ([]fs.DirEntry, error) {
	all, err := l.of()
	list := all[min(l.next, len(all)):]
	if n > 0 {
		list = list[:min(n, len(list))]
	}
	if l.next += len(list); n > 0 && len(list) == 0 && err == nil {
		err = io.EOF
	}
	return list, err
}

func (a artifact) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(a.FS, name)
	var list []fs.DirEntry
	for _, e := range entries {
		if !a.hides(path.Join(name, e.Name()), e.IsDir()) {
			list = append(list, e)
		}
	}
	return list, err
}

// remote records a reference to a kubeconfig, and returns the remote cluster, or the Secret if it is of none.
func (x *expander) remote(app *Application, o render.Document) string {
	ref := strict.Get(o.Node, "spec", "kubeConfig", "secretRef")
	if ref == nil {
		return ""
	}
	k := Kubeconfig{At: lab.Position{File: o.File, Line: cmp.Or(ref.Line, o.Line)}, KubeconfigSecret: lab.KubeconfigSecret{
		Namespace: strict.Text(o.Node, "metadata", "namespace"), Name: strict.Text(ref, "name"), Key: cmp.Or(strict.Text(ref, "key"), flux.KubeconfigKey),
	}}
	app.Kubeconfigs = append(app.Kubeconfigs, k)
	return cmp.Or(x.Scope.ClusterOf(k.Namespace, k.Name), k.String())
}

// assign sets the cluster of an application, which depends on its kubeconfigs.
func (x *expander) assign(app *Application) {
	var secrets []string
	for _, k := range app.Kubeconfigs {
		secrets = append(secrets, k.Name)
	}
	name := app.Name
	if app.Set != nil {
		name = "resourceset-" + name // a Kustomization may have that of the set
	}
	app.Cluster, app.As = x.Scope.Application(app.Namespace, name, secrets...)
}

// leaveOutRemote leaves out objects for a remote cluster whose kubeconfig Secret is missing, or which is reached with a cloud's identity.
func (x *expander) leaveOutRemote(app *Application, n *yaml.Node) {
	of := strict.Get(n, "spec", "kubeConfig")
	if name := strict.Text(of, "configMapRef", "name"); name != "" {
		app.leaveOut(n, fmt.Sprintf("%s is for a remote cluster with the identity of a cloud, in ConfigMap %s", strict.Title(n), name))
	}
	ref := strict.Get(of, "secretRef")
	if ref == nil {
		return
	}
	r := Read{Kind: "Secret", Namespace: strict.Text(n, "metadata", "namespace"), Name: strict.Text(ref, "name")}
	if x.Scope.ClusterOf(r.Namespace, r.Name) == "" && x.dataOf(r) == nil {
		app.leaveOut(n, fmt.Sprintf("%s is for a remote cluster, whose Secret %s is missing", strict.Title(n), r.Name))
	}
}

// leaveOutNested leaves out an application with objects for a Flux in a remote cluster, which runs none.
func (x *expander) leaveOutNested(app *Application) {
	for _, o := range app.Objects {
		if strings.Contains(strict.Text(o.Node, "apiVersion"), ".toolkit.fluxcd.io/") || IsGenerator(o.Node) {
			app.stall(fmt.Sprintf("%s is for a Flux in a remote cluster, which has none", strict.Title(o.Node)))
		}
	}
}

func (x *expander) leaveOutIncluding(app *Application) {
	for _, source := range x.sourcesOf(app.source) {
		if len(strict.List(x.of[source], "spec", "include")) > 0 {
			app.stall(source + " includes other repositories, which is not supported: spec.include")
		}
	}
}

// unread returns why a source is never read: it is suspended, or its Secret is missing. It returns "" if it may be.
func (x *expander) unread(source string) string {
	of := x.of[source]
	if strict.Text(of, "spec", "suspend") == "true" && !isStatic(of) {
		return source + " is suspended: spec.suspend"
	}
	return x.locked(source)
}

// isStatic reports whether nothing is read for a source, nor a status set: https://fluxcd.io/flux/components/source/helmrepositories/#helm-oci-repository
func isStatic(source *yaml.Node) bool {
	return strict.Text(source, "kind") == sourcev1.HelmRepositoryKind && strict.Text(source, "spec", "type") == sourcev1.HelmRepositoryTypeOCI
}

// locked returns the missing Secret without which a source cannot be read, or "".
func (x *expander) locked(source string) string {
	of := x.of[source]
	ref := strict.Get(of, "spec", "secretRef")
	if ref == nil {
		return ""
	}
	var absent *Absent
	if _, _, err := x.Repository(x.Sources[source], x.revision(source)); !errors.As(err, &absent) {
		return "" // the mirror needs no Secret
	}
	r := Read{Kind: "Secret", Namespace: strict.Text(of, "metadata", "namespace"), Name: strict.Text(ref, "name")}
	if x.dataOf(r) != nil {
		return ""
	}
	return fmt.Sprintf("%s needs Secret %s, which is missing", source, r.Name)
}

// leaveOutUnread leaves out applications with a source that is never read.
func (x *expander) leaveOutUnread() {
	why := func(source string) (reason string) {
		for _, of := range x.sourcesOf(source) {
			reason = cmp.Or(reason, x.unread(of))
		}
		return reason
	}
	for a := range x.all() {
		if unread := why(a.source); unread != "" && (a.mounted || a.Elsewhere != "") {
			a.stall(unread)
		}
		for _, r := range a.Releases {
			if a.mounted && !r.Suspended {
				a.LeftOut = cmp.Or(a.LeftOut, why(r.chart), why(r.Source))
			}
		}
		x.awaitSources(a)
	}
}

// awaitSources records the sources for which an application waits, or leaves it out if one cannot become ready.
func (x *expander) awaitSources(a *Application) {
	for _, o := range a.awaited() {
		source := o.kind + " " + o.namespace + "/" + o.name
		if chart := x.of[source]; o.kind == sourcev1.HelmChartKind { // ready if it can be fetched
			source = strict.Text(chart, "spec", "sourceRef", "kind") + " " + o.namespace + "/" + strict.Text(chart, "spec", "sourceRef", "name")
		}
		url, known := x.Sources[source]
		if o.group != sourcev1.GroupVersion.Group || !known {
			continue
		}
		of, why, locked := x.of[source], "", x.locked(source)
		_, _, err := x.Repository(url, x.revision(source))
		var absent *Absent
		switch remote := errors.As(err, &absent); {
		case strict.Text(of, "spec", "suspend") == "true":
			why = "waits for " + source + ", which is suspended"
		case o.kind == sourcev1.HelmRepositoryKind && isStatic(of):
		case locked != "":
			why = locked
		case remote && absent.Why != "":
			why = "waits for " + source + ": " + absent.Why
		case remote:
			a.Sources = append(a.Sources, url)
		}
		if a.mounted {
			a.LeftOut = cmp.Or(a.LeftOut, why)
		}
	}
}
