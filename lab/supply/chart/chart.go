// Package chart builds Helm charts from Go modules, for machines that reach no chart repository. Charts in a module are packed unchanged; Argo CD's is built from the
// module's manifests, with the values of the upstream argo-cd chart. Output is reproducible.
package chart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"

	"homelab/lab"
	"homelab/lab/supply/gosum"
)

//go:embed recipes.yaml
var recipesYAML []byte

//go:embed *.go argocd flux
var code embed.FS

// Code is a digest of everything that charts depend on in addition to their recipes: the code of this package, the libraries that write YAML and charts, and
// Go.
var Code = sync.OnceValue(func() string {
	h := sha256.New()
	err := fs.WalkDir(code, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		data, err := code.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
		return err
	})
	if err != nil {
		panic(err) // embedded files are readable
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		fmt.Fprintln(h, info.GoVersion)
		for _, d := range info.Deps {
			if d.Path == "helm.sh/helm/v3" || d.Path == "go.yaml.in/yaml/v3" {
				fmt.Fprintln(h, d.Path, d.Version, d.Sum)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
})

// Kind is how a chart is built from its module.
type Kind string

// Kinds
const (
	KindFolder Kind = "folder"  // the module contains the chart
	KindArgoCD Kind = "argo-cd" // the chart is built from install.yaml
	KindFlux   Kind = "flux2"   // the chart is built from the manifests of several modules

	KindManifests Kind = "manifests" // the chart is built from a file of manifests
)

// Recipe describes the source of a chart.
type Recipe struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"` // expected chart version
	Kind    Kind   `yaml:"kind"`
	Module  string `yaml:"module"` // module@version
	Path    string `yaml:"path"`   // folder or file within the module

	Parts []string `yaml:"parts"` // further modules, module@version

	// Only of KindManifests.
	More  []string `yaml:"more"`  // further files of manifests, or folders of them
	Image string   `yaml:"image"` // of the Deployment, without a tag, if its file has a placeholder

	// Only of KindFolder.
	Add     []Addition `yaml:"add"`     // what upstream's release adds to the folder
	Without []string   `yaml:"without"` // dependencies that no module has
}

// Addition is a file or folder that upstream's release adds to a chart.
type Addition struct {
	Part string `yaml:"part"` // one of Parts, without its version; the recipe's module if empty
	From string `yaml:"from"` // within that module
	To   string `yaml:"to"`   // within the chart; a file with all manifests of From if that is a folder and To is none
	When string `yaml:"when"` // value that includes a template
}

// Sources are the folders of a recipe's modules, by module@version.
type Sources map[string]string

// Recipes returns lab's recipes, in order.
func Recipes() ([]Recipe, error) { return parseRecipes(recipesYAML) }

// Find returns the recipe of a chart; an empty version selects the first.
func Find(name, version string) (Recipe, error) {
	recipes, err := Recipes()
	if err != nil {
		return Recipe{}, err
	}
	var have []string
	for _, r := range recipes {
		if r.Name != name {
			continue
		}
		if version == "" || r.Version == version {
			return r, nil
		}
		have = append(have, r.Version)
	}
	e := &lab.Error{Exit: lab.ExitFailed, Code: "no_chart", Message: fmt.Sprintf("no recipe for chart %s %s", name, version)}
	if len(have) > 0 {
		e.Cure = "available versions: " + strings.Join(have, ", ")
	}
	return Recipe{}, e
}

func parseRecipes(data []byte) ([]Recipe, error) {
	var doc struct {
		Charts []Recipe `yaml:"charts"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("chart recipes: %w", err)
	}
	seen := map[string]bool{}
	for _, r := range doc.Charts {
		id := r.Name + " " + r.Version
		switch {
		case r.Name == "" || r.Version == "" || r.Path == "" || !strings.Contains(r.Module, "@"):
			return nil, fmt.Errorf("chart recipes: %s: name, version, module@version and path are required", id)
		case !slices.Contains([]Kind{KindFolder, KindArgoCD, KindFlux, KindManifests}, r.Kind):
			return nil, fmt.Errorf("chart recipes: %s: unknown kind %q", id, r.Kind)
		case !filepath.IsLocal(r.Path):
			return nil, fmt.Errorf("chart recipes: %s: path %q leaves the module", id, r.Path)
		case r.Kind != KindFolder && len(r.Add)+len(r.Without) > 0:
			return nil, fmt.Errorf("chart recipes: %s: add and without are of kind %q", id, KindFolder)
		case r.Kind != KindManifests && len(r.More)+len(r.Image) > 0:
			return nil, fmt.Errorf("chart recipes: %s: more and image are of kind %q", id, KindManifests)
		case slices.ContainsFunc(r.More, func(file string) bool { return !filepath.IsLocal(file) }):
			return nil, fmt.Errorf("chart recipes: %s: more leaves the module", id)
		case slices.ContainsFunc(r.Add, func(a Addition) bool { return !filepath.IsLocal(a.From) || !filepath.IsLocal(a.To) }):
			return nil, fmt.Errorf("chart recipes: %s: add needs from and to, within the module and the chart", id)
		case slices.ContainsFunc(r.Add, func(a Addition) bool { return r.module(a) == "" }):
			return nil, fmt.Errorf("chart recipes: %s: add has a part that parts lacks", id)
		case seen[id]:
			return nil, fmt.Errorf("chart recipes: duplicate %s", id)
		}
		seen[id] = true
	}
	return doc.Charts, nil
}

// Modules returns the recipe's modules, module@version.
func (r Recipe) Modules() []string { return append([]string{r.Module}, r.Parts...) }

// App returns the version of the application that the chart installs, without v, or "" if the recipe does not say.
func (r Recipe) App() string {
	if r.Kind == KindFolder {
		return ""
	}
	return r.Version
}

// Download downloads the recipe's modules with the go command and returns their folders in the module cache.
func Download(ctx context.Context, r Recipe) (Sources, error) {
	src, sums := Sources{}, gosum.Recorded()
	for _, module := range r.Modules() {
		dir, err := sums.Download(ctx, module)
		if err != nil {
			return nil, err
		}
		src[module] = dir
	}
	return src, nil
}

// Build builds the recipe's chart from its modules and writes it to outDir as NAME-VERSION.tgz.
func Build(ctx context.Context, r Recipe, src Sources, outDir string) (lab.Chart, error) {
	if err := ctx.Err(); err != nil {
		return lab.Chart{}, err
	}
	dir := filepath.Join(src[r.Module], filepath.FromSlash(r.Path))
	var c *helmchart.Chart
	var err error
	switch r.Kind {
	case KindFolder:
		c, err = folder(r, src, dir)
	case KindArgoCD:
		c, err = argoCD(r, dir)
	case KindFlux:
		c, err = flux(r, src)
	case KindManifests:
		c, err = manifests(r, src[r.Module])
	default:
		err = fmt.Errorf("unknown kind %q", r.Kind)
	}
	if err != nil {
		return lab.Chart{}, fmt.Errorf("chart %s %s: %w", r.Name, r.Version, err)
	}
	if got := c.Metadata; got.Name != r.Name || got.Version != r.Version {
		return lab.Chart{}, fmt.Errorf("chart %s %s: module %s contains %s %s", r.Name, r.Version, r.Module, got.Name, got.Version)
	}
	return pack(c, outDir)
}
