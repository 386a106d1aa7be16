package chart

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"

	"homelab/lab"
)

// pack writes a chart as a .tgz. Helm's chartutil.Save is not reproducible: it adds the current time to every entry.
func pack(c *helmchart.Chart, outDir string) (lab.Chart, error) {
	data, err := archive(c)
	if err != nil {
		return lab.Chart{}, err
	}
	sum := sha256.Sum256(data)
	out := lab.Chart{
		Name:    c.Metadata.Name,
		Version: c.Metadata.Version,
		Digest:  "sha256:" + hex.EncodeToString(sum[:]),
		Archive: filepath.Join(outDir, c.Metadata.Name+"-"+c.Metadata.Version+".tgz"),
		Origin:  lab.OriginSource,
	}
	if err := os.MkdirAll(outDir, 0o755); err != nil {
		return lab.Chart{}, err
	}
	return out, writeFile(out.Archive, data)
}

// archive returns the chart as bytes: entries by name, without times and owners.
func archive(c *helmchart.Chart) ([]byte, error) {
	files := slices.Clone(c.Raw)
	slices.SortFunc(files, func(a, b *helmchart.File) int { return cmp.Compare(a.Name, b.Name) })
	// Chart.yaml first, so that readers find the metadata early.
	if i := slices.IndexFunc(files, func(f *helmchart.File) bool { return f.Name == "Chart.yaml" }); i > 0 {
		f := files[i]
		files = slices.Insert(slices.Delete(files, i, i+1), 0, f)
	}
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(zw)
	for _, f := range files {
		if !filepath.IsLocal(f.Name) || strings.Contains(f.Name, "\\") {
			return nil, fmt.Errorf("file %q leaves the chart", f.Name)
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(c.Metadata.Name, f.Name), Mode: 0o644, Size: int64(len(f.Data)), Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := tw.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// writeFile replaces a file atomically.
func writeFile(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".chart-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
