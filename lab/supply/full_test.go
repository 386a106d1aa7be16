package supply

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/supply/archive"
	"homelab/lab/supply/disk/disktest"
)

// fill fills the disk of dir; the returned function frees the space.
func fill(t *testing.T, dir string) (room func()) {
	t.Helper()
	file := filepath.Join(dir, "filler")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func wantNoSpace(t *testing.T, what string, err error, dir string) {
	t.Helper()
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "no_space" || e.Exit != lab.ExitFailed || !strings.Contains(e.Message, dir) || !strings.Contains(e.Cure, "free space") {
		t.Errorf("%s: got %v, want one that names %s and the cure", what, err, dir)
	}
}

// Without space for an image, a chart, the lock file or the decision, nothing incomplete is used; with space,
// everything recovers.
func TestFullDisk(t *testing.T) {
	g := makeGoods(t)
	server := publish(t, g)
	dir := disktest.Tiny(t, 1<<20)
	o := Options{Mode: ModeRegistry, CacheDir: dir, Mirror: host(server)}
	s := open(t, o)
	room := fill(t, dir)
	_, err := s.Image(t.Context(), "node", nil)
	wantNoSpace(t, "image", err, dir)
	_, err = s.Chart(t.Context(), "podinfo", "6.9.2", nil)
	wantNoSpace(t, "chart", err, dir)
	wantNoSpace(t, "decision", s.remember(decision{Origin: lab.OriginSource}), dir)
	if again := open(t, o); again.Present("node", "", "") || again.Present("", "podinfo", "6.9.2") {
		t.Error("incomplete item is present")
	}
	if _, ok := s.remembered(); ok {
		t.Error("partial decision is used")
	}
	room()
	contract(t, open(t, o), g, lab.OriginRegistry)
}

func TestFullDiskKeepsDecision(t *testing.T) {
	dir := disktest.Tiny(t, 256<<10)
	s, err := newSupply(Options{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	before := decision{Origin: lab.OriginBundle, Bundle: "x", Why: "because"}
	if err := s.remember(before); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	wantNoSpace(t, "decision", s.remember(decision{Origin: lab.OriginSource, Why: strings.Repeat("x", 8192)}), dir)
	if got, ok := s.remembered(); !ok || got != before {
		t.Errorf("now it is %+v, %v", got, ok)
	}
}

func TestFullDiskBundle(t *testing.T) {
	g := makeGoods(t)
	file := save(t, g)
	dir := disktest.Tiny(t, 256<<10)
	room := fill(t, dir)
	to := filepath.Join(dir, "lab.tar.zst")
	wantNoSpace(t, "save", archive.Save(t.Context(), to, archive.Goods{Images: g.images, Charts: g.charts}, nil), dir)
	if _, err := os.Stat(to); err == nil {
		t.Error("partial bundle was saved")
	}
	room()
	o := Options{CacheDir: filepath.Join(dir, "cache")}
	if _, err := newSupply(o); err != nil {
		t.Fatal(err)
	}
	room = fill(t, dir)
	_, err := load(t, &o, file)
	wantNoSpace(t, "load", err, dir)
	room()
	s, err := load(t, &o, file)
	if err != nil {
		t.Fatal(err)
	}
	contract(t, s, g, lab.OriginBundle)
}
