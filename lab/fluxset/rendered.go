package fluxset

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/Masterminds/semver/v3"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"go.yaml.in/yaml/v3"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/runtime"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// helm is the minor of Argo CD with the Helm of helm-controller, 4.2.
const helm = "3.5"

// OfCluster are words of templates whose result depends on what is in the cluster.
var OfCluster = []string{"lookup", "APIVersions"}

// Unknown is the error for what lab cannot know of a release.
type Unknown struct{ Why string }

func (e *Unknown) Error() string { return e.Why }

// Render renders the chart of a release in Git like helm-controller: CRDs, then hooks and objects after spec.postRenderers and spec.commonMetadata. Its errors are
// *Unknown and *render.Error.
func (r Release) Render(w World) ([]render.Document, error) {
	if r.Values == nil {
		return nil, &Unknown{"values of HelmRelease " + r.Name + " are unknown"}
	}
	if r.Folder == "" {
		return nil, &Unknown{"the chart of HelmRelease " + r.Name + " is not in Git"}
	}
	fsys, _, err := w.Repository(r.URL, r.Revision)
	if err != nil || r.Artifact {
		return nil, &Unknown{"the source of HelmRelease " + r.Name + " is unavailable"}
	}
	return r.RenderIn(fsys, w.Budget)
}

// RenderIn is Render for a chart in r.Folder of files.
func (r Release) RenderIn(fsys fs.FS, budget *render.Budget) ([]render.Document, error) {
	fsys, err := r.edited(fsys)
	if err != nil {
		return nil, err
	}
	var chart struct{ Type string }
	if data, err := fs.ReadFile(fsys, path.Join(r.Folder, "Chart.yaml")); err == nil && sigsyaml.Unmarshal(data, &chart) == nil && chart.Type == "library" {
		return nil, nil // helm-controller installs it, without objects
	}
	values, err := json.Marshal(r.Values)
	if err != nil {
		return nil, &Unknown{err.Error()}
	}
	minor, _ := argo.ParseMinor(helm)
	spec := r.object.Spec
	docs, err := render.Render(render.Source{
		FS: fsys, Application: r.Name, Namespace: r.TargetNamespace, Minor: minor, Budget: budget,
		Source: appset.Source{Path: r.Folder, Helm: &appset.Helm{
			ReleaseName: r.ReleaseName, ValuesObject: &runtime.RawExtension{Raw: values}, SkipSchemaValidation: r.object.GetInstall().DisableSchemaValidation,
		}},
	})
	if err != nil {
		return nil, err
	}
	var crds, before, objects []render.Document
	for _, d := range docs {
		switch {
		case isUnknownHook(d):
		case strings.HasPrefix(d.File, path.Join(r.Folder, "crds")+"/") || strings.HasPrefix(d.File, path.Join(r.Folder, "charts")+"/") && strings.Contains(d.File, "/crds/"):
			if !r.noCRDs {
				crds = append(crds, d)
			}
		case strict.Text(d.Node, "metadata", "annotations", helmrelease.HookAnnotation) != "" && spec.PostRenderStrategy == helmv2.PostRenderStrategyNoHooks:
			before = append(before, d)
		default:
			for _, n := range strict.Items(d.Node) {
				objects = append(objects, render.Document{Node: n, File: d.File})
			}
		}
	}
	if d, twice := render.Repeated(objects); twice {
		return nil, &render.Error{Problem: lab.Problem{
			Code: finding.DuplicateObject, Position: lab.Position{File: d.File, Line: d.Line}, Message: fmt.Sprintf("HelmRelease %s renders %s %s twice", r.Name, strict.Text(d.Node, "kind"), strict.Text(d.Node, "metadata", "name")),
		}}
	}
	for _, p := range spec.PostRenderers {
		if p.Kustomize == nil {
			continue
		}
		var kustomize map[string]any
		text, err := json.Marshal(p.Kustomize)
		if err == nil {
			err = json.Unmarshal(text, &kustomize)
		}
		if err != nil {
			return nil, &Unknown{err.Error()}
		}
		if objects, err = render.PostRender(objects, kustomize, budget); err != nil {
			return nil, err
		}
	}
	if common := spec.CommonMetadata; common != nil {
		labels := maps.Clone(common.Labels)
		for _, own := range []string{"name", "namespace"} { // helm-controller sets them itself
			delete(labels, helmv2.GroupVersion.Group+"/"+own)
		}
		render.Common(objects, labels, common.Annotations)
	}
	return slices.Concat(crds, before, objects), nil
}

// Inputs is render.Source.Inputs for RenderIn.
func (r Release) Inputs(fsys fs.FS, of func(ref, name string) string) (string, error) {
	own, err := json.Marshal([]any{r.Values, r.Defaults, r.ReleaseName, r.revised, r.noCRDs, r.object.Spec})
	if err != nil {
		return "", err
	}
	options := &appset.Helm{Values: string(own)} // everything besides files
	return render.Source{FS: fsys, Application: r.Name, Namespace: r.TargetNamespace, Source: appset.Source{Path: r.Folder, Helm: options}}.Inputs(of)
}

// isUnknownHook reports whether Helm drops an object: it is for an event that Helm does not know.
func isUnknownHook(d render.Document) bool {
	text := strict.Text(d.Node, "metadata", "annotations", helmrelease.HookAnnotation)
	events := []helmrelease.HookEvent{
		helmrelease.HookPreInstall, helmrelease.HookPostInstall, helmrelease.HookPreDelete, helmrelease.HookPostDelete, helmrelease.HookPreUpgrade, helmrelease.HookPostUpgrade,
		helmrelease.HookPreRollback, helmrelease.HookPostRollback, helmrelease.HookTest, "test-success",
	}
	return text != "" && slices.ContainsFunc(strings.Split(text, ","), func(event string) bool {
		return !slices.Contains(events, helmrelease.HookEvent(strings.ToLower(strings.TrimSpace(event))))
	})
}

