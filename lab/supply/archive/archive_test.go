package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"homelab/lab"
)

// fake is a synthetic image: its layers and their form in the docker-archive.
type fake struct {
	component, ref string
	layers         [][]byte
	isGzip         bool // compressed layers, as after a pull
	isLinked       bool // layers are links to other files, as by docker save
}

func content(seed uint64, n int) []byte {
	data := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range data {
		data[i] = "abcdefgh"[r.IntN(8)] // compressible, as programs are
	}
	return data
}

func (f fake) write(t testing.TB) lab.Image {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	var diffs, names []string
	put := func(name string, data []byte) {
		if err := errors.Join(tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}), second(tw.Write(data))); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range f.layers {
		diffs = append(diffs, digestOf(l))
		file := fmt.Sprintf("%d/layer.tar", i)
		if f.isGzip {
			var z bytes.Buffer
			zw := gzip.NewWriter(&z)
			if err := errors.Join(second(zw.Write(l)), zw.Close()); err != nil {
				t.Fatal(err)
			}
			l = z.Bytes()
		}
		if f.isLinked {
			put("real/"+file, l)
			if err := tw.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeSymlink, Linkname: "../real/" + file}); err != nil {
				t.Fatal(err)
			}
		} else {
			put(file, l)
		}
		names = append(names, file)
	}
	config, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": diffs}})
	if err != nil {
		t.Fatal(err)
	}
	put("config.json", config)
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{f.ref}, "Layers": names}})
	if err != nil {
		t.Fatal(err)
	}
	put("manifest.json", manifest)
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return lab.Image{Name: f.component, Ref: f.ref, Digest: digestOf(config), Archive: file, Size: int64(buf.Len()), Origin: lab.OriginSource}
}

func second[T any](_ T, err error) error { return err }

func fakeChart(t testing.TB, chart, version string) lab.Chart {
	t.Helper()
	data := []byte("chart " + chart + version)
	file := filepath.Join(t.TempDir(), "c.tgz")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return lab.Chart{Name: chart, Version: version, Digest: digestOf(data), Archive: file, Origin: lab.OriginSource}
}

func sample(t testing.TB) ([]lab.Image, []lab.Chart) {
	base, own := content(1, 300_000), content(2, 70_000)
	images := []lab.Image{
		fake{component: "gitea", ref: "docker.gitea.com/gitea:1.26.0", layers: [][]byte{base, content(3, 50_000)}}.write(t),
		fake{component: "argocd", ref: "quay.io/argoproj/argocd:v3.2.11", layers: [][]byte{base, own, {}, own}, isGzip: true}.write(t),
		fake{component: "node", ref: "lab/node:v1.36.3-abc", layers: [][]byte{content(4, 10_000)}, isLinked: true}.write(t),
	}
	return images, []lab.Chart{fakeChart(t, "podinfo", "6.9.2"), fakeChart(t, "podinfo", "6.7.0")}
}

