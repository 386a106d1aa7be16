package render

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/ignore"

	"homelab/lab"
	"homelab/lab/finding"
)

// maxDepth limits the nesting of folders; it ends symlink loops.
const maxDepth = 40

// chart loads the source's chart like `helm template`, without network.
func (s Source) chart(b *Budget) (*chart.Chart, error) {
	file := path.Join(s.Path, "Chart.yaml")
	c, err := loadChart(s.FS, s.Path, b)
	if err != nil {
		return nil, failed(file, err)
	}
	if s.Minor.Has(5) {
		if err := s.asHelm4(c); err != nil {
			return nil, failed(file, err)
		}
	}
	if c.Metadata.Type != "" && c.Metadata.Type != "application" {
		return nil, failed(file, fmt.Errorf("chart %s is a %s and cannot be rendered alone", c.Name(), c.Metadata.Type))
	}
	var missing, where []string
	built := false // by `helm dependency build`, which needs the repositories of all
	for _, d := range c.Metadata.Dependencies {
		if d == nil || vendored(c, d.Name) {
			continue
		}
		if rel, ok := strings.CutPrefix(d.Repository, "file://"); ok && !s.asFound { // like `helm dependency build`
			if dir := path.Join(s.Path, rel); !path.IsAbs(rel) && fs.ValidPath(dir) {
				sub, err := loadChart(s.FS, dir, b)
				if err != nil {
					return nil, failed(file, fmt.Errorf("dependency %s in %s: %w", d.Name, dir, err))
				}
				c.AddDependency(sub)
				built = true
				continue
			}
		}
		missing, where = append(missing, d.Name), append(where, strings.TrimSpace(d.Name+" "+d.Version+" of "+d.Repository))
	}
	if s.Charts != nil && !s.asFound && (built || len(missing) > 0) {
		return c, s.dependencies(c, b)
	}
	for _, d := range c.Metadata.Dependencies {
		if built && len(missing) == 0 && d != nil && ofRepository(d) {
			missing, where = append(missing, d.Name), append(where, strings.TrimSpace(d.Name+" "+d.Version+" of "+d.Repository))
		}
	}
	if len(missing) > 0 && s.asFound {
		return nil, failed(file, fmt.Errorf("needs %s, missing in %s", strings.Join(where, ", "), path.Join(s.Path, "charts")))
	}
	if len(missing) > 0 {
		return nil, &Error{
			Problem: lab.Problem{
				Code: finding.CannotRender, Position: lab.Position{File: file}, Message: "needs " + strings.Join(where, ", ") + ", missing in " + path.Join(s.Path, "charts"),
				Cure: "helm dependency build " + s.Path,
			},
			Remote: strings.Join(where, ", "),
		}
	}
	return c, nil
}

func ofRepository(d *chart.Dependency) bool {
	return fetched(d.Repository) || strings.HasPrefix(d.Repository, "oci://")
}

// dependencies adds those of chart repositories, also in place of vendored ones, like `helm dependency build`: in the versions of Chart.lock, if there is one.
func (s Source) dependencies(c *chart.Chart, b *Budget) error {
	file := path.Join(s.Path, "Chart.yaml")
	if c.Lock != nil && c.Metadata.APIVersion == chart.APIVersionV2 {
		data, err := json.Marshal([2][]*chart.Dependency{c.Metadata.Dependencies, c.Lock.Dependencies})
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); err != nil || sum != c.Lock.Digest {
			return &Error{Problem: lab.Problem{
				Code: finding.CannotRender, Position: lab.Position{File: path.Join(s.Path, "Chart.lock")}, Message: "is not of the dependencies in Chart.yaml, so that Helm builds none", Cure: "helm dependency update " + s.Path,
			}}
		}
	}
	var added []*chart.Chart
	pulled := map[string]bool{}
	var absent []string
	for i, d := range c.Metadata.Dependencies {
		if d == nil || !ofRepository(d) {
			if d != nil && !vendored(c, d.Name) {
				absent = append(absent, strings.TrimSpace(d.Name+" "+d.Version+" of "+d.Repository)+": lab knows no such repository")
			}
			continue
		}
		use := lab.ChartUse{Name: d.Name, Version: d.Version, Repository: d.Repository, At: lab.Position{File: file, Line: 1}}
		if c.Lock != nil && i < len(c.Lock.Dependencies) && c.Lock.Dependencies[i].Name == d.Name {
			use.Version = c.Lock.Dependencies[i].Version
		}
		files, err := s.Charts(use)
		if err != nil {
			absent = append(absent, strings.TrimSpace("chart "+use.Name+" "+use.Version)+" is not on this machine: "+err.Error())
			continue
		}
		sub, err := loadChart(files, ".", b)
		if err != nil {
			return failed(file, fmt.Errorf("dependency %s: %w", d.Name, err))
		}
		if !pulled[d.Name] {
			added = append(added, sub)
		}
		pulled[d.Name] = true
	}
	if len(absent) > 0 {
		return remote(lab.Position{File: file}, strings.Join(absent, ", "), "needs its dependencies: "+strings.Join(absent, ", "))
	}
	for _, sub := range c.Dependencies() {
		if !pulled[sub.Name()] {
			added = append(added, sub)
		}
	}
	c.SetDependencies(added...)
	return nil
}

