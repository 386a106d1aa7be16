// Package fill finds and sets the open values of an estate: placeholders that lab init writes where nothing says what a value is. An open value is one whose comment says
// so, and which is still the placeholder; it may be edited by hand like any other.
package fill

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
	"homelab/lab/yamledit"
)

// Words at the start of a value's comment.
const (
	open  = "open"
	given = "given"
)

// Comment returns the comment of an open value: its type, and where it is read.
func Comment(t Type, readBy lab.Position) string {
	if t == Text {
		return open + ": " + readBy.String()
	}
	return open + ", " + string(t) + ": " + readBy.String()
}

// Value is a value of the estate's files that is open, or was.
type Value struct {
	Key, Value string
	Type       Type
	Open       bool
	At         lab.Position // in the estate
	ReadBy     string       // FILE:LINE, or empty if the comment does not say

	substituted bool // by Flux: ${...} are variables
}

// Find returns the open values of an estate and those that were, in the order of its files.
func Find(fsys fs.FS) ([]Value, error) {
	var list []Value
	for _, dir := range []string{lab.AddonsDir, lab.ClustersDir, lab.EnvironmentsDir} {
		err := fs.WalkDir(fsys, dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || path.Ext(file) != ".yaml" {
				if file == dir {
					return nil // an estate may lack a folder
				}
				return err
			}
			data, err := fs.ReadFile(fsys, file)
			if err != nil || !strings.Contains(string(data), open) && !strings.Contains(string(data), given) {
				return err
			}
			docs, _ := strict.Parse(file, data) // lab up reports what is invalid
			for _, doc := range docs {
				list = append(list, values(file, doc)...)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("open values: %w", err)
		}
	}
	return list, nil
}

func values(file string, n *yaml.Node) []Value {
	var list []Value
	for i, c := range n.Content {
		if c.Kind != yaml.ScalarNode || n.Kind != yaml.MappingNode || i%2 == 0 {
			list = append(list, values(file, c)...)
			continue
		}
		v := Value{Key: n.Content[i-1].Value, Value: c.Value, At: strict.Position(file, c), substituted: strings.HasPrefix(file, lab.AddonsDir+"/") && path.Base(path.Dir(file)) == string(lab.EngineFlux)}
		comment := strings.TrimPrefix(c.LineComment, "# ")
		head, readBy, _ := strings.Cut(comment, ": ")
		word, name, _ := strings.Cut(head, ", ")
		var known bool
		switch v.Type, known = typeOf(name); {
		case known && (word == open || word == given):
			v.ReadBy, v.Open = readBy, word == open && c.Value == v.Type.Placeholder(v.Key)
		case strings.HasPrefix(c.Value, lab.OpenPrefix):
			v.Type, v.Open = Text, true
		default:
			continue
		}
		list = append(list, v)
	}
	return list
}

// Open returns the values that are open.
func Open(list []Value) []Value {
	return slices.DeleteFunc(slices.Clone(list), func(v Value) bool { return !v.Open })
}

// Keys returns the names of open values, each once, sorted.
func Keys(list []Value) []string {
	keys := map[string]bool{}
	for _, v := range Open(list) {
		keys[v.Key] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// Set returns the changed files with keys set to texts, and the values that it set. A key that is not in the list, or a text that its field refuses, is an error, and all are
// reported together.
func Set(fsys fs.FS, list []Value, texts map[string]string) (files map[string][]byte, set []Value, err error) {
	var problems lab.Problems
	files = map[string][]byte{}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		text, known := texts[key], false
		for _, v := range list {
			if v.Key != key {
				continue
			}
			known = true
			if !v.Type.Fits(text) {
				problems = append(problems, lab.Problem{Position: v.At, Message: fmt.Sprintf("%s: %q does not fit %s", key, text, v.Type), Cure: "such as " + v.Type.Placeholder(key)})
				continue
			}
			data, changed := files[v.At.File]
			if !changed {
				if data, err = fs.ReadFile(fsys, v.At.File); err != nil {
					return nil, nil, err
				}
			}
			if v.substituted {
				text = strings.ReplaceAll(text, "${", "$${")
			}
			if files[v.At.File], err = v.replaced(data, text); err != nil {
				problems = append(problems, lab.Problem{Position: v.At, Message: err.Error(), Cure: "edit it by hand"})
				continue
			}
			v.Value = text
			set = append(set, v)
		}
		if !known {
			problems = append(problems, lab.Problem{Message: key + " is not an open value", Cure: nearest(key, list)})
		}
	}
	if len(problems) > 0 {
		return nil, nil, &lab.Error{Exit: lab.ExitInvalid, Code: "not_filled", Message: "values that cannot be set, nothing was written", Problems: problems}
	}
	return files, set, nil
}

// replaced returns a file with another value, which is no longer open.
func (v Value) replaced(data []byte, text string) ([]byte, error) {
	out, err := yamledit.ReplaceScalar(data, v.At.Line, v.At.Column, text)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(out), "\n")
	line := &lines[v.At.Line-1]
	if i := strings.LastIndex(*line, "# "+open); i >= 0 {
		*line = (*line)[:i] + "# " + given + (*line)[i+len("# "+open):]
	}
	return []byte(strings.Join(lines, "")), nil
}

func nearest(key string, list []Value) string {
	keys := Keys(list)
	if len(keys) == 0 {
		return "none is open"
	}
	if near := strict.Closest(key, keys); near != "" {
		return "did you mean " + near + "?"
	}
	return "one of " + strings.Join(keys, ", ")
}