func save(t testing.TB, images []lab.Image, charts []lab.Chart) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lab.tar.zst")
	if err := Save(t.Context(), file, Goods{Images: images, Charts: charts}, nil); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRoundTrip(t *testing.T) {
	images, charts := sample(t)
	file := save(t, images, charts)
	dir := t.TempDir()
	gotImages, gotCharts, err := Load(t.Context(), file, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(gotImages) != len(images) || len(gotCharts) != len(charts) {
		t.Fatalf("got %v and %v", gotImages, gotCharts)
	}
	for _, want := range images {
		i := slices.IndexFunc(gotImages, func(x lab.Image) bool { return x.Name == want.Name })
		got := gotImages[i]
		info, err := os.Stat(got.Archive)
		if err != nil || got.Ref != want.Ref || got.Digest != want.Digest || got.Origin != lab.OriginBundle || got.Size != info.Size() {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		tag, err := name.NewTag(want.Ref)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(got.Archive, &tag) // cross-check with another docker-archive reader
		if err != nil {
			t.Fatal(err)
		}
		if d, err := img.ConfigName(); err != nil || d.String() != want.Digest {
			t.Errorf("%s contains %s, %v", want.Name, d, err)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		a, err := openImage(want)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for i, l := range a.layers {
			rc, err := layers[i].Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(rc)
			if err != nil || digestOf(data) != l.Digest {
				t.Errorf("layer %d of %s has digest %s, %v", i, want.Name, digestOf(data), err)
			}
		}
	}
	for _, want := range charts {
		i := slices.IndexFunc(gotCharts, func(x lab.Chart) bool { return x.Version == want.Version })
		data, err := os.ReadFile(gotCharts[i].Archive)
		if err != nil || digestOf(data) != want.Digest || gotCharts[i].Digest != want.Digest {
			t.Errorf("got %+v, %v, want %+v", gotCharts[i], err, want)
		}
	}
	if _, _, err := Load(t.Context(), file, dir, nil); err != nil { // again, into the same folder
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != len(images)+len(charts)+1 {
		t.Errorf("the folder contains %v, %v", left, err)
	}
	c, err := Inspect(file)
	if err != nil || len(c.Images) != 3 || c.Images[0].Name != "argocd" || c.Images[0].Size() < 440_000 || c.Charts[0].Version != "6.7.0" {
		t.Errorf("inspect: %+v, %v", c, err)
	}
}

func TestSaveDeterministic(t *testing.T) {
	images, charts := sample(t)
	a, err := os.ReadFile(save(t, images, charts))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(images)
	slices.Reverse(charts)
	b, err := os.ReadFile(save(t, images, charts))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("%d and %d bytes differ, %v", len(a), len(b), err)
	}
	loaded, loadedCharts, err := Load(t.Context(), save(t, images, charts), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := os.ReadFile(save(t, loaded, loadedCharts))
	if err != nil || !bytes.Equal(a, c) {
		t.Errorf("a bundle of a loaded bundle differs, %v", err)
	}
}

func TestSharedLayers(t *testing.T) {
	images, _ := sample(t)
	names := map[string]int{}
	tr := tar.NewReader(bytes.NewReader(unzstd(t, save(t, images, nil))))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name]++
	}
	if n := names[blobName(digestOf(content(1, 300_000)))]; n != 1 {
		t.Errorf("the shared layer occurs %d times", n)
	}
	if len(names) != 3+3*2+5 {
		t.Errorf("entries: %v", names)
	}
}

// TestOCILayout reads an unpacked bundle as an OCI layout with go-containerregistry.
func TestOCILayout(t *testing.T) {
	images, charts := sample(t)
	dir := t.TempDir()
	tr := tar.NewReader(bytes.NewReader(unzstd(t, save(t, images, charts))))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		file := filepath.Join(dir, h.Name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil || len(m.Manifests) != 3 {
		t.Fatal(m, err)
	}
	for _, d := range m.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := img.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(images, func(x lab.Image) bool {
			return x.Digest == got.String() && x.Ref == d.Annotations["org.opencontainers.image.ref.name"]
		}) {
			t.Errorf("%s is %s", d.Annotations, got)
		}
	}
}

func TestSaveRefuses(t *testing.T) {
	good := fake{component: "a", ref: "h.test/a:1", layers: [][]byte{content(1, 1000)}}.write(t)
	other := good
	other.Digest = digestOf(nil)
	broken := fake{component: "a", ref: "h.test/a:1", layers: [][]byte{content(1, 1000)}}.write(t)
	data, err := os.ReadFile(broken.Archive)
	if err != nil {
		t.Fatal(err)
	}
	data[600]++ // within the layer
	if err := os.WriteFile(broken.Archive, data, 0o644); err != nil {
		t.Fatal(err)
	}
	badName := good
	badName.Name = "../a"
	badChart := fakeChart(t, "c", "1.0.0")
	badChart.Digest = digestOf(nil)
	for _, tc := range []struct {
		name   string
		images []lab.Image
		charts []lab.Chart
		want   string
	}{
		{"another image", []lab.Image{other}, nil, "does not hold image"},
		{"a broken layer", []lab.Image{broken}, nil, "has digest"},
		{"a name outside the folder", []lab.Image{badName}, nil, "not one that lab writes"},
		{"a duplicate name", []lab.Image{good, good}, nil, "not one that lab writes"},
		{"a changed chart", nil, []lab.Chart{badChart}, "has digest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			err := Save(t.Context(), filepath.Join(dir, "b"), Goods{Images: tc.images, Charts: tc.charts}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	images, charts := sample(t)
	file := save(t, images, charts)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if err := Save(ctx, filepath.Join(dir, "b"), Goods{Images: images, Charts: charts}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("save: %v", err)
	}
	if _, _, err := Load(ctx, file, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v", err)
	}
	left, _ := os.ReadDir(dir)
	if slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != ".load.lock" }) {
		t.Errorf("left %v", left)
	}
}

func unzstd(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zr, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	out, err := zr.DecodeAll(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