// edited returns the files of a chart as source-controller packs it: with its valuesFiles as values, and their generation or the revision in its version.
func (r Release) edited(fsys fs.FS) (fs.FS, error) {
	of := replaced{fsys, map[string][]byte{}}
	var metadata []string
	if r.revised {
		metadata = append(metadata, strings.Repeat("0", 12)) // the commit is not known yet
	}
	if r.Defaults != nil {
		metadata = append(metadata, "1")
		values, err := sigsyaml.Marshal(r.Defaults)
		if err != nil {
			return nil, &Unknown{err.Error()}
		}
		of.files[path.Join(r.Folder, "values.yaml")] = values
	}
	name := path.Join(r.Folder, "Chart.yaml")
	data, err := fs.ReadFile(fsys, name)
	if len(metadata) == 0 || err != nil {
		return of, nil
	}
	var chart map[string]any
	if sigsyaml.Unmarshal(data, &chart) != nil {
		return of, nil
	}
	if v, err := semver.NewVersion(fmt.Sprint(chart["version"])); err == nil {
		if with, err := v.SetMetadata(strings.Join(metadata, ".")); err == nil {
			chart["version"] = with.String()
		}
	}
	if of.files[name], err = sigsyaml.Marshal(chart); err != nil {
		return nil, &Unknown{err.Error()}
	}
	return of, nil
}

// replaced is a file system with other contents of some files, which may be missing in it.
type replaced struct {
	fs.FS
	files map[string][]byte
}

func (r replaced) Open(name string) (fs.File, error) {
	if data, is := r.files[name]; is {
		return fstest.MapFS{name: {Data: data, Mode: 0o444}}.Open(name)
	}
	return r.FS.Open(name)
}

func (r replaced) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.FS, name)
	for file, data := range r.files {
		if path.Dir(file) == name && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == path.Base(file) }) {
			made, _ := fs.ReadDir(fstest.MapFS{path.Base(file): {Data: data, Mode: 0o444}}, ".")
			entries = append(entries, made...)
		}
	}
	return entries, err
}

// Refused returns why the API server rejects an object of a release's chart, or "".
func (r Release) Refused(objects []render.Document) string {
	for _, o := range objects {
		of := strict.Text(o.Node, "kind") + " " + strict.Text(o.Node, "metadata", "name")
		switch p, why := misfit(o), needs.RejectedByHelm(o); {
		case p != nil:
			return fmt.Sprintf("HelmRelease %s has %s, which is refused: %s", r.Name, of, p.String())
		case why != "":
			return fmt.Sprintf("HelmRelease %s has %s, which is %s", r.Name, of, why)
		}
	}
	return ""
}

// shortName returns the name of a Helm release as helm-controller shortens it: Helm permits 53 characters.
func shortName(name string) string {
	const most, digest = 53, 12
	if len(name) <= most {
		return name
	}
	return name[:most-digest-1] + "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:digest]
}

// errUnknown means that data is not known.
var errUnknown = errors.New("unknown")

// values returns the values of a release, in the order of Flux: spec.valuesFrom, then spec.values. The error is errUnknown, or why Flux cannot merge them.
func (x *expander) values(o helmv2.HelmRelease) (map[string]any, error) {
	values := map[string]any{}
	inline := o.GetValues()
	for _, ref := range o.Spec.ValuesFrom {
		data := x.dataOf(Read{Kind: ref.Kind, Namespace: o.Namespace, Name: ref.Name})
		text, has := data[ref.GetValuesKey()]
		switch {
		case !has && ref.Optional:
			continue
		case data == nil:
			return nil, errUnknown
		case !has:
			return nil, fmt.Errorf("%s %s has no key %s", ref.Kind, ref.Name, ref.GetValuesKey())
		}
		if ref.TargetPath == "" {
			var layer map[string]any
			if err := sigsyaml.Unmarshal([]byte(text), &layer); err != nil {
				return nil, fmt.Errorf("%s of %s %s: %w", ref.GetValuesKey(), ref.Kind, ref.Name, err)
			}
			render.Merge(values, layer)
			continue
		}
		render.Merge(values, runtime.DeepCopyJSON(inline))
		if err := setPath(values, ref.TargetPath, text, ref.Literal); err != nil {
			return nil, fmt.Errorf("targetPath %s of %s %s: %w", ref.TargetPath, ref.Kind, ref.Name, err)
		}
	}
	render.Merge(values, inline)
	return values, nil
}

// literal escapes what has a meaning in Helm's --set.
var literal = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`)

// setPath sets a value at a path like Flux: as --set does, as text if it is quoted, and as it is if literal.
func setPath(values map[string]any, at, text string, asIs bool) error {
	if asIs {
		return strvals.ParseIntoString(at+"="+literal.Replace(text), values)
	}
	for _, quote := range []string{`'`, `"`} {
		if strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return strvals.ParseIntoString(at+"="+strings.Trim(text, `'"`), values)
		}
	}
	return strvals.ParseInto(at+"="+text, values)
}

// typed decodes an object of Flux.
func typed(n *yaml.Node, into any) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	return sigsyaml.Unmarshal(text, into)
}