// asHelm4 changes what Helm 4 reads otherwise in a chart and its subcharts.
func (s Source) asHelm4(c *chart.Chart) error {
	if v := c.Metadata.APIVersion; v != chart.APIVersionV1 && v != chart.APIVersionV2 {
		return fmt.Errorf("chart %s has apiVersion %s, which Helm 4 does not know", c.Name(), v)
	}
	for _, f := range c.Raw {
		if f.Name == chartutil.ValuesfileName && bytes.Contains(f.Data, []byte("\n---")) {
			vals, err := s.overlay(map[string]any{}, f.Data)
			if err != nil {
				return fmt.Errorf("%s of chart %s: %w", f.Name, c.Name(), err)
			}
			c.Values = vals
		}
	}
	for _, sub := range c.Dependencies() {
		if err := s.asHelm4(sub); err != nil {
			return err
		}
	}
	return nil
}

func vendored(c *chart.Chart, name string) bool {
	return slices.ContainsFunc(c.Dependencies(), func(d *chart.Chart) bool { return d.Name() == name })
}

// loadChart is loader.LoadDir for an fs.FS.
func loadChart(fsys fs.FS, dir string, b *Budget) (*chart.Chart, error) {
	rules := ignore.Empty()
	if name := path.Join(dir, ignore.HelmIgnore); isFile(fsys, name) {
		data, err := b.read(fsys, name)
		if err != nil {
			return nil, err
		}
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, err
		}
	}
	rules.AddDefaults()
	var files []*loader.BufferedFile
	if err := chartFiles(fsys, dir, "", rules, b, &files); err != nil {
		return nil, err
	}
	return loader.LoadFiles(files)
}

// chartFiles reads the files below dir/rel that are not ignored. Like Helm, it follows symlinks.
func chartFiles(fsys fs.FS, dir, rel string, rules *ignore.Rules, b *Budget, files *[]*loader.BufferedFile) error {
	if strings.Count(rel, "/") > maxDepth {
		return fmt.Errorf("folders nest more than %d deep", maxDepth)
	}
	entries, err := fs.ReadDir(fsys, path.Join(dir, rel))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(rel, e.Name())
		info, err := fs.Stat(fsys, path.Join(dir, name))
		if err != nil {
			return err
		}
		switch {
		case rules.Ignore(name, info):
		case info.IsDir():
			if err := b.take(1, 0); err != nil {
				return err
			}
			if err := chartFiles(fsys, dir, name, rules, b, files); err != nil {
				return err
			}
		default:
			data, err := b.read(fsys, path.Join(dir, name))
			if err != nil {
				return err
			}
			if err := b.add(name, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), files); err != nil {
				return fmt.Errorf("%s: %w", path.Join(dir, name), err)
			}
		}
	}
	return nil
}

// add adds a file of a chart. Archives of subcharts are unpacked, as Helm limits each of them but not all.
func (b *Budget) add(name string, data []byte, files *[]*loader.BufferedFile) error {
	switch path.Ext(name) {
	case ".yaml", ".json":
		if err := values(data); err != nil && !strings.HasPrefix(name, "files/") {
			return err
		}
	case ".tgz":
		if path.Base(path.Dir(name)) == "charts" && !strings.ContainsAny(path.Base(name)[:1], "_.") {
			return b.unpack(name, data, files)
		}
	}
	*files = append(*files, &loader.BufferedFile{Name: name, Data: data})
	return nil
}

// unpack adds the files of an archive as those of a folder beside it.
func (b *Budget) unpack(name string, data []byte, files *[]*loader.BufferedFile) error {
	if strings.Count(name, "/charts/") > maxArchives {
		return over("archives nest more than %d deep", maxArchives)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unzipped, int64(max(b.bytes, 0))+1)) // headers too, which Helm does not count
	if err == nil {
		err = b.take(0, int(size))
	}
	if err != nil {
		return err
	}
	unpacked, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if err := b.take(len(unpacked), 0); err != nil {
		return err
	}
	for _, f := range unpacked {
		if err := b.add(path.Join(name+"-unpacked", f.Name), f.Data, files); err != nil {
			return err
		}
	}
	return nil
}

// maxArchives limits the nesting of archives.
const maxArchives = 5
