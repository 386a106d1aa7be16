package source

import (
	"debug/elf"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
)

func TestOwn(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Components {
		if want := slices.Contains([]string{"door", "front", "gate"}, strings.TrimSuffix(c.Name, "-program")); r.Own(c.Name) != want {
			t.Errorf("%s: own is %v", c.Name, !want)
		}
	}
	if r.Own("nothing") {
		t.Error("unknown component is lab's own")
	}
	c, _ := r.Get("front")
	if ref, err := r.Ref(c); err != nil || ref != "lab/front:v1-"+r.keys["front"][:12] {
		t.Errorf("%s, %v", ref, err)
	}
}

// Needs Go but no network, and builds once.
func TestOwnOffline(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go here")
	}
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=vendor") // must be ignored
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	b := New(r, newStore(t))
	img, err := b.Image(t.Context(), "front", nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.Origin != lab.OriginSource || !strings.HasPrefix(img.Ref, "lab/front:") {
		t.Errorf("%+v", img)
	}
	got, err := tarball.ImageFromPath(img.Archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, got)
	program, err := elf.NewFile(strings.NewReader(files["front"].content))
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || len(files) != 1 {
		t.Errorf("%d files; the program wants %v, %v", len(files), libraries, err)
	}
	again, err := b.Image(t.Context(), "front", func(said string) { t.Errorf("rebuilt: %s", said) })
	if err != nil || again.Digest != img.Digest {
		t.Errorf("%+v, %v", again, err)
	}
	other, err := New(r, newStore(t)).Image(t.Context(), "front", nil)
	if err != nil || other.Digest != img.Digest {
		t.Errorf("another store: %s, %v", other.Digest, err)
	}
}

func TestOwnWithoutGo(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = New(r, newStore(t)).Image(t.Context(), "front", nil)
	var labErr *lab.Error
	if !errors.As(err, &labErr) || labErr.Code != "no_go" || labErr.Cure == "" {
		t.Errorf("got %v, want an error with a cure", err)
	}
}
