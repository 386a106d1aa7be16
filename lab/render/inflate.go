package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge2"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/sandbox"
	"homelab/lab/strict"
)

// Charts of kustomizations are rendered here, as kustomize would run helm: their objects become a resource of the kustomization, whose build goes on without them.

// charts are the fields of a kustomization with charts.
var charts = []string{"helmCharts", "helmChartInflationGenerator"}

// kustomizationCharts are the fields of a kustomization that its charts depend on.
type kustomizationCharts struct {
	Namespace                   string                `json:"namespace"`
	HelmGlobals                 *types.HelmGlobals    `json:"helmGlobals"`
	HelmCharts                  []types.HelmChart     `json:"helmCharts"`
	HelmChartInflationGenerator []types.HelmChartArgs `json:"helmChartInflationGenerator"`

	ConfigMapGenerator []types.GeneratorArgs `json:"configMapGenerator"`
	SecretGenerator    []types.GeneratorArgs `json:"secretGenerator"`
}

// early returns the error of a generator that would change an object of a chart: kustomize runs it before.
func (k kustomizationCharts) early(docs []Document) error {
	for kind, generators := range map[string][]types.GeneratorArgs{"ConfigMap": k.ConfigMapGenerator, "Secret": k.SecretGenerator} {
		for _, g := range generators {
			if g.Behavior != "merge" && g.Behavior != "replace" {
				continue
			}
			if slices.ContainsFunc(docs, func(d Document) bool {
				return strict.Text(d.Node, "kind") == kind && strict.Text(d.Node, "metadata", "name") == g.Name
			}) {
				return fmt.Errorf("behavior %s of the generator of %s %s: it is of a chart, which kustomize renders later", g.Behavior, kind, g.Name)
			}
		}
	}
	return nil
}

// chartsOf returns the charts of the kustomization in a file, with the namespace of the kustomizations that include it. What cannot be read is left to kustomize.
func (s *scanner) chartsOf(file string) (k kustomizationCharts) {
	if data, err := s.ReadFile(file); err != nil || sigsyaml.Unmarshal(data, &k) != nil {
		return kustomizationCharts{Namespace: s.namespace}
	}
	k.Namespace = cmp.Or(k.Namespace, s.namespace)
	old, globals := types.SplitHelmParameters(k.HelmChartInflationGenerator)
	if k.HelmCharts = append(k.HelmCharts, old...); k.HelmGlobals == nil {
		k.HelmGlobals = &globals
	}
	return k
}

// inflate replaces the charts of the kustomization in a file by their objects.
func (s *scanner) inflate(file string, k kustomizationCharts) error {
	if len(k.HelmCharts) == 0 {
		if before, is := s.inflatedFor[file]; is && before != k.Namespace {
			return remote(lab.Position{File: file}, "helmCharts", fmt.Sprintf("is included for the namespaces %q and %q, and lab inflates its charts for one", before, k.Namespace))
		}
		for i := range s.inflatedCount[file] {
			s.load = s.load.plus(s.known[inflatedName(file, i)])
		}
		return nil
	}
	at := lab.Position{File: file, Line: 1}
	if data, err := s.budget.read(s.FS, file); err == nil { // unedited, for line numbers
		docs, _ := strict.Parse(file, data)
		for _, doc := range docs {
			for _, n := range doc.Content {
				if slices.Contains(charts, n.Value) {
					at = strict.Position(file, n)
				}
			}
		}
	}
	var names []any
	for i, c := range k.HelmCharts {
		docs, err := s.chart(file, at, k, c)
		if err != nil {
			return err
		}
		if err := k.early(docs); err != nil {
			return failed(file, err)
		}
		if len(docs) == 0 {
			continue
		}
		name := inflatedName(file, len(names))
		if err := s.addInflated(name, docs); err != nil {
			return failed(file, fmt.Errorf("helmCharts[%d]: %w", i, err))
		}
		names = append(names, path.Base(name))
	}
	s.inflatedFor[file], s.inflatedCount[file] = k.Namespace, len(names)
	to := map[string]any{}
	data, err := s.ReadFile(file)
	if err == nil {
		err = sigsyaml.Unmarshal(data, &to)
	}
	if err != nil {
		return failed(file, err)
	}
	for _, key := range append([]string{"helmGlobals"}, charts...) {
		delete(to, key)
	}
	to["resources"] = append(list(to["resources"]), names...)
	if to["buildMetadata"] == nil { // so that kustomize does not call it empty; only that of the built one counts
		to["buildMetadata"] = []any{types.OriginAnnotations}
	}
	s.edited[file], err = json.Marshal(to)
	return err
}

