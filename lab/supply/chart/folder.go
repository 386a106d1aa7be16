package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// folder loads a chart from its module, with what upstream's release adds to it.
func folder(r Recipe, src Sources, dir string) (*helmchart.Chart, error) {
	if len(r.Add)+len(r.Without) == 0 {
		return loader.LoadDir(dir)
	}
	work, err := os.MkdirTemp("", "lab-chart-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		return nil, err
	}
	for _, a := range r.Add {
		if err := add(a, filepath.Join(src[r.module(a)], filepath.FromSlash(a.From)), filepath.Join(work, filepath.FromSlash(a.To))); err != nil {
			return nil, err
		}
	}
	if err := metadata(r, filepath.Join(work, chartutil.ChartfileName)); err != nil {
		return nil, err
	}
	return loader.LoadDir(work)
}

// module returns the module@version of an addition, or "".
func (r Recipe) module(a Addition) string {
	if a.Part == "" {
		return r.Module
	}
	i := slices.IndexFunc(r.Parts, func(part string) bool { return strings.HasPrefix(part, a.Part+"@") })
	if i < 0 {
		return ""
	}
	return r.Parts[i]
}

func add(a Addition, from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	files := []string{from}
	if info, err := os.Stat(from); err != nil {
		return err
	} else if info.IsDir() {
		if filepath.Ext(to) == "" {
			return os.CopyFS(to, os.DirFS(from))
		}
		if files, err = filepath.Glob(filepath.Join(from, "*.yaml")); err != nil {
			return err
		}
	}
	var docs []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		docs = append(docs, string(data))
	}
	text := strings.Join(docs, "\n---\n")
	if a.When != "" {
		text = fmt.Sprintf("{{- if %s }}\n%s\n{{- end }}\n", a.When, text)
	}
	return os.WriteFile(to, []byte(text), 0o644)
}

// metadata writes what upstream's release writes into an added Chart.yaml, and takes the dependencies out that the chart is without.
func metadata(r Recipe, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", chartutil.ChartfileName, err)
	}
	if slices.ContainsFunc(r.Add, func(a Addition) bool { return a.To == chartutil.ChartfileName }) {
		doc["version"], doc["appVersion"] = r.Version, r.Version
	}
	list, _ := doc["dependencies"].([]any)
	kept := slices.DeleteFunc(slices.Clone(list), func(d any) bool {
		of, _ := d.(map[string]any)
		name, _ := of["name"].(string)
		return slices.Contains(r.Without, name)
	})
	if len(list)-len(kept) != len(r.Without) {
		return fmt.Errorf("%s does not have the dependencies %s", chartutil.ChartfileName, strings.Join(r.Without, ", "))
	}
	if doc["dependencies"] = kept; len(kept) == 0 {
		delete(doc, "dependencies")
	}
	if data, err = yaml.Marshal(doc); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
