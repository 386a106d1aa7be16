package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// buildModule is the prefix of the modules that programs are built in. A module of their own is needed because `go install module@version` refuses a
// module whose go.mod has replace directives, and most of those built here do.
const buildModule = "lab.build/"

// goMod returns the go.mod of a module that builds the component's programs: upstream's own requirements and replacements, so that the programs are
// what upstream tested, and the module itself as one requirement more. Replacements by folders of upstream's repository cannot hold outside it: they
// become the published version that the recipe names, or go.
func goMod(c *Component, upstream []byte) ([]byte, error) {
	f, err := modfile.Parse(c.Module+"/go.mod", upstream, nil)
	if err != nil {
		return nil, err
	}
	if err := f.AddModuleStmt(buildModule + c.Name); err != nil {
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
	f.Cleanup() // or AddReplace stumbles over what was dropped
	for _, old := range local {
		if c.Local == "" {
			break
		}
		if err := f.AddReplace(old.Path, old.Version, old.Path, c.Local); err != nil {
			return nil, err
		}
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