// inflatedName is the name of a resource that stands for a chart.
func inflatedName(file string, i int) string {
	return path.Join(path.Dir(file), fmt.Sprintf("inflated-chart-%d.yaml", i))
}

// addInflated adds a resource with the objects of a chart, marked as kustomize marks them.
func (s *scanner) addInflated(name string, docs []Document) error {
	var text bytes.Buffer
	var objects []Document
	for _, d := range docs {
		for _, n := range strict.Items(d.Node) {
			objects = append(objects, Document{Node: n, File: d.File})
			if n.Kind == yaml.MappingNode {
				set(n, "true", "metadata", "annotations", konfig.HelmGeneratedAnnotation)
			}
			one, err := strict.YAML(n)
			if err != nil {
				return err
			}
			text.WriteString("---\n")
			text.Write(one)
		}
	}
	if err := s.budget.take(1, text.Len()); err != nil {
		return err
	}
	w, err := weigh(text.Bytes())
	if err != nil {
		return err
	}
	if s.known == nil {
		s.known = map[string]weight{}
	}
	s.edited[name], s.inflated[name], s.known[name] = text.Bytes(), objects, w
	s.load = s.load.plus(w)
	return nil
}

// chart renders a chart like the HelmChartInflationGenerator of kustomize.
func (s *scanner) chart(file string, at lab.Position, k kustomizationCharts, c types.HelmChart) ([]Document, error) {
	fail := func(format string, args ...any) error {
		return invalid(at, "chart "+c.Name+": "+fmt.Sprintf(format, args...), "")
	}
	dir := path.Dir(file)
	home := cmp.Or(k.HelmGlobals.ChartHome, types.HelmDefaultHome)
	if path.IsAbs(home) {
		return nil, remote(at, home, "takes charts from "+home+", a folder of the machine that runs kustomize")
	}
	if home = path.Join(dir, home); c.Version != "" && c.Repo != "" {
		home = path.Join(home, c.Name+"-"+c.Version)
	}
	where := path.Join(home, c.Name)
	from := Source{FS: s.FS, Source: appset.Source{Path: where}, KubeVersion: s.source.KubeVersion, APIVersions: s.source.APIVersions, Minor: s.source.Minor, asFound: true}
	prefix := ""
	pulled, known := s.pulled[where]
	switch {
	case c.Name == "":
		return nil, fail("its name is missing")
	case fs.ValidPath(where) && s.IsDir(where):
	case known:
		from.FS, from.Path, prefix = pulled, ".", c.Name+"-"+pulled.Version
	case c.Repo == "":
		return nil, fail("no folder %s and no repo", where)
	case s.source.Charts == nil:
		return nil, remote(at, "helmCharts", "inflates a Helm chart")
	default:
		use := lab.ChartUse{Name: c.Name, Version: c.Version, Repository: c.Repo, At: at}
		if c.Devel && c.Version == "" {
			use.Version = ">0.0.0-0"
		}
		var err error
		if pulled, err = s.source.Charts(use); err != nil {
			title := strings.TrimSpace("chart " + use.Name + " " + use.Version)
			return nil, remote(at, title, title+" is not on this machine: "+err.Error())
		}
		s.pulled[where] = pulled
		from.FS, from.Path, prefix = pulled, ".", c.Name+"-"+pulled.Version
	}
	vals, err := s.chartValues(file, c, where, from, fail)
	if err != nil {
		return nil, err
	}
	o := appset.Helm{
		ReleaseName: cmp.Or(c.ReleaseName, "release-name"), Namespace: cmp.Or(c.Namespace, k.Namespace), KubeVersion: c.KubeVersion, APIVersions: c.ApiVersions,
		SkipCrds: !c.IncludeCRDs, SkipTests: c.SkipTests,
	}
	if c.NameTemplate != "" {
		if c.ReleaseName != "" {
			return nil, fail("has releaseName and nameTemplate, which Helm rejects")
		}
		if o.ReleaseName, err = from.releaseName(c.NameTemplate, s.budget); err != nil {
			var l *limit
			if errors.As(err, &l) {
				return nil, failed(file, l)
			}
			return nil, fail("nameTemplate: %v", err)
		}
	}
	loaded, err := from.chart(s.budget)
	var docs []Document
	if err == nil {
		docs, err = from.template(loaded, o, vals, s.budget)
	}
	if e := new(Error); errors.As(err, &e) && prefix != "" {
		e.File = path.Join(prefix, e.File)
	}
	if c.SkipHooks {
		docs = slices.DeleteFunc(docs, func(d Document) bool {
			return strict.Get(d.Node, "metadata", "annotations", release.HookAnnotation) != nil
		})
	}
	for i := range docs {
		docs[i].File = path.Join(prefix, docs[i].File)
	}
	return docs, err
}

