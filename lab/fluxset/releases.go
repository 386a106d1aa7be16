package fluxset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Release is a HelmRelease of an application.
type Release struct {
	Namespace, Name string
	TargetNamespace string
	ReleaseName     string // as Helm stores it
	Storage         string // namespace in which Helm stores it
	Chart, Version  string // in a chart repository; empty if Folder is set
	Folder          string // of a chart in Git
	URL             string // of the repository
	Source          string // kind and name of the repository, "HelmRepository charts"
	Revision        string // of a Git repository
	Engine          bool   // installs an engine
	At              lab.Position
	Suspended       bool
	Unawaited       bool           // Flux does not wait for its objects
	Tested          bool           // Flux runs its chart's tests
	Within          string         // HelmRelease whose chart has it; empty for none
	Remote          string         // cluster of its objects if another than Flux's
	Values          map[string]any // nil if some are unknown
	From            []ValuesFrom   `json:"-"` // merged in Values
	Inline          map[string]any `json:"-"` // likewise
	Defaults        map[string]any // in place of those of a chart in Git; nil for the chart's own

	object helmv2.HelmRelease

	valuesFiles   []*yaml.Node // of a chart in a chart repository, in place of Defaults
	ignoreMissing bool         // likewise
	revised       bool         // its chart's version contains the revision
	noCRDs        bool         // Flux does not install those in a folder of its chart
	why           string       // its chart is unavailable
	chart         string       // HelmChart of spec.chartRef, "HelmChart NAMESPACE/NAME"
	dependsOn     []object

	tree   tree  // of a chart in Git
	absent error // it is unavailable
}

// Files returns the files of a source with a chart in Git as Flux has them: without ignored ones. place returns their paths in the estate.
func (r Release) Files() (files fs.FS, place func(string) string, err error) {
	return r.tree.FS, r.tree.place, r.absent
}

// Is reports whether an object is the HelmRelease. A ResourceSet makes several at a position.
func (r Release) Is(o render.Document) bool {
	return r.At == (lab.Position{File: o.File, Line: o.Line}) && r.Namespace+"/"+r.Name == key(o.Node)
}

// release describes a HelmRelease.
func (x *expander) release(o render.Document) Release {
	namespace := strict.Text(o.Node, "metadata", "namespace")
	r := Release{
		Namespace: namespace, Name: strict.Text(o.Node, "metadata", "name"), TargetNamespace: cmp.Or(strict.Text(o.Node, "spec", "targetNamespace"), namespace),
		At: lab.Position{File: o.File, Line: o.Line}, Suspended: strict.Text(o.Node, "spec", "suspend") == "true", Unawaited: strict.Text(o.Node, "spec", "install", "disableWait") == "true",
		noCRDs: strict.Text(o.Node, "spec", "install", "crds") == string(helmv2.Skip),
		Tested: strict.Text(o.Node, "spec", "test", "enable") == "true",
	}
	if err := strict.Into(o.Node, &r.object); err != nil {
		r.why = fmt.Sprintf("HelmRelease %s: %v", r.Name, err)
	}
	r.ReleaseName, r.Storage = shortName(r.object.GetReleaseName()), r.object.GetStorageNamespace()
	for _, on := range strict.List(o.Node, "spec", "dependsOn") {
		r.dependsOn = append(r.dependsOn, object{helmv2.GroupVersion.Group, helmv2.HelmReleaseKind, cmp.Or(strict.Text(on, "namespace"), namespace), strict.Text(on, "name")})
	}
	ref := strict.Get(o.Node, "spec", "chartRef")
	source := func() (kind, name string) {
		return strict.Text(ref, "kind"), cmp.Or(strict.Text(ref, "namespace"), namespace) + "/" + strict.Text(ref, "name")
	}
	chart := strict.Get(o.Node, "spec", "chart", "spec")
	if kind, name := source(); chart == nil && kind == "HelmChart" {
		r.Source, r.chart = kind+" "+name, kind+" "+name
		if of := x.of[r.Source]; of != nil {
			namespace, chart = strict.Text(of, "metadata", "namespace"), strict.Get(of, "spec")
		}
	}
	if chart != nil {
		ref = strict.Get(chart, "sourceRef")
		r.Chart, r.Version = strict.Text(chart, "chart"), strict.Text(chart, "version")
	}
	kind, name := source()
	r.Source, r.URL = kind+" "+name, x.Sources[kind+" "+name]
	if r.Revision = x.revision(r.Source); kind == sourcev1.OCIRepositoryKind {
		r.Revision = cmp.Or(strict.Text(x.of[r.Source], "spec", "ref", "digest"), r.Revision)
	}
	if kind == externalArtifact {
		made, err := x.treeOf(r.Source)
		if r.URL = made.url; err == nil {
			r.tree = made
			r.Folder, r.absent = chartFolder(made)
		}
		var absent *Absent
		if err != nil && !errors.Is(err, errNoSource) && (!errors.As(err, &absent) || absent.Why != "") {
			r.why = fmt.Sprintf("HelmRelease %s: %s: %v", r.Name, r.Source, err)
		}
	}
	r.revised = strict.Text(chart, "reconcileStrategy") == sourcev1.ReconcileStrategyRevision
	from, err := x.valuesFrom(r.object)
	if err == nil {
		r.From, r.Inline = from, r.object.GetValues()
		r.Values, err = Values(from, r.Inline)
	}
	if err != nil && !errors.Is(err, errUnknown) {
		r.why = cmp.Or(r.why, fmt.Sprintf("HelmRelease %s: %v", r.Name, err))
	}
	if files := strict.List(chart, "valuesFiles"); len(files) > 0 && kind == sourcev1.HelmRepositoryKind {
		r.valuesFiles, r.ignoreMissing = files, strict.Text(chart, "ignoreMissingValuesFiles") == "true"
	} else if len(files) > 0 {
		if r.Defaults = x.defaults(r.Source, files, strict.Text(chart, "ignoreMissingValuesFiles") == "true"); r.Defaults == nil {
			r.Values = nil
		}
	}
	r.Engine = slices.Contains(engines, path.Base(cmp.Or(r.Chart, r.URL)))
	if kind == "GitRepository" || kind == "Bucket" {
		r.Folder, r.Chart, r.Version = path.Clean(strings.TrimPrefix(path.Join("/", r.Chart), "/")), "", ""
		if r.tree, r.absent = x.treeOf(r.Source); r.absent == nil && x.hides(r) {
			r.absent = &Absent{Why: fmt.Sprintf("ignores %s: .sourceignore or spec.ignore", r.Folder)}
		}
	}
	return r
}

