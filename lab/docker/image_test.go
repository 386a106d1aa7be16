package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
)

func TestArch(t *testing.T) {
	d, _ := fakeDocker(t, nil)
	if arch, err := d.Arch(t.Context()); err != nil || arch != "arm64" {
		t.Errorf("%q, %v", arch, err)
	}
}

// With containerd's image store an image's id is the digest of a manifest, and the image is loaded only if its content
// differs.
func TestLoadImageOnce(t *testing.T) {
	img, err := random.Image(64, 2)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", "amd64"
	cfg.Config = v1.Config{Entrypoint: []string{"/front"}, Env: []string{"A=b"}, Labels: map[string]string{lab.LabelInputs: "42"}, ExposedPorts: map[string]struct{}{"80/tcp": {}}}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("lab/front:v1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	layers := fmt.Sprintf(`["%s","%s"]`, cfg.RootFS.DiffIDs[0], cfg.RootFS.DiffIDs[1])
	other := fmt.Sprintf(`["%s","%s"]`, cfg.RootFS.DiffIDs[1], cfg.RootFS.DiffIDs[0])
	manifest := "sha256:" + strings.Repeat("1", 64)
	// The fields of Docker 29's answer that matter, in its order.
	const form = `[{"Id":"sha256:1","RepoTags":["lab/front:v1"],"Comment":"","Config":{"ExposedPorts":{"80/tcp":{}},"Env":["A=b"],"Entrypoint":["/front"],"Labels":{"%s":"%s"},"Volumes":null},` +
		`"Architecture":"%s","Os":"linux","Size":1,"RootFS":{"Type":"layers","Layers":%s},"Descriptor":{"mediaType":"application/vnd.oci.image.manifest.v1+json"}}]`
	for name, test := range map[string]struct {
		id, label, arch, layers string
		loads                   bool
	}{
		"the digest of its configuration": {digest.String(), "", "", "", false},
		"containerd, the same":            {manifest, "42", "amd64", layers, false},
		"containerd, another recipe":      {manifest, "43", "amd64", layers, true},
		"containerd, other layers":        {manifest, "42", "amd64", other, true},
		"containerd, another machine's":   {manifest, "42", "arm64", layers, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := fakeDocker(t, map[string]string{"id": test.id, "image.json": fmt.Sprintf(form, lab.LabelInputs, test.label, test.arch, test.layers)})
			image := lab.Image{Name: "front", Ref: "lab/front:v1", Digest: digest.String(), Archive: file}
			if err := d.LoadImage(t.Context(), image, func(string) {}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "loaded")); (err == nil) != test.loads {
				t.Errorf("loaded: %v", err == nil)
			}
		})
	}
}

func TestFileIn(t *testing.T) {
	img, err := crane.Image(map[string][]byte{"bin/other": []byte("no"), "gate": []byte("program")})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("lab/gate:v1")
	if err != nil {
		t.Fatal(err)
	}
	i := lab.Image{Name: "gate", Archive: filepath.Join(t.TempDir(), "image.tar")}
	if err := tarball.WriteToFile(i.Archive, tag, img); err != nil {
		t.Fatal(err)
	}
	if got, err := FileIn(i, "/gate"); err != nil || string(got) != "program" {
		t.Errorf("%q, %v", got, err)
	}
	for _, file := range []string{"/other", "/bin"} {
		if _, err := FileIn(i, file); err == nil || !strings.Contains(err.Error(), "image gate has no file "+file) {
			t.Errorf("%s: %v", file, err)
		}
	}
	i.Archive += ".missing"
	if _, err := FileIn(i, "/gate"); err == nil {
		t.Error("no error without an archive")
	}
}
