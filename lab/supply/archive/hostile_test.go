package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"homelab/lab"
)

type entry struct {
	name string
	data []byte
	kind byte
}

// bundle writes arbitrary entries as an archive.
func bundle(t testing.TB, entries []entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw, err := zstd.NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		h := header(e.name, int64(len(e.data)))
		if e.kind != 0 {
			h.Typeflag, h.Linkname, h.Size, e.data = e.kind, "/etc/passwd", 0, nil
		}
		if err := errors.Join(tw.WriteHeader(h), second(tw.Write(e.data))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// good returns the entries of a small valid archive, index first.
func good(t testing.TB) []entry {
	t.Helper()
	img := fake{component: "a", ref: "h.test/a:1", layers: [][]byte{content(1, 3000), content(2, 2000)}}.write(t)
	var out []entry
	tr := tar.NewReader(bytes.NewReader(unzstd(t, save(t, []lab.Image{img}, []lab.Chart{fakeChart(t, "c", "1.0.0")}))))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry{name: h.Name, data: data})
	}
}

// edited returns a valid archive with a modified index.
func edited(t testing.TB, change func(*index)) []entry {
	t.Helper()
	entries := good(t)
	var x index
	if err := json.Unmarshal(entries[0].data, &x); err != nil {
		t.Fatal(err)
	}
	change(&x)
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].data = data
	return entries
}

// refused checks that a file is rejected with exit code 2 and leaves nothing behind.
func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	parent := t.TempDir()
	dir, file := filepath.Join(parent, "dest"), filepath.Join(parent, "b.tar.zst")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(context.Background(), file, dir, nil)
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Code != "bad_bundle" || e.Cure == "" || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a bad_bundle with %q", err, want)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if siblings, err := os.ReadDir(parent); err != nil || len(siblings) != 2 {
		t.Errorf("left %v, %v", siblings, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	huge := func(size int64) []byte { // a header that promises more than follows
		var buf bytes.Buffer
		zw, err := zstd.NewWriter(&buf)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(tar.NewWriter(zw).WriteHeader(header(indexFile, size)), zw.Close()); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	with := func(extra ...entry) []byte { return bundle(t, append(good(t), extra...)) }
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"an empty file", nil, "unexpected EOF"},
		{"not zstd", []byte("PK\x03\x04 not a bundle at all"), "magic"},
		{"an empty archive", bundle(t, nil), "unexpected EOF"},
		{"no index first", bundle(t, good(t)[1:]), "not with its index"},
		{"a linked index", bundle(t, []entry{{name: indexFile, kind: tar.TypeSymlink}}), "not with its index"},
		{"a large index", huge(maxIndex + 1), "not with its index"},
		{"a truncated index", huge(100), "unexpected EOF"},
		{"an invalid index", bundle(t, []entry{{name: indexFile, data: []byte("{")}}), "lab.json"},
		{"an index with unknown keys", bundle(t, []entry{{name: indexFile, data: []byte(`{"version":1,"run":"x"}`)}}), "unknown field"},
		{"another format", bundle(t, edited(t, func(x *index) { x.Version = 3 })), "format 3"},
		{"a maker that writes on the terminal", bundle(t, edited(t, func(x *index) { x.Made.By = "v1\x1b[2J" })), "not made by a lab"},
		{"a key that is none", bundle(t, edited(t, func(x *index) { x.Images[0].Key = "../x" })), "has key"},
		{"the key of another recipe", bundle(t, edited(t, func(x *index) { x.Images[0].Key = strings.Repeat("0", 64) })), "with recipe"},
		{"a path with ..", with(entry{name: "../escape", data: []byte("x")}), "unexpected"},
		{"an absolute path", with(entry{name: "/etc/escape", data: []byte("x")}), "unexpected"},
		{"a symlink", with(entry{name: "charts/x.tgz", kind: tar.TypeSymlink}), "not a plain file"},
		{"a folder", with(entry{name: "charts/", kind: tar.TypeDir}), "not a plain file"},
		{"a duplicate file", with(good(t)[len(good(t))-1]), "unexpected"},
		{"the index twice", with(good(t)[0]), "unexpected"},
		{"a file is missing", bundle(t, good(t)[:len(good(t))-1]), "1 files of its index are missing"},
		{"a chart name with ..", bundle(t, edited(t, func(x *index) { x.Charts[0].Name = ".." })), "not one that lab writes"},
		{"an image name with ..", bundle(t, edited(t, func(x *index) { x.Images[0].Name = "../../a" })), "not one that lab writes"},
		{"an invalid ref", bundle(t, edited(t, func(x *index) { x.Images[0].Ref = "a\nb:1" })), "not one that lab writes"},
		{"a duplicate image", bundle(t, edited(t, func(x *index) { x.Images = append(x.Images, x.Images[0]) })), "not one that lab writes"},
		{"a digest with ..", bundle(t, edited(t, func(x *index) { x.Images[0].Layers[0].Digest = "sha256:../../x" })), "has digest"},
		{"a layer of minus one byte", bundle(t, edited(t, func(x *index) { x.Images[0].Layers[0].Size = -1 })), "-1 bytes"},
		{"a layer larger than any", bundle(t, edited(t, func(x *index) { x.Images[0].Layers[0].Size = maxBlob + 1 })), "bytes"},
		{"more than a disk", bundle(t, edited(t, func(x *index) {
			for i := range 5 {
				x.Images[0].Layers = append(x.Images[0].Layers, Blob{digestOf([]byte{byte(i)}), maxBlob})
			}
		})), "holds more than"},
		{"one digest, two sizes", bundle(t, edited(t, func(x *index) {
			x.Images[0].Layers = append(x.Images[0].Layers, Blob{x.Images[0].Layers[0].Digest, 1})
		})), "two sizes"},
		{"a layer of another size", bundle(t, edited(t, func(x *index) { x.Images[0].Layers[0].Size++ })), "were expected"},
		{"other layers than the configuration's", bundle(t, edited(t, func(x *index) { x.Images[0].Layers = x.Images[0].Layers[:1] })), "different layers"},
		{"a configuration listed as a layer", bundle(t, edited(t, func(x *index) {
			x.Images[0].Layers = append(x.Images[0].Layers, Blob{x.Images[0].Digest, x.Images[0].Config})
		})), "has no configuration"},
	} {
		t.Run(tc.name, func(t *testing.T) { refused(t, tc.data, tc.want) })
	}
}

