package estate

import (
	"testing"

	"homelab/lab/appset"
)

func TestTakes(t *testing.T) {
	for _, c := range []struct {
		dir, file string
		d         appset.Directory
		want      bool
	}{
		{"apps", "apps/a.yaml", appset.Directory{}, true},
		{"apps/", "apps/a.yml", appset.Directory{}, true},
		{"apps", "apps/a.json", appset.Directory{}, true},
		{"apps", "apps/a.txt", appset.Directory{}, false},
		{"apps", "others/a.yaml", appset.Directory{}, false},
		{"apps", "apps/b/a.yaml", appset.Directory{}, false},
		{"apps", "apps/b/a.yaml", appset.Directory{Recurse: true}, true},
		{".", "a.yaml", appset.Directory{}, true},
		{".", "apps/a.yaml", appset.Directory{}, false},
		{"apps", "apps/b/a.yaml", appset.Directory{Recurse: true, Include: "b*"}, true},
		{"apps", "apps/a.yaml", appset.Directory{Include: "b*"}, false},
		{"apps", "apps/a.yaml", appset.Directory{Exclude: "a*"}, false},
		{"apps", "apps/a.yaml", appset.Directory{Exclude: "b*"}, true},
		{"apps", "apps/a.yaml", appset.Directory{Include: "["}, false},
	} {
		if got := Takes(c.dir, c.file, c.d); got != c.want {
			t.Errorf("Takes(%q, %q, %+v) = %t, want %t", c.dir, c.file, c.d, got, c.want)
		}
	}
}
