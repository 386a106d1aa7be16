package supply

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"homelab/lab"
	"homelab/lab/supply/source"
)

// A partially loaded bundle is neither used nor remembered.
func TestPartialBundle(t *testing.T) {
	g := makeGoods(t)
	file := save(t, g)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)-len(whole)/4], 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{CacheDir: t.TempDir()}
	s, err := load(t, &o, file)
	if err == nil {
		t.Fatalf("loaded: %s", s.Why())
	}
	if s, err = newSupply(o); err != nil {
		t.Fatal(err)
	}
	if d, ok := s.remembered(); ok {
		t.Errorf("remembered is %+v", d)
	}
}

// A loaded bundle that became unreadable is an error: other origins would change the lab.
func TestUnreadableLoadedBundle(t *testing.T) {
	o := Options{CacheDir: t.TempDir()}
	if _, err := load(t, &o, save(t, makeGoods(t))); err != nil {
		t.Fatal(err)
	}
	var index string
	err := filepath.WalkDir(o.CacheDir, func(file string, _ os.DirEntry, err error) error {
		if filepath.Base(file) == bundleIndex {
			index = file
		}
		return err
	})
	if err != nil || index == "" {
		t.Fatal(index, err)
	}
	if err := os.WriteFile(index, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), o); err == nil {
		t.Errorf("origin of images %s: %s", s.Origin(), s.Why())
	}
}

// A decision that cannot be saved would not be repeated.
func TestUnwritableDecision(t *testing.T) {
	for name, mirror := range map[string]string{"a registry": host(publish(t, makeGoods(t))), "source": "127.0.0.1:1"} {
		s, err := newSupply(Options{CacheDir: t.TempDir(), Mirror: mirror})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(s.decisionFile(), "in the way"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.auto(t.Context(), func() error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Without any origin, the error names the unreachable host, and a cure that needs no network.
func TestAutoWithNothing(t *testing.T) {
	s, err := newSupply(Options{CacheDir: t.TempDir(), Mirror: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	var e *lab.Error
	no := errors.New("no Go")
	if err := s.auto(t.Context(), func() error { return no }); !errors.As(err, &e) || e.Code != "no_images" || !strings.Contains(e.Message, "127.0.0.1:1") || !strings.Contains(e.Cure, "lab bundle save") || !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if d, ok := s.remembered(); ok {
		t.Errorf("remembered is %+v", d)
	}
}

// Why names the mirror and, in mode auto, the reason.
func TestWhyMirror(t *testing.T) {
	mirror := host(publish(t, makeGoods(t)))
	for mode, more := range map[Mode]bool{ModeRegistry: false, ModeAuto: true} {
		s := open(t, Options{Mode: mode, Mirror: mirror, CacheDir: t.TempDir()})
		if before, after, said := strings.Cut(s.Why(), "images from "+mirror); before != "" || !said || strings.HasPrefix(after, ": ") != more {
			t.Errorf("%s: %q", mode, s.Why())
		}
	}
	s, err := newSupply(Options{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.useRegistry(); err != nil || s.Why() != "images from the registry" {
		t.Errorf("%q, %v", s.Why(), err)
	}
}

// One image unpacks a whole bundle; a registry serves each image separately.
func TestPresentAfterOneImage(t *testing.T) {
	g := makeGoods(t)
	mirror := host(publish(t, g))
	for origin, o := range map[lab.Origin]Options{
		lab.OriginBundle: {Mode: Mode("bundle=" + save(t, g))}, lab.OriginRegistry: {Mode: ModeRegistry, Mirror: mirror},
	} {
		o.CacheDir = t.TempDir()
		s := open(t, o)
		img, err := s.Image(t.Context(), "node", nil)
		if err != nil {
			t.Fatal(err)
		}
		all := origin == lab.OriginBundle
		if !s.Present("node", "", "") || s.Present("redis", "", "") != all || s.Present("", "podinfo", "6.9.2") != all || s.Present("front", "", "") {
			t.Errorf("%s: redis %t, chart %t, front %t", origin, s.Present("redis", "", ""), s.Present("", "podinfo", "6.9.2"), s.Present("front", "", ""))
		}
		if i, _ := s.find(KindImage, "node", ""); i.Digest != img.Digest || i.Size != img.Size || i.Size == 0 || i.Origin != origin {
			t.Errorf("%s: listed %+v, fetched %+v", origin, i, img)
		}
		c, err := s.Chart(t.Context(), "podinfo", "6.9.2", nil)
		if err != nil {
			t.Fatal(err)
		}
		if i, _ := s.find(KindChart, "podinfo", "6.9.2"); i.Digest != c.Digest || i.Size != fileSize(c.Archive) || i.Size == 0 || i.Origin != origin || !i.Present {
			t.Errorf("%s: listed %+v, fetched %+v", origin, i, c)
		}
		again := open(t, o)
		if i, _ := again.find(KindChart, "podinfo", "6.9.2"); !i.Present || i.Digest != c.Digest || i.Size != fileSize(c.Archive) {
			t.Errorf("%s: next run: %+v", origin, i)
		}
	}
}

// A compiler is needed unless only lab's own images, which need just Go, are to be built.
func TestBuilds(t *testing.T) {
	dir := t.TempDir()
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	s := open(t, Options{Mode: ModeSource, CacheDir: dir})
	for _, i := range s.needed(slices.Clone(s.items)) {
		if i.Kind == KindImage && !recipes.Own(i.Name) {
			names = append(names, i.Name)
		}
	}
	fillSource(t, dir, names[1:]...)
	if s := open(t, Options{Mode: ModeSource, CacheDir: dir}); !s.Builds() {
		t.Errorf("nothing to build without %s", names[0])
	}
	fillSource(t, dir, names...)
	s = open(t, Options{Mode: ModeSource, CacheDir: dir})
	if s.Builds() {
		t.Error("what another engine or version needs counts")
	}
	if variant := recipes.Versioned("node")[1].Name; !s.Builds(variant) {
		t.Errorf("nothing to build without %s, which is chosen", variant)
	}
}

// Unwritable bundles and missing items are errors.
func TestSaveErrors(t *testing.T) {
	s := open(t, Options{Mode: ModeRegistry, Mirror: host(publish(t, makeGoods(t))), CacheDir: t.TempDir()})
	fillSource(t, s.options.CacheDir, "front")
	if err := s.Save(t.Context(), filepath.Join(t.TempDir(), "none", "lab.tar.zst"), func(string) {}); err == nil {
		t.Error("saved into a missing folder")
	}
	b := open(t, Options{Mode: Mode("bundle=" + save(t, makeGoods(t))), CacheDir: t.TempDir()})
	var e *lab.Error
	if _, err := b.Image(t.Context(), "gitea", nil); !errors.As(err, &e) || e.Code != "not_in_bundle" || e.Cure == "" {
		t.Errorf("%v", err)
	}
	if b.Present("node", "", "") {
		t.Error("a bundle was unpacked for a missing item")
	}
}

// A host is contacted once for all its repositories.
func TestUnreachableSameHost(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer s.Close()
	if got := Unreachable(t.Context(), []string{s.URL + "/a", s.URL + "/b", s.URL + "/c"}); len(got) != 0 || asked.Load() != 1 {
		t.Errorf("%d requests, %v", asked.Load(), got)
	}
}

func TestTag(t *testing.T) {
	for ref, want := range map[string]string{"example.com:5000/a/b:1.2": "1.2", "a:1@sha256:ab": "1", "a": "", "example.com:5000/a@sha256:ab": ""} {
		if got := tag(ref); got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
}