func TestLoadRefusesChangedBytes(t *testing.T) {
	for i, e := range good(t) {
		if i == 0 || e.name == layoutFile || e.name == ociIndex {
			continue
		}
		t.Run(strings.ReplaceAll(e.name, "/", "-")[:min(20, len(e.name))], func(t *testing.T) {
			entries := good(t)
			entries[i].data = bytes.Clone(e.data)
			entries[i].data[len(e.data)/2] ^= 1
			refused(t, bundle(t, entries), "has digest")
		})
	}
}

func TestLoadRefusesTruncatedFiles(t *testing.T) {
	whole := bundle(t, good(t))
	for _, n := range []int{1, 3, 10, len(whole) / 4, len(whole) / 2, len(whole) - 5, len(whole) - 1} {
		refused(t, whole[:n], "")
	}
}

func TestLoadRefusesTrailingData(t *testing.T) {
	whole := bundle(t, good(t))
	refused(t, append(bytes.Clone(whole), "trailing"...), "")
	refused(t, append(bytes.Clone(whole), bundle(t, []entry{{name: "x", data: make([]byte, maxIndex)}})...), "trailing data")
}

// A zstd frame may demand gigabytes of memory.
func TestWindow(t *testing.T) {
	var buf bytes.Buffer
	zw, err := zstd.NewWriter(&buf, zstd.WithWindowSize(128<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(zw, zeros{}, 200<<20); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, buf.Bytes(), "window")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestNoFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	_, err := Inspect(missing)
	_, _, err2 := Load(t.Context(), missing, t.TempDir(), nil)
	for _, err := range []error{err, err2} {
		var e *lab.Error
		if !errors.As(err, &e) || e.Exit != lab.ExitInvalid || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzLoad fuzzes the reader after decompression. Nothing may be written outside the folder, and accepted content must
// match the index. Use -fuzzminimizetime 10x: minimizing archives takes forever.
func FuzzLoad(f *testing.F) {
	raw := func(data []byte) []byte {
		zr, err := zstd.NewReader(bytes.NewReader(data))
		if err != nil {
			f.Fatal(err)
		}
		defer zr.Close()
		out, err := io.ReadAll(zr)
		if err != nil {
			f.Fatal(err)
		}
		return out
	}
	f.Add(raw(bundle(f, good(f))))
	f.Add(raw(bundle(f, append(good(f), entry{name: "../x", data: []byte("x")}))))
	f.Add(raw(bundle(f, edited(f, func(x *index) { x.Images[0].Name = ".." }))))
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		images, charts, err := unpack(bytes.NewReader(data), dir)
		if siblings, _ := os.ReadDir(parent); len(siblings) != 1 {
			t.Fatalf("written outside the folder: %v", siblings)
		}
		if err != nil {
			return
		}
		for _, i := range images {
			a, err := openImage(i)
			if err != nil {
				t.Fatal(err)
			}
			a.Close()
		}
		for _, c := range charts {
			b, err := os.ReadFile(c.Archive)
			if err != nil || digestOf(b) != c.Digest {
				t.Fatal(c, err)
			}
		}
	})
}
