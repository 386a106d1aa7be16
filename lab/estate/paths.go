package estate

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/render"
)

// badPath returns why the engine cannot read a source's path, or "".
func (l *loader) badPath(r *lab.Repository, ours bool, source appset.Source) string {
	switch {
	case source.Chart == "" && source.Path == "" && source.Ref == "":
		return "a source of " + source.RepoURL + " has neither a path nor a chart"
	case !ours || source.Chart != "" || source.Path == "":
		return ""
	}
	where, dir := "the estate", path.Clean(source.Path)
	if r != nil {
		var err error
		if r, err = r.Of(source.TargetRevision); err != nil {
			return ""
		}
		where = r.Dir
	}
	if !fs.ValidPath(dir) || l.hasFolder(within(r, dir)) {
		return ""
	}
	return fmt.Sprintf("no folder %s in %s", dir, where)
}

// isOwn reports whether a file is the estate's, not a mounted repository's or a chart's.
func (l *loader) isOwn(file string) bool {
	for dir := range l.chartFolders {
		if strings.HasPrefix(file, dir+"/") {
			return false
		}
	}
	return file != "" && !slices.ContainsFunc(l.estate.Repositories, func(r lab.Repository) bool { return strings.HasPrefix(file, r.Dir+"/") })
}

// hasFolder reports whether Git has a folder, which several applications may sync.
func (l *loader) hasFolder(dir string) bool {
	has, known := l.hasFolders[dir]
	if !known {
		has = l.exists(dir) && render.HasFolder(l.files.at(dir))
		l.hasFolders[dir] = has
	}
	return has
}