// hides reports whether the source of a release ignores its chart.
func (x *expander) hides(r Release) bool {
	all, _, err := x.Repository(r.URL, r.Revision)
	if err != nil {
		return false
	}
	name := path.Join(r.Folder, "Chart.yaml")
	_, there := fs.Stat(all, name)
	_, packed := fs.Stat(r.tree, name)
	return there == nil && packed != nil
}

// chartFolder returns the folder of a chart in an ExternalArtifact, which helm-controller reads like a packaged chart: all files are in one folder.
func chartFolder(made tree) (string, error) {
	entries, err := fs.ReadDir(made, ".")
	if err == nil && (len(entries) != 1 || !entries[0].IsDir()) {
		err = &Absent{Why: "a chart must be in a folder of its artifact, and alone in it"}
	}
	if err != nil {
		return ".", err
	}
	return entries[0].Name(), nil
}

// defaults merges a chart's valuesFiles, which are relative to its source. It returns nil if some are unknown.
func (x *expander) defaults(source string, files []*yaml.Node, ignoreMissing bool) map[string]any {
	from, err := x.treeOf(source)
	if err != nil {
		return nil
	}
	values, err := layered(from.FS, files, ignoreMissing)
	if err != nil {
		return nil
	}
	return values
}

// defaultsIn is defaults for files of a chart itself.
func (r Release) defaultsIn(chart fs.FS) (map[string]any, error) {
	values, err := layered(chart, r.valuesFiles, r.ignoreMissing)
	if err != nil {
		return nil, &render.Error{Problem: lab.Problem{Code: finding.CannotRender, Position: r.At, Message: "valuesFiles of the chart: " + err.Error()}}
	}
	return values, nil
}

func layered(in fs.FS, files []*yaml.Node, ignoreMissing bool) (map[string]any, error) {
	values := map[string]any{}
	for _, file := range files {
		data, err := fs.ReadFile(in, path.Clean(strings.TrimPrefix(path.Join("/", file.Value), "/")))
		if errors.Is(err, fs.ErrNotExist) && ignoreMissing {
			continue
		}
		var layer map[string]any
		if err == nil {
			err = sigsyaml.Unmarshal(data, &layer)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Value, err)
		}
		render.Merge(values, layer)
	}
	return values, nil
}