// chartValues returns the values of a chart, from valuesFile or the chart's own file, valuesInline and additionalValuesFiles.
func (s *scanner) chartValues(file string, c types.HelmChart, where string, from Source, fail func(string, ...any) error) (map[string]any, error) {
	dir := path.Dir(file)
	// load reads a file like kustomize, which permits only those in the kustomization's folder.
	load := func(name string) ([]byte, error) {
		in, at := s.FS, path.Join(dir, name)
		if name == "" {
			at = path.Join(where, "values.yaml")
		}
		if fetched(name) {
			return nil, remote(lab.Position{File: file}, name, "takes values from "+name)
		}
		if dir != "." && !strings.HasPrefix(at, dir+"/") || !fs.ValidPath(at) || path.IsAbs(name) {
			return nil, fail("%s is outside the kustomization's folder, which kustomize rejects", at)
		}
		shown := at
		if rel, ok := strings.CutPrefix(at, where+"/"); ok && from.Path == "." {
			in, at = from.FS, rel
		}
		data, err := s.budget.yaml(in, at)
		if errors.Is(err, fs.ErrNotExist) {
			err = fail("%s does not exist, which kustomize needs", shown)
		}
		return data, err
	}
	var data []byte
	var err error
	merge := cmp.Or(c.ValuesMerge, "override")
	switch {
	case !slices.Contains([]string{"merge", "override", "replace"}, merge):
		return nil, fail("valuesMerge is %q, not merge, override or replace", merge)
	case len(c.ValuesInline) > 0 && merge == "replace":
		data, err = sigsyaml.Marshal(c.ValuesInline)
	default:
		data, err = load(c.ValuesFile)
		if err == nil && len(c.ValuesInline) > 0 {
			data, err = merged(data, c.ValuesInline, merge == "override")
		}
	}
	vals := map[string]any{}
	if err == nil {
		vals, err = from.overlay(vals, data)
	}
	for _, more := range c.AdditionalValuesFiles {
		if err == nil {
			if data, err = load(more); err == nil {
				vals, err = from.overlay(vals, data)
			}
		}
	}
	if known := new(Error); err != nil && !errors.As(err, &known) {
		return nil, failed(file, fmt.Errorf("values of chart %s: %w", c.Name, err))
	}
	return vals, err
}

// merged merges values in a file and inline ones like kustomize.
func merged(file []byte, inline map[string]any, inlineWins bool) ([]byte, error) {
	dest, err := kyaml.Parse(string(file))
	if err != nil {
		return nil, err
	}
	src, err := kyaml.FromMap(inline)
	if err != nil {
		return nil, err
	}
	if !inlineWins {
		dest, src = src, dest
	}
	if dest, err = merge2.Merge(src, dest, kyaml.MergeOptions{}); err != nil {
		return nil, err
	}
	values, err := dest.Map()
	if err != nil {
		return nil, err
	}
	return sigsyaml.Marshal(values)
}

// releaseName executes a template for the name of a release.
func (s Source) releaseName(text string, b *Budget) (string, error) {
	e := &engine{Budget: b, minor: s.Minor, names: map[string]int{}}
	e.box = sandbox.New(e.step)
	root := template.New(tplName)
	root.Funcs(e.functions(root))
	if err := sandbox.Nesting(text); err != nil {
		return "", err
	}
	if _, err := root.Parse(text); err != nil {
		return "", err
	}
	sandbox.Guard(root)
	return e.execute(root, nil)
}
