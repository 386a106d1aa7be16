package appset

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// counted counts the folders that are read.
type counted struct {
	fstest.MapFS
	folders *[]string
}

func (c counted) ReadDir(name string) ([]fs.DirEntry, error) {
	*c.folders = append(*c.folders, name)
	return c.MapFS.ReadDir(name)
}

// Only the folders are read that may have a match: a set may have thousands of patterns.
func TestFilesReads(t *testing.T) {
	repository := fstest.MapFS{"apps/web/dev/a.yaml": {}, "apps/web/prod/a.yaml": {}, "apps/webs/dev/a.yaml": {}, "other/dev/a.yaml": {}, "a.yaml": {}}
	for pattern, want := range map[string]string{
		"apps/web/*/a.yaml":   "apps/web/dev/a.yaml apps/web/prod/a.yaml; . apps apps/web apps/web/dev apps/web/prod",
		"apps/web/dev/a.yaml": "apps/web/dev/a.yaml; . apps apps/web apps/web/dev",
		"apps/web/dev":        "apps/web/dev/a.yaml; . apps apps/web apps/web/dev",
		"apps/web*/dev":       "; . apps apps/web apps/web/dev apps/web/prod apps/webs apps/webs/dev",
		"a*":                  "a.yaml apps/web/dev/a.yaml apps/web/prod/a.yaml apps/webs/dev/a.yaml; . apps apps/web apps/web/dev apps/web/prod apps/webs apps/webs/dev",
	} {
		var folders []string
		found, err := files(&spent{}, counted{repository, &folders}, pattern)
		if got := strings.Join(slices.Sorted(maps.Keys(found)), " ") + "; " + strings.Join(folders, " "); got != want || err != nil {
			t.Errorf("%s: %s, %v", pattern, got, err)
		}
	}
}
