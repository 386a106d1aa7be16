package source

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
	"homelab/lab/supply/store"
)

const imageRecipes = `components:
- {name: root, kind: rootfs, suite: bookworm}
- {name: prog, kind: programs, module: example.com/prog, version: v1.0.0, packages: [.]}
- name: img
  kind: image
  version: "1"
  ref: example.com/img:1
  base: root
  contents:
  - {from: prog, paths: [prog], to: /sbin/}
  - {from: prog, paths: [prog], to: /usr/bin/renamed, owner: "7:8", mode: "0700"}
  - {text: "me:x:1:1::/:/bin/sh\n", to: /etc/passwd, append: true}
  - {text: "and again\n", to: /etc/passwd, append: true}
  - {link: ../x, to: /opt/deep/link}
  - {dir: true, to: /data, mode: "1777"}
  - {file: su-exec, to: /usr/local/bin/su-exec, mode: "0755"}
  - {from: root, paths: ["/usr/share/c*"]}
  entrypoint: [/sbin/prog]
  env: [A=b]
  user: "7"
  workdir: /data
  ports: [80/tcp]
  volumes: [/data]
  stopsignal: SIGRTMIN+3
`

// made returns a store with all dependencies of the image.
func made(t *testing.T, r *Recipes) *store.Store {
	t.Helper()
	return madeOf(t, r, "1.0-1")
}

// madeOf is made with a version of bash.
func madeOf(t *testing.T, r *Recipes, bash string) *store.Store {
	t.Helper()
	s := newStore(t)
	put := func(name string, build func(dir string) (store.Meta, error)) {
		key, err := r.Key(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Make(t.Context(), name, key, nil, func(_ context.Context, dir string) (store.Meta, error) { return build(dir) }); err != nil {
			t.Fatal(err)
		}
	}
	put("root", func(dir string) (store.Meta, error) {
		l := layer{}
		l.link("sbin", "usr/sbin")
		l.dir("usr/sbin", 0o755, 0, 0)
		l.bytes("etc/passwd", []byte("root:x:0:0::/:/bin/sh\n"), 0o640, 0, 42)
		l.bytes(dpkgStatus, fmt.Appendf(nil, statusForm, bash), 0o644, 0, 0)
		l.bytes("usr/share/certs", []byte("certs"), 0o644, 0, 0)
		l.parents(func(string) bool { return false })
		f, err := l.writeFile(dir + "/" + layerFile)
		if err != nil {
			return store.Meta{}, err
		}
		return store.Meta{Digest: f.digest.String()}, nil
	})
	put("prog", func(dir string) (store.Meta, error) {
		l := layer{}
		l.bytes("x", nil, 0, 0, 0)
		_, err := l.writeFile(dir + "/prog")
		return store.Meta{}, err
	})
	return s
}

func TestImage(t *testing.T) {
	r, err := Parse("recipes.yaml", []byte(imageRecipes))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	img, err := New(r, made(t, r)).Image(t.Context(), "img", func(s string) { said = append(said, s) })
	if err != nil {
		t.Fatal(err)
	}
	if img.Ref != "example.com/img:1" || img.Name != "img" || img.Origin != lab.OriginSource || img.Size == 0 || len(said) == 0 {
		t.Errorf("%+v, progress %q", img, said)
	}
	got, err := tarball.ImageFromPath(img.Archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, r, img, got)
	files := filesOf(t, got)
	for name, want := range map[string]string{
		"etc/passwd": "root:x:0:0::/:/bin/sh\nme:x:1:1::/:/bin/sh\nand again\n", "sbin": "-> usr/sbin", "opt/deep/link": "-> ../x", "usr/share/certs": "certs",
	} {
		if files[name].content != want {
			t.Errorf("%s is %q, want %q", name, files[name].content, want)
		}
	}
	for name, want := range map[string]tar.Header{
		"usr/sbin/prog": {Mode: 0o755}, "usr/bin/renamed": {Mode: 0o700, Uid: 7, Gid: 8}, "etc/passwd": {Mode: 0o640, Gid: 42}, "data/": {Mode: 0o1777},
		"usr/local/bin/su-exec": {Mode: 0o755}, "opt/deep/": {Mode: 0o755},
	} {
		h := files[name].header
		if h.Mode != want.Mode || h.Uid != want.Uid || h.Gid != want.Gid {
			t.Errorf("%s is %o %d:%d, want %o %d:%d", name, h.Mode, h.Uid, h.Gid, want.Mode, want.Uid, want.Gid)
		}
	}

	again, err := New(r, made(t, r)).Image(t.Context(), "img", nil)
	if err != nil || again.Digest != img.Digest {
		t.Errorf("another store: %s (%v), want %s", again.Digest, err, img.Digest)
	}
}

func checkConfig(t *testing.T, r *Recipes, img lab.Image, got v1.Image) {
	t.Helper()
	digest, err := got.ConfigName()
	if err != nil || digest.String() != img.Digest {
		t.Errorf("digest %s, archive has %s, %v", img.Digest, digest, err)
	}
	cfg, err := got.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.Config
	_, port := c.ExposedPorts["80/tcp"]
	_, volume := c.Volumes["/data"]
	if c.User != "7" || c.WorkingDir != "/data" || c.StopSignal != "SIGRTMIN+3" || !port || !volume || c.Entrypoint[0] != "/sbin/prog" || c.Env[1] != "A=b" {
		t.Errorf("config %+v", c)
	}
	if c.Labels[lab.LabelInputs] != r.keys["img"] {
		t.Errorf("labels %v without the recipe's key", c.Labels)
	}
}

type inImage struct {
	header  tar.Header
	content string
}

func filesOf(t *testing.T, img v1.Image) map[string]inImage {
	t.Helper()
	rc := mutate.Extract(img)
	defer rc.Close()
	files := map[string]inImage{}
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		content := string(data)
		if h.Typeflag == tar.TypeSymlink {
			content = "-> " + h.Linkname
		}
		name := h.Name
		if h.Typeflag == tar.TypeDir {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		files[name] = inImage{*h, content}
	}
}

func TestAppendMissingFile(t *testing.T) {
	recipes := "components:\n- {name: img, kind: image, ref: 'x:1', contents: [{text: a, to: /etc/none, append: true}]}\n"
	r, err := Parse("recipes.yaml", []byte(recipes))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(r, newStore(t)).Image(t.Context(), "img", nil); err == nil || !strings.Contains(err.Error(), "/etc/none") {
		t.Errorf("got %v", err)
	}
}

func TestKindRuntimeSpec(t *testing.T) {
	got, err := kindRuntimeSpec([]byte(`{"process": {"args": ["sh"], "rlimits": [1]}, "hooks": {"createContainer": [{"path": "/first"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Process map[string]any
		Hooks   map[string][]struct{ Path string }
	}
	if err := json.Unmarshal(got, &spec); err != nil {
		t.Fatal(err)
	}
	hooks := spec.Hooks["createContainer"]
	if len(hooks) != 2 || hooks[0].Path != "/first" || hooks[1].Path != "/kind/bin/mount-product-files.sh" {
		t.Errorf("hooks %v", hooks)
	}
	if _, ok := spec.Process["rlimits"]; ok || spec.Process["args"] == nil {
		t.Errorf("process %v", spec.Process)
	}
	if _, err := kindRuntimeSpec([]byte("not JSON")); err == nil {
		t.Error("no error")
	}
}
