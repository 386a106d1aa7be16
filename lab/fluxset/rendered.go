package fluxset

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
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
	fsys, _, err := r.Files()
	if err != nil {
		return nil, &Unknown{"the source of HelmRelease " + r.Name + " is unavailable"}
	}
	return r.RenderIn(fsys, "", w.Budget)
}

// RenderIn is Render for a chart in r.Folder of files, which a registry has with the digest of a manifest, if any.
func (r Release) RenderIn(fsys fs.FS, digest string, budget *render.Budget) ([]render.Document, error) {
	fsys, err := r.edited(fsys, digest)
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
			Code: finding.DuplicateObject, Position: lab.Position{File: d.File, Line: d.Line}, Message: fmt.Sprintf("HelmRelease %s renders %s twice", r.Name, strict.Title(d.Node)),
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

// PostRenderers returns spec.postRenderers as JSON decodes it, or nil.
func (r Release) PostRenderers() (list any) {
	if text, err := json.Marshal(r.object.Spec.PostRenderers); err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}

// WithPostRenderers returns the release with others.
func (r Release) WithPostRenderers(list any) (Release, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return r, err
	}
	r.object.Spec.PostRenderers = nil
	return r, json.Unmarshal(text, &r.object.Spec.PostRenderers)
}

// Inputs is render.Source.Inputs for RenderIn.
func (r Release) Inputs(fsys fs.FS, of func(ref, name string) string) (string, error) {
	own, err := json.Marshal([]any{r.Values, r.Defaults, r.valuesFiles, r.ignoreMissing, r.ReleaseName, r.revised, r.noCRDs, r.object.Spec})
	if err != nil {
		return "", err
	}
	options := &appset.Helm{Values: string(own)} // everything besides files
	return render.Source{FS: fsys, Application: r.Name, Namespace: r.TargetNamespace, Source: appset.Source{Path: r.Folder, Helm: options}}.Inputs(of)
}

// edited returns the files of a chart as source-controller packs it: with its valuesFiles as values, and their generation or the revision in its version. To the
// version of a chart of an OCIRepository, helm-controller adds the digest.
func (r Release) edited(fsys fs.FS, digest string) (fs.FS, error) {
	of := render.Overlay{FS: fsys, Files: map[string][]byte{}}
	var metadata []string
	if r.revised {
		metadata = append(metadata, strings.Repeat("0", revisionDigits)) // the commit is not known yet
	}
	if _, hex, ok := strings.Cut(digest, ":"); ok && len(hex) > revisionDigits && strings.HasPrefix(r.Source, sourcev1.OCIRepositoryKind+" ") {
		if version := versionIn(fsys, r.Folder); !isTagOf(r.Revision, version) {
			return nil, &render.Error{Problem: lab.Problem{
				Code: finding.CannotRender, Position: r.At, Message: fmt.Sprintf("Flux rejects a chart of version %s under the tag %s", version, cmp.Or(r.Revision, "latest")), Cure: "spec.ref.semver or spec.ref.tag of " + r.Source,
			}}
		}
		metadata = append(metadata, hex[:revisionDigits])
	}
	if len(r.valuesFiles) > 0 {
		var err error
		if r.Defaults, err = r.defaultsIn(fsys); err != nil {
			return nil, err
		}
	}
	if r.Defaults != nil {
		metadata = append(metadata, "1")
		values, err := sigsyaml.Marshal(r.Defaults)
		if err != nil {
			return nil, &Unknown{err.Error()}
		}
		of.Files[path.Join(r.Folder, "values.yaml")] = values
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
	if of.Files[name], err = sigsyaml.Marshal(chart); err != nil {
		return nil, &Unknown{err.Error()}
	}
	return of, nil
}

// revisionDigits are the characters of a commit or a digest in a version.
const revisionDigits = 12

func versionIn(fsys fs.FS, folder string) string {
	var chart struct{ Version string }
	if data, err := fs.ReadFile(fsys, path.Join(folder, "Chart.yaml")); err == nil {
		_ = sigsyaml.Unmarshal(data, &chart) // rendering reports it
	}
	return chart.Version
}

// isTagOf reports whether Flux takes a chart of a version under the tag, range or digest of an OCIRepository: a tag must be the version.
func isTagOf(revision, version string) bool {
	tag, err := semver.NewVersion(strings.ReplaceAll(revision, "_", "+"))
	if err != nil {
		_, err = semver.NewConstraint(revision)
		return strings.HasPrefix(revision, "sha256:") || err == nil && revision != "" // a range stands for a version
	}
	of, err := semver.NewVersion(version)
	return err == nil && tag.Equal(of)
}

// Refused returns why the API server rejects an object of a release's chart, or "".
func (r Release) Refused(objects []render.Document) string {
	for _, o := range objects {
		of := strict.Title(o.Node)
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

// ValuesFrom is an entry of a release's spec.valuesFrom.
type ValuesFrom struct {
	What       string // "default.yaml of ConfigMap web-values"
	Text       string
	TargetPath string // for a single value; empty for a document
	Literal    bool
}

// valuesFrom returns what a release reads. The error is errUnknown, or why Flux cannot read it.
func (x *expander) valuesFrom(o helmv2.HelmRelease) (list []ValuesFrom, err error) {
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
		list = append(list, ValuesFrom{What: fmt.Sprintf("%s of %s %s", ref.GetValuesKey(), ref.Kind, ref.Name), Text: text, TargetPath: ref.TargetPath, Literal: ref.Literal})
	}
	return list, nil
}

// Values returns the values of a release, in the order of Flux: spec.valuesFrom, then spec.values. The error is why Flux cannot merge them.
func Values(from []ValuesFrom, inline map[string]any) (map[string]any, error) {
	values := map[string]any{}
	for _, f := range from {
		if f.TargetPath == "" {
			var layer map[string]any
			if err := sigsyaml.Unmarshal([]byte(f.Text), &layer); err != nil {
				return nil, fmt.Errorf("%s: %w", f.What, err)
			}
			render.Merge(values, layer)
			continue
		}
		render.Merge(values, runtime.DeepCopyJSON(inline))
		if err := setPath(values, f.TargetPath, f.Text, f.Literal); err != nil {
			of, where, _ := strings.Cut(f.What, " of ")
			return nil, fmt.Errorf("targetPath %s of %s: %w", f.TargetPath, cmp.Or(where, of), err)
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
