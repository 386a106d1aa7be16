// Package job reads what a repository asks the runner to check in its pull requests. The runner reads it from the branch that a request is to be merged into, so that no
// request changes its own checks.
package job

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// File is where a repository says what is checked.
const File = ".lab/runner.yaml"

// The kinds of checks.
const (
	Lint      = "lint"      // lab lint
	Diff      = "diff"      // lab diff, from the merge base to the head
	Render    = "render"    // lab render --strict
	Kustomize = "kustomize" // kustomize build of one folder
)

// Kinds are all kinds of checks.
func Kinds() []string { return []string{Lint, Diff, Render, Kustomize} }

// The most that a repository may ask for.
const (
	MaxTime   = 5 * time.Minute // of all checks of a request
	MaxMemory = 768             // MiB, of one check
	MaxChecks = 12
	MaxBytes  = 64 << 10 // of File
	maxPath   = 200
	minMemory = 64 // MiB; lab itself needs some
)

// Job is what is checked.
type Job struct {
	Checks []Check       `json:"checks"`
	Time   time.Duration `json:"time"`   // of all checks of a request
	Memory int           `json:"memory"` // MiB, of one check
}

// Check is one check.
type Check struct {
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"` // of the folder; for Kustomize
}

// String returns the check's name: "lint", "kustomize apps/web".
func (c Check) String() string { return strings.TrimSuffix(c.Kind+" "+c.Path, " ") }

// Context returns the name of the check's commit status.
func (c Check) Context() string { return "lab/" + c.String() }

// Default is the job of a repository without a File.
func Default() Job {
	return Job{Checks: []Check{{Kind: Lint}, {Kind: Diff}}, Time: 2 * time.Minute, Memory: 512}
}

// ReadYAML implements strict.Custom: a kind, or "kustomize: PATH".
func (c *Check) ReadYAML(r *strict.Reader, n *yaml.Node, at string) {
	switch n.Kind {
	case yaml.ScalarNode:
		c.Kind = n.Value
		switch {
		case c.Kind == Kustomize:
			r.Fail(n, at+" has no folder", "kustomize: PATH")
		case !slices.Contains(Kinds(), c.Kind):
			r.Fail(n, fmt.Sprintf("%s cannot be %q", at, lab.Brief(c.Kind)), strict.Choose(c.Kind, Kinds()))
		}
	case yaml.MappingNode:
		for key, value := range strict.Pairs(n) {
			if key.Value != Kustomize {
				cure := "only kustomize has a folder"
				if !slices.Contains(Kinds(), key.Value) {
					cure = "lint, diff, render or kustomize: PATH"
				}
				r.Fail(key, fmt.Sprintf("%s cannot have %q", at, lab.Brief(key.Value)), cure)
				continue
			}
			c.Kind = Kustomize
			if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
				r.Wrong(value, at+"."+Kustomize, "the path of a folder")
				continue
			}
			if c.Path = path.Clean(value.Value); !isFolder(value.Value) {
				r.Fail(value, fmt.Sprintf("%q is not a folder of the repository", lab.Brief(value.Value)), "a path without .., relative to the repository")
			}
		}
		if len(n.Content) != 2 {
			r.Fail(n, at+" is not one check", "write one per line: - kustomize: PATH")
		}
	default:
		r.Wrong(n, at, strict.Choose("", Kinds()))
	}
}

// isFolder reports whether a path may be one of a repository. It becomes a part of a status and of a comment.
func isFolder(name string) bool {
	return name != "" && len(name) <= maxPath && !path.IsAbs(name) && !slices.Contains(strings.Split(name, "/"), "..") && !strings.HasPrefix(name, "-") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '`' || r == '\\' })
}

// document is the form of File.
type document struct {
	Checks []Check `yaml:"checks" doc:"lint, diff, render, or kustomize: PATH; default: lint and diff"`
	Limits struct {
		Time   time.Duration `yaml:"time" max:"5m" doc:"of all checks of a request"`
		Memory int           `yaml:"memory" max:"768" doc:"MiB, of one check"`
	} `yaml:"limits"`
}

// Read reads a File. Its errors are all the problems that it has.
func Read(data []byte) (Job, error) {
	j := Default()
	if len(data) > MaxBytes {
		return j, wrong(lab.Problems{{
			Code: finding.InvalidField, Position: lab.Position{File: File, Line: 1}, Message: fmt.Sprintf("%d bytes is too large", len(data)), Cure: fmt.Sprintf("at most %d", MaxBytes),
		}})
	}
	nodes, problems := strict.Parse(File, data)
	switch {
	case len(problems) > 0:
		return j, wrong(problems)
	case len(nodes) == 0: // comments alone
		return j, nil
	case len(nodes) > 1:
		return j, wrong(lab.Problems{{Code: finding.NotYAML, Position: strict.Position(File, nodes[1]), Message: "a second document", Cure: "one per file"}})
	}
	r := strict.NewReader(File)
	var doc document
	r.Decode(nodes[0], &doc, "")
	const least = time.Second
	if doc.Limits.Time > 0 && doc.Limits.Time < least {
		r.FailAt("limits.time", "limits.time is too short", "at least 1s")
	}
	if doc.Limits.Memory > 0 && doc.Limits.Memory < minMemory {
		r.FailAt("limits.memory", "limits.memory is too little", fmt.Sprintf("at least %d", minMemory))
	}
	if len(doc.Checks) > MaxChecks {
		r.FailAt("checks", fmt.Sprintf("%d checks are too many", len(doc.Checks)), fmt.Sprintf("at most %d", MaxChecks))
		doc.Checks = nil
	}
	for i, c := range doc.Checks {
		if slices.Contains(doc.Checks[:i], c) && c.Kind != "" {
			r.FailAt(fmt.Sprintf("checks[%d]", i), "a second check "+c.String(), "remove the line")
		}
	}
	if len(r.Problems) > 0 {
		return j, wrong(r.Problems)
	}
	if len(doc.Checks) > 0 {
		j.Checks = doc.Checks
	}
	if doc.Limits.Time > 0 {
		j.Time = doc.Limits.Time
	}
	if doc.Limits.Memory > 0 {
		j.Memory = doc.Limits.Memory
	}
	return j, nil
}

func wrong(problems lab.Problems) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "runner_file", Message: File + " of the base branch does not say what to check", Problems: problems}
}
