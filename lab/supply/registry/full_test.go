package registry

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"homelab/lab/supply/disk/disktest"
)

func TestFullDiskKeepsLockFile(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	mirror := strings.TrimPrefix(s.URL, "http://")
	dir := disktest.Tiny(t, 256<<10)
	push(t, mirror+"/docker.io/kindest/node:v1", makeImage(t, "node", "kindest/node:v1"))
	r := plain(t, mirror, dir, Pins{Images: []ImagePin{{Name: "node", Ref: "kindest/node:v1"}}})
	if err := r.remember(t.Context(), "image x", "sha256:x"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = r.Image(t.Context(), "node", nil)
	wantCode(t, err, "no_space")
	if after, err := os.ReadFile(filepath.Join(dir, lockFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("now %q, %v", after, err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Image(t.Context(), "node", nil); err != nil {
		t.Error(err)
	}
}
