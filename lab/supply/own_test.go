package supply

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// In every mode, lab's own image is built locally, unless another origin has this version.
func TestOwnImageInEveryMode(t *testing.T) {
	other := makeGoods(t)
	other.images = append(other.images, makeImage(t, "front", "lab/front:v1-ofanother"))
	for name, g := range map[string]goods{"none": makeGoods(t), "another": other} {
		for mode, o := range map[string]Options{
			"registry": {Mode: ModeRegistry, Mirror: host(publish(t, g))},
			"bundle":   {Mode: Mode("bundle=" + save(t, g))},
			"auto":     {Mirror: host(publish(t, g))},
			"source":   {Mode: ModeSource},
		} {
			t.Run(mode+" with "+name, func(t *testing.T) {
				o.CacheDir = t.TempDir()
				s := open(t, o)
				if s.Present("front", "", "") || !strings.HasPrefix(s.Ref("front"), "lab/front:v1-") || s.Key("front") == "" {
					t.Errorf("before: present %v, ref %q, key %q", s.Present("front", "", ""), s.Ref("front"), s.Key("front"))
				}
				key := s.Key("front")
				own := fillSource(t, o.CacheDir, "front").images[0]
				img, err := s.Image(t.Context(), "front", nil)
				if err != nil || img.Ref != own.Ref || img.Digest != own.Digest || img.Origin != lab.OriginSource {
					t.Errorf("got %+v, %v; want %+v", img, err, own)
				}
				if !s.Present("front", "", "") || s.Key("front") != key || s.Ref("front") != own.Ref {
					t.Error("missing after Image")
				}
				if s.Origin() == lab.OriginBundle && s.Present("node", "", "") {
					t.Error("own image unpacked the bundle")
				}
			})
		}
	}
}

func TestOwnImageFromMirrorOrBundle(t *testing.T) {
	own := fillSource(t, t.TempDir(), "front", "gate", "door")
	g := makeGoods(t)
	g.images = append(g.images, own.images...)
	for origin, o := range map[lab.Origin]Options{
		lab.OriginRegistry: {Mode: ModeRegistry, Mirror: host(publish(t, g)), CacheDir: t.TempDir()},
		lab.OriginBundle:   {Mode: Mode("bundle=" + save(t, g)), CacheDir: t.TempDir()},
	} {
		s := open(t, o)
		if err := s.Expect("node", "front"); err != nil || s.Left() != 0 {
			t.Errorf("%s: %v, %s left", origin, err, s.Left())
		}
		contract(t, s, g, origin)
		items, err := s.List(t.Context())
		if n := len(items); err != nil || n != len(g.images)+len(g.charts) {
			t.Errorf("%s: %d items, %v", origin, n, err)
		}
	}
}

// Save works without Go, except for own images.
func TestSaveWithoutGo(t *testing.T) {
	g := makeGoods(t)
	s := open(t, Options{Mode: ModeRegistry, Mirror: host(publish(t, g)), CacheDir: t.TempDir()})
	t.Setenv("PATH", t.TempDir())
	file, progress := filepath.Join(t.TempDir(), "lab.tar.zst"), ""
	if err := s.Save(t.Context(), file, func(line string) { progress += line + "\n" }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress, "without gate: ") || !strings.Contains(progress, "without front: ") {
		t.Errorf("progress %q", progress)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestOwnImageOrder(t *testing.T) {
	s := open(t, Options{Mode: Mode("bundle=" + save(t, makeGoods(t))), CacheDir: t.TempDir()})
	items, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range items {
		names = append(names, i.Title())
	}
	if want := []string{"node", "redis", "gate", "front", "door", "podinfo 6.7.0", "podinfo 6.9.2"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}
