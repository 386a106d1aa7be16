package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/ignore"

	"homelab/lab"
)

// maxDepth limits the nesting of folders; it ends symlink loops.
const maxDepth = 40

// budget is the remaining limit of reads.
type budget struct{ files, bytes int }

var errTooMuch = fmt.Errorf("more than %d files or %d MiB, too much to render", maxFiles, maxBytes>>20)

func (b *budget) read(fsys fs.FS, name string) ([]byte, error) {
	if b.files--; b.files < 0 {
		return nil, errTooMuch
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", name))
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(b.bytes)+1))
	if err != nil {
		return nil, err
	}
	if b.bytes -= len(data); b.bytes < 0 {
		return nil, errTooMuch
	}
	return data, nil
}

// chart loads the source's chart like `helm template`, without network.
func (s Source) chart(b *budget) (*chart.Chart, error) {
	file := path.Join(s.Path, "Chart.yaml")
	c, err := loadChart(s.FS, s.Path, b)
	if err != nil {
		return nil, failed(file, err)
	}
	if c.Metadata.Type != "" && c.Metadata.Type != "application" {
		return nil, failed(file, fmt.Errorf("chart %s is a %s and cannot be rendered alone", c.Name(), c.Metadata.Type))
	}
	var missing, where []string
	for _, d := range c.Metadata.Dependencies {
		if d == nil || vendored(c, d.Name) {
			continue
		}
		if rel, ok := strings.CutPrefix(d.Repository, "file://"); ok { // like `helm dependency build`
			if dir := path.Join(s.Path, rel); !path.IsAbs(rel) && fs.ValidPath(dir) {
				sub, err := loadChart(s.FS, dir, b)
				if err != nil {
					return nil, failed(file, fmt.Errorf("dependency %s in %s: %w", d.Name, dir, err))
				}
				c.AddDependency(sub)
				continue
			}
		}
		missing, where = append(missing, d.Name), append(where, strings.TrimSpace(d.Name+" "+d.Version+" of "+d.Repository))
	}
	if len(missing) > 0 {
		return nil, &Error{
			Problem: lab.Problem{
				Position: lab.Position{File: file}, Message: "needs " + strings.Join(where, ", ") + ", missing in " + path.Join(s.Path, "charts"),
				Cure: "helm dependency build " + s.Path,
			},
			Remote: strings.Join(where, ", "),
		}
	}
	return c, nil
}

func vendored(c *chart.Chart, name string) bool {
	for _, d := range c.Dependencies() {
		if d.Name() == name {
			return true
		}
	}
	return false
}

// loadChart is loader.LoadDir for an fs.FS.
func loadChart(fsys fs.FS, dir string, b *budget) (*chart.Chart, error) {
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
func chartFiles(fsys fs.FS, dir, rel string, rules *ignore.Rules, b *budget, files *[]*loader.BufferedFile) error {
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
			if b.files--; b.files < 0 {
				return errTooMuch
			}
			if err := chartFiles(fsys, dir, name, rules, b, files); err != nil {
				return err
			}
		default:
			data, err := b.read(fsys, path.Join(dir, name))
			if err != nil {
				return err
			}
			*files = append(*files, &loader.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))})
		}
	}
	return nil
}
