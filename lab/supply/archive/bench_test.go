package archive

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"homelab/lab"
)

// benchImages returns real images if LAB_BENCH_STORE names lab's store (~/.cache/lab/store), else synthetic ones that
// compress about as well.
func benchImages(b *testing.B) []lab.Image {
	store := os.Getenv("LAB_BENCH_STORE")
	if store == "" {
		base := content(1, 16<<20)
		return []lab.Image{
			fake{component: "a", ref: "h.test/a:1", layers: [][]byte{base, content(2, 16<<20)}}.write(b),
			fake{component: "b", ref: "h.test/b:1", layers: [][]byte{base, content(3, 16<<20)}}.write(b),
		}
	}
	var images []lab.Image
	for _, name := range []string{"node", "gitea", "argocd", "redis", "podinfo", "podinfo-old", "metrics-server"} {
		files, err := filepath.Glob(filepath.Join(store, name+"-????????????????", "meta.json"))
		if err != nil || len(files) == 0 {
			b.Fatal(name, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			var meta struct{ Name, Ref, Digest string }
			if err := json.Unmarshal(data, &meta); err != nil {
				b.Fatal(err)
			}
			archive := filepath.Join(filepath.Dir(file), "image.tar")
			if _, err := os.Stat(archive); err == nil && meta.Name == name {
				images = append(images, lab.Image{Name: meta.Name, Ref: meta.Ref, Digest: meta.Digest, Archive: archive})
				break
			}
		}
	}
	return images
}

func BenchmarkSave(b *testing.B) {
	images := benchImages(b)
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression} {
		b.Run(level.String(), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "lab.tar.zst")
			var in, out int64
			for b.Loop() {
				s := &saver{ctx: b.Context(), level: level}
				if err := s.add(images, nil); err != nil {
					b.Fatal(err)
				}
				f, err := os.Create(file)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.write(f, nil); err != nil {
					b.Fatal(err)
				}
				in = 0
				seen := map[string]bool{}
				for _, i := range s.index.Images {
					for _, l := range i.Layers {
						if !seen[l.Digest] {
							in, seen[l.Digest] = in+l.Size, true
						}
					}
				}
				info, err := f.Stat()
				if err != nil {
					b.Fatal(err)
				}
				out = info.Size()
				f.Close()
				s.close()
			}
			b.SetBytes(in)
			b.ReportMetric(float64(out)/1e6, "MB-out")
			b.ReportMetric(float64(in)/float64(out), "ratio")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	images := benchImages(b)
	file := filepath.Join(b.TempDir(), "lab.tar.zst")
	if err := Save(b.Context(), file, Goods{Images: images}, nil); err != nil {
		b.Fatal(err)
	}
	var size int64
	for b.Loop() {
		got, _, err := Load(b.Context(), file, b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		size = 0
		for _, i := range got {
			size += i.Size
		}
	}
	b.SetBytes(size)
}
