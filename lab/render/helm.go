package render

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/strvals"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// helm renders like `helm template --include-crds` with Argo CD's options.
func (s Source) helm() (docs []Document, err error) {
	o := s.options()
	at := path.Join(s.Path, "Chart.yaml")
	defer func() {
		if r := recover(); r != nil { // Helm and its libraries panic on some invalid charts
			docs, err = nil, failed(at, fmt.Errorf("helm: %v", r))
		}
	}()
	if v := o.Version; v != "" && v != "v3" && (v != "v4" || !s.Minor.Has(5)) {
		return nil, failed(at, fmt.Errorf("helm.version %s: Argo CD %s does not have it", v, s.Minor))
	}
	b := one(s.Budget)
	c, err := s.chart(b)
	if err != nil {
		return nil, err
	}
	vals, err := s.values(o, b)
	if err != nil {
		return nil, err
	}
	return s.template(c, o, vals, b)
}

// template renders a chart with all of its values.
func (s Source) template(c *chart.Chart, o appset.Helm, vals map[string]any, b *Budget) (docs []Document, err error) {
	at := path.Join(s.Path, "Chart.yaml")
	top, err := s.scope(c, o, vals)
	if err != nil {
		return nil, failed(at, err)
	}
	if !o.SkipCrds {
		for _, crd := range c.CRDObjects() {
			file, lines := s.origin(crd.Filename, nil)
			more, err := documents(file, string(crd.File.Data), lines)
			if _, glued := separated(file, crd.File.Data); glued != nil {
				err = glued
			}
			if err != nil {
				return nil, err
			}
			docs = append(docs, more...)
		}
	}
	rendered, err := s.Templates.render(b, s.Minor, c, top)
	if err != nil {
		var f *templateError
		if errors.As(err, &f) {
			file, lines := s.origin(f.file, nil)
			if f.limit != nil {
				return nil, failed(file, f.limit)
			}
			if lines != nil {
				f.line = 0
			}
			return nil, invalid(lab.Position{File: file, Line: f.line}, oneLine(f.message), "")
		}
		return nil, failed(at, err)
	}
	for _, r := range rendered {
		if path.Base(r.name) == "NOTES.txt" || strings.TrimSpace(r.text) == "" {
			continue
		}
		file, lines := s.origin(r.name, r.lines)
		more, err := documents(file, r.text, lines)
		if err != nil {
			return nil, err
		}
		for _, d := range more {
			if untyped(d.Node) {
				return nil, invalid(lab.Position{File: file, Line: d.Line}, "rendered output: a document without kind", "")
			}
			events, known := helmEvents(d)
			if known && !(o.SkipTests && slices.Contains(events, release.HookTest)) {
				docs = append(docs, d)
			}
		}
	}
	return docs, nil
}

// scope returns the templates' top-level values.
func (s Source) scope(c *chart.Chart, o appset.Helm, vals map[string]any) (chartutil.Values, error) {
	release := chartutil.ReleaseOptions{Name: cmp.Or(o.ReleaseName, s.Application), Namespace: cmp.Or(o.Namespace, s.Namespace, "default"), Revision: 1, IsInstall: true}
	if err := chartutil.ValidateReleaseName(release.Name); err != nil {
		return nil, fmt.Errorf("release name %q: %w", release.Name, err)
	}
	caps := chartutil.DefaultCapabilities.Copy()
	version := cmp.Or(o.KubeVersion, s.kubeVersion())
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return nil, fmt.Errorf("kubeVersion %q: %w", version, err)
	}
	caps.KubeVersion, caps.HelmVersion.Version = *kube, helmVersion(s.Minor)
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, kube.String()) {
		return nil, fmt.Errorf("chart requires kubeVersion %s, which %s is not", want, kube)
	}
	if len(o.APIVersions) == 0 {
		o.APIVersions = s.APIVersions
	}
	if len(o.APIVersions) == 0 {
		o.APIVersions = builtin()
	}
	caps.APIVersions = append(slices.Clone(caps.APIVersions), o.APIVersions...)
	if err := chartutil.ProcessDependenciesWithMerge(c, vals); err != nil {
		return nil, err
	}
	if s.Minor.Has(5) {
		dropNulls(c, vals)
	}
	top, err := chartutil.ToRenderValuesWithSchemaValidation(c, vals, release, caps, true) // Helm's validation would fetch remote schemas
	if err != nil || o.SkipSchemaValidation {
		return top, err
	}
	values, _ := top["Values"].(chartutil.Values)
	return top, validate(c, values)
}

