package mount

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"homelab/lab"
)

func TestLinksOut(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
	}
	for target, want := range map[string]bool{
		"b": false, "../x/b": false, "../../etc/passwd": true, "/etc/passwd": true, "nowhere": false,
	} {
		tree := fstest.MapFS{"x/a": link(target), "x/b": {}}
		for name, m := range map[string]*Mounts{
			"estate":  {FS: tree},
			"mounted": {FS: fstest.MapFS{}, List: []lab.Repository{{FS: tree}}},
		} {
			if got := m.LinksOut(); got != want {
				t.Errorf("%s in the %s: %t, want %t", target, name, got, want)
			}
		}
		at := Mounts{FS: fstest.MapFS{}}
		at.others.add(&lab.Repository{FS: tree})
		if got := at.LinksOut(); got != want {
			t.Errorf("%s at another revision: %t, want %t", target, got, want)
		}
	}
}
