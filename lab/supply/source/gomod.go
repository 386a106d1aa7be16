package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// buildModule is the prefix of the modules that programs are built in. A module of their own is needed because `go install module@version` refuses a
// module whose go.mod has replace directives, and most of those built here do.
const buildModule = "lab.build/"

// goMod returns the go.mod of a module that builds the component's programs: upstream's own requirements and replacements, so that the programs are
// what upstream tested, and the module itself as one requirement more. Replacements by folders of upstream's repository cannot hold outside it: they
// become the published version that the recipe names, or go.
//
// Versions, where there are any, are those of another build: what both use is then compiled once. They have to be the versions that Go selects, since those
// are what a package is compiled as, so what asks for a newer one is not heard: excluded are the newer ones that are known of.
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
	f.Cleanup() // or AddReplace stumbles over what was dropped
	for _, old := range local {
		was, ok := required[old.Path]
		if c.Local == "" || !ok {
			continue
		}
		if err := f.AddRequire(old.Path, c.Local); err != nil {
			return nil, err
		}
		if err := f.AddReplace(old.Path, was, old.Path, c.Local); err != nil { // what upstream requires, and was never published
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
	if err := f.AddRequire(c.Module, c.Version); err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}

// newer returns the modules in a graph, as `go mod graph` prints it, that are newer than versions has them.
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

// versionsOf returns the versions that a component is built with, by module, from its upstream's go.mod. Modules that it replaces by others are left out.
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
