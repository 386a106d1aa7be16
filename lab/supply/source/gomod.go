package source

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// buildModule is the prefix of wrapper modules. `go install module@version` rejects modules with replace directives,
// which most of these have.
const buildModule = "lab.build/"

// goMod returns the go.mod of a wrapper module: upstream's requirements and replacements, to build what upstream
// tested, plus the module itself. Replacements by local folders become the published version that the recipe names, or
// are dropped.
//
// versions are those of another build, so that shared dependencies are compiled once. To have Go select exactly these,
// newer known versions are excluded.
func goMod(c *Component, upstream []byte, versions map[string]string, excluded []module.Version) ([]byte, error) {
	f, err := modfile.Parse(c.Module+"/go.mod", upstream, nil)
	if err != nil {
		return nil, err
	}
	var local []module.Version
	for _, r := range f.Replace {
		if modfile.IsDirectoryPath(r.New.Path) {
			local = append(local, r.Old)
		}
	}
	for _, old := range local {
		if err := f.DropReplace(old.Path, old.Version); err != nil {
			return nil, err
		}
	}
	required := map[string]string{}
	for _, r := range f.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	f.Cleanup() // otherwise AddReplace trips over dropped lines
	for _, old := range local {
		was, ok := required[old.Path]
		if c.Local == "" || !ok {
			continue
		}
		if err := f.AddRequire(old.Path, c.Local); err != nil {
			return nil, err
		}
		if err := f.AddReplace(old.Path, was, old.Path, c.Local); err != nil { // a requirement of upstream that was never published
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		if _, ok := required[path]; !ok {
			continue
		}
		if err := f.AddRequire(path, versions[path]); err != nil {
			return nil, err
		}
	}
	for _, m := range excluded {
		if err := f.AddExclude(m.Path, m.Version); err != nil {
			return nil, err
		}
	}
	if err := f.AddModuleStmt(buildModule + c.Name); err != nil {
		return nil, err
	}
	for _, old := range slices.Sorted(maps.Keys(c.Replace)) {
		path, version, ok := strings.Cut(c.Replace[old], "@")
		if !ok {
			return nil, fmt.Errorf("replace %s: %q is not module@version", old, c.Replace[old])
		}
		if err := f.AddReplace(old, "", path, version); err != nil {
			return nil, err
		}
	}
	if len(c.Adds) > 0 {
		if err := f.AddReplace(c.Module, "", "./"+completedDir, ""); err != nil {
			return nil, err
		}
	}
	if c.Path != "" {
		if err := f.AddReplace(c.Path, "", c.Module, c.Version); err != nil {
			return nil, err
		}
	}
	if err := f.AddRequire(cmp.Or(c.Path, c.Module), c.Version); err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}

// newer returns the modules in the output of `go mod graph` that are newer than versions.
func newer(graph []byte, versions map[string]string) []module.Version {
	var list []module.Version
	for at := range strings.FieldsSeq(string(graph)) {
		path, version, _ := strings.Cut(at, "@")
		if want := versions[path]; want != "" && semver.Compare(version, want) > 0 {
			list = append(list, module.Version{Path: path, Version: version})
		}
	}
	module.Sort(list)
	return slices.Compact(list)
}

// versionsOf returns the versions of a component's dependencies from upstream's go.mod, without modules replaced by
// others.
func versionsOf(c *Component, upstream []byte) (map[string]string, error) {
	f, err := modfile.Parse(c.Module+"/go.mod", upstream, nil)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, r := range f.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range f.Replace {
		switch {
		case modfile.IsDirectoryPath(r.New.Path) && c.Local != "":
			versions[r.Old.Path] = c.Local
		case r.New.Path == r.Old.Path:
			versions[r.Old.Path] = r.New.Version
		default:
			delete(versions, r.Old.Path)
		}
	}
	return versions, nil
}

// excepts reports whether a module keeps the version in c's own go.mod.
func (c *Component) excepts(module string) bool {
	return slices.ContainsFunc(c.Except, func(prefix string) bool { return module == prefix || strings.HasPrefix(module, prefix+"/") })
}
