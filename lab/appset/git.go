package appset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

func (x *expander) git(g *Generator, node *yaml.Node) ([]paramSet, error) {
	if len(g.Git.Directories) == 0 && len(g.Git.Files) == 0 {
		return nil, failed(node, "a git generator has directories or files")
	}
	if project := x.Spec.Template.Spec.Project; !strings.Contains(project, "{{") && x.Project != nil && !x.Project(project) {
		return nil, failed(strict.Get(x.node, "spec", "template", "spec", "project"), "project %q does not exist", project)
	}
	if x.Repository == nil {
		return nil, &UnknownError{Position: x.at(node), What: "git generator over " + g.Git.RepoURL}
	}
	repository, err := x.Repository(g.Git.RepoURL, g.Git.Revision)
	var absent *AbsentError
	if errors.As(err, &absent) {
		return nil, &UnknownError{Position: x.at(node), What: "git generator over " + g.Git.RepoURL, Reason: absent.Reason}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", x.at(strict.Get(node, "repoURL")), g.Git.RepoURL, err)
	}
	if repository == nil {
		return nil, &UnknownError{Position: x.at(node), What: "git generator over " + g.Git.RepoURL}
	}
	if len(g.Git.Directories) > 0 {
		return x.gitDirectories(g.Git, node, repository)
	}
	return x.gitFiles(g.Git, node, repository)
}

func (x *expander) gitDirectories(g *Git, node *yaml.Node, repository fs.FS) ([]paramSet, error) {
	all, err := directories(repository)
	if err != nil {
		return nil, err
	}
	var sets []paramSet
	for _, dir := range all {
		if !selected(g.Directories, dir) {
			continue
		}
		p := paramSet{values: map[string]any{}, from: []contribution{{node: node, generator: "git", file: dir}}}
		x.addPath(p.values, g.PathParamPrefix, dir, "")
		if err := x.addValues(g.Values, &p, strict.Get(node, "values")); err != nil {
			return nil, err
		}
		sets = append(sets, p)
	}
	return sets, nil
}

// selected reports whether a folder is included and not excluded. Invalid patterns match nothing.
func selected(items []GitItem, dir string) bool {
	included := false
	for _, item := range items {
		if ok, err := path.Match(item.Path, dir); err != nil || !ok {
			continue
		}
		if item.Exclude {
			return false
		}
		included = true
	}
	return included
}

func (x *expander) gitFiles(g *Git, node *yaml.Node, repository fs.FS) ([]paramSet, error) {
	found, by := map[string][]byte{}, map[string]string{}
	for _, exclude := range []bool{false, true} {
		for i, item := range g.Files {
			if item.Exclude != exclude {
				continue
			}
			matched, err := files(x.compiled.spent, repository, item.Path)
			if errors.Is(err, errMagic) {
				return nil, &UnknownError{Position: x.at(strict.Get(node, "files", i)), What: "git generator with the pattern " + item.Path}
			}
			if err != nil {
				return nil, failed(strict.Get(node, "files", i), "%w", err)
			}
			if !exclude {
				maps.Copy(found, matched)
				for name := range matched {
					by[name] = cmp.Or(by[name], item.Path)
				}
				continue
			}
			for name := range matched {
				delete(found, name)
			}
		}
	}
	var sets []paramSet
	for _, file := range slices.Sorted(maps.Keys(found)) {
		objects, err := parameters(found[file])
		if err != nil {
			return nil, failed(strict.Get(node, "files"), "%s: %w", file, err)
		}
		for _, object := range objects {
			p := paramSet{values: map[string]any{}, from: []contribution{{node: node, generator: "git", file: file, pattern: by[file], values: object}}}
			if x.Spec.GoTemplate {
				maps.Copy(p.values, object)
			} else {
				for k, v := range flatten(object, x.Minor) {
					p.values[k] = v
				}
			}
			x.addPath(p.values, g.PathParamPrefix, path.Dir(file), path.Base(file))
			if err := x.addValues(g.Values, &p, strict.Get(node, "values")); err != nil {
				return nil, err
			}
			sets = append(sets, p)
		}
	}
	return sets, nil
}

// parameters reads a parameter file: a mapping or a list of mappings. An empty file is an empty mapping.
func parameters(data []byte) ([]map[string]any, error) {
	one := map[string]any{}
	if err := yamlUnmarshal(string(data), &one); err == nil {
		return []map[string]any{one}, nil
	}
	many := []map[string]any{}
	if err := yamlUnmarshal(string(data), &many); err != nil {
		return nil, errors.New("neither a mapping nor a list of mappings")
	}
	return many, nil
}

// addPath adds the parameters of a folder and a file in it, with the generator's prefix.
func (x *expander) addPath(params map[string]any, prefix, dir, file string) {
	base := path.Base(dir)
	if x.Spec.GoTemplate {
		at := map[string]any{"path": dir, "basename": base, "basenameNormalized": normalize(base), "segments": strings.Split(dir, "/")}
		if file != "" {
			at["filename"], at["filenameNormalized"] = file, normalize(file)
		}
		if prefix != "" {
			params[prefix] = map[string]any{"path": at}
		} else {
			params["path"] = at
		}
		return
	}
	name := "path"
	if prefix != "" {
		name = prefix + ".path"
	}
	params[name], params[name+".basename"], params[name+".basenameNormalized"] = dir, base, normalize(base)
	if file != "" {
		params[name+".filename"], params[name+".filenameNormalized"] = file, normalize(file)
	}
	for i, segment := range strings.Split(dir, "/") {
		if segment != "" {
			params[name+"["+strconv.Itoa(i)+"]"] = segment
		}
	}
}