// helmEvents returns the events of a hook. Helm drops hooks of events that it does not know.
func helmEvents(d Document) (events []release.HookEvent, known bool) {
	of := strict.Get(d.Node, "metadata", "annotations", release.HookAnnotation)
	if of == nil {
		return nil, true
	}
	for name := range strings.SplitSeq(of.Value, ",") {
		event := release.HookEvent(strings.ToLower(strings.TrimSpace(name)))
		switch event {
		case "test-success":
			event = release.HookTest
		case release.HookTest, release.HookPreInstall, release.HookPostInstall, release.HookPreDelete, release.HookPostDelete, release.HookPreUpgrade,
			release.HookPostUpgrade, release.HookPreRollback, release.HookPostRollback:
		default:
			return nil, false
		}
		events = append(events, event)
	}
	return events, true
}

// origin maps Helm's chart/templates/x.yaml to a file of the repository. For charts from archives or under other names,
// it is the containing chart, without lines.
func (s Source) origin(name string, lines []int) (string, []int) {
	_, rel, _ := strings.Cut(name, "/")
	if file := path.Join(s.Path, rel); isFile(s.FS, file) {
		return file, lines
	}
	return path.Join(s.Path, "Chart.yaml"), []int{}
}

// values merges the Application's values: files, values, parameters, file parameters.
func (s Source) values(o appset.Helm, b *Budget) (map[string]any, error) {
	vals := map[string]any{}
	files, err := s.valueFiles(o)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		fsys, file := f.fsys, f.name
		data, err := b.yaml(fsys, file)
		switch {
		case errors.Is(err, fs.ErrNotExist) && o.IgnoreMissingValueFiles:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return nil, &Error{Missing: file, Problem: lab.Problem{
				Code: finding.ValueFileMissing, Position: lab.Position{File: file}, Message: "does not exist, but is a value file of " + cmp.Or(s.Application, s.Path),
				Cure: cmp.Or(s.underPath(f), "write it, or set helm.ignoreMissingValueFiles"),
			}}
		case err != nil:
			return nil, failed(file, err)
		}
		if vals, err = s.overlay(vals, data); err != nil {
			return nil, failed(file, err)
		}
	}
	own := []byte(o.Values)
	if o.ValuesObject != nil && len(o.ValuesObject.Raw) > 0 {
		own = o.ValuesObject.Raw
	}
	vals, err = s.overlay(vals, own)
	if err != nil {
		return nil, failed(s.Path, fmt.Errorf("helm values: %w", err))
	}
	return vals, s.parameters(o, vals, b)
}

// overlay merges values, of the first document or since Helm 4 of all.
func (s Source) overlay(vals map[string]any, data []byte) (map[string]any, error) {
	texts := [][]byte{data}
	if s.Minor.Has(5) {
		texts = nil
		for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
			text, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		next := map[string]any{}
		if err := yaml.Unmarshal(text, &next); err != nil {
			return nil, err
		}
		Merge(vals, next)
	}
	return vals, nil
}

// Merge merges maps. As with `helm -f`, null is kept to remove a default of the chart.
func Merge(into, from map[string]any) {
	for key, v := range from {
		if below, ok := v.(map[string]any); ok {
			if have, ok := into[key].(map[string]any); ok {
				Merge(have, below)
				continue
			}
		}
		into[key] = v
	}
}

// parameter escapes commas like Argo CD, so that Helm does not split the value, except in lists: {a,b}.
func parameter(value string) string {
	if strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") {
		return value
	}
	var b strings.Builder
	var last rune
	for _, r := range value {
		if r == ',' && last != '\\' {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// parameters applies --set, --set-string and --set-file, in this order.
func (s Source) parameters(o appset.Helm, vals map[string]any, b *Budget) error {
	at := path.Join(s.Path, "Chart.yaml")
	for _, asText := range []bool{false, true} {
		set := strvals.ParseInto
		if asText {
			set = strvals.ParseIntoString
		}
		for _, p := range o.Parameters {
			if p.ForceString != asText {
				continue
			}
			if err := set(p.Name+"="+parameter(s.substitute(p.Value)), vals); err != nil {
				return failed(at, fmt.Errorf("helm parameter %s: %w", p.Name, err))
			}
		}
	}
	for _, p := range o.FileParameters {
		fsys, file, err := s.valueFile(p.Path)
		if err != nil {
			return err
		}
		err = strvals.ParseIntoFile(p.Name+"="+parameter(file), vals, func([]rune) (any, error) {
			data, err := b.read(fsys, file)
			return string(data), err
		})
		if err != nil {
			return failed(file, fmt.Errorf("helm file parameter %s: %w", p.Name, err))
		}
	}
	return nil
}

// valueFile resolves a value file: relative to the chart, from the repository's root, or in the repository of a $ref.
func (s Source) valueFile(name string) (fs.FS, string, error) {
	at := lab.Position{File: s.Path}
	if ref, rest, _ := strings.Cut(name, "/"); strings.HasPrefix(ref, "$") && len(s.Sources) > 0 {
		if !slices.ContainsFunc(s.Sources, func(o appset.Source) bool { return o.Ref == ref[1:] }) {
			return nil, "", failed(s.Path, fmt.Errorf("value file %s: no source has ref %s", name, ref[1:]))
		}
		if fsys := s.ref(ref); fsys != nil {
			if rest = path.Clean(strings.TrimLeft(s.substitute(rest), "/")); !fs.ValidPath(rest) {
				return nil, "", failed(s.Path, fmt.Errorf("value file %s leaves its repository", name))
			}
			return fsys, rest, nil
		}
		return nil, "", remote(at, name, "takes values from "+name+", but the repository of "+ref+" is unavailable")
	}
	name = s.substitute(name)
	if u, err := url.Parse(name); err == nil && u.Scheme != "" {
		if !fetched(name) {
			return nil, "", failed(s.Path, fmt.Errorf("value file %s: only a plugin of Helm reads %s://, which lab's Argo CD does not have", name, u.Scheme))
		}
		return nil, "", remote(at, name, "takes values from "+name)
	}
	file := path.Join(s.Path, name)
	if path.IsAbs(name) {
		file = path.Clean(strings.TrimPrefix(name, "/"))
	}
	if !fs.ValidPath(file) {
		return nil, "", failed(s.Path, fmt.Errorf("value file %s leaves the repository", name))
	}
	return s.FS, file, nil
}

// ref returns the repository of a source of several, as $values.
func (s Source) ref(name string) fs.FS {
	if !strings.HasPrefix(name, "$") || len(s.Sources) == 0 || s.Ref == nil {
		return nil
	}
	return s.Ref(name[1:])
}

// schemaURL is the nominal location of a chart's schema.
const schemaURL = "file:///values.schema.json"

// validate checks values against the schemas of a chart and its subcharts. External references fail.
func validate(c *chart.Chart, values map[string]any) error {
	if c.Schema != nil {
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
		if err != nil {
			return fmt.Errorf("values.schema.json of chart %s: %w", c.Name(), err)
		}
		compiler := jsonschema.NewCompiler()
		compiler.UseLoader(jsonschema.SchemeURLLoader{})
		if err := compiler.AddResource(schemaURL, schema); err != nil {
			return fmt.Errorf("values.schema.json of chart %s: %w", c.Name(), err)
		}
		compiled, err := compiler.Compile(schemaURL)
		var elsewhere *jsonschema.LoadURLError
		switch {
		case errors.As(err, &elsewhere):
		case err != nil:
			return fmt.Errorf("values.schema.json of chart %s: %w", c.Name(), err)
		default:
			plain, err := asJSON(values)
			if err == nil {
				err = compiled.Validate(plain)
			}
			if err != nil {
				return fmt.Errorf("values of chart %s do not meet its schema: %s", c.Name(), strings.ReplaceAll(err.Error(), schemaURL, ""))
			}
		}
	}
	for _, sub := range c.Dependencies() {
		if of, ok := values[sub.Name()].(map[string]any); ok {
			if err := validate(sub, of); err != nil {
				return err
			}
		}
	}
	return nil
}

func asJSON(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}
