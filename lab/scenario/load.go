package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
)

// Limits of a scenario.
const (
	maxSteps       = 100
	maxScenarios   = 200
	defaultTimeout = 10 * time.Minute
)

// document is the file. Steps are decoded by their verbs.
type document struct {
	APIVersion string   `yaml:"apiVersion" need:"true" enum:"lab/v1alpha1"`
	Kind       string   `yaml:"kind" need:"true" enum:"Scenario"`
	Metadata   metadata `yaml:"metadata" need:"true"`
	Spec       spec     `yaml:"spec" need:"true"`
}

type metadata struct {
	Name string `yaml:"name" need:"true" doc:"the name of the folder"`
}

type spec struct {
	Title    string         `yaml:"title" need:"true" doc:"the story in one line, lower case, no full stop"`
	Teaches  string         `yaml:"teaches" need:"true" doc:"the lesson, in a sentence"`
	Requires Requires       `yaml:"requires" doc:"what the lab must have; otherwise the scenario is skipped"`
	Timeout  time.Duration  `yaml:"timeout" max:"1h" doc:"of all steps together; default 10m"`
	Vars     map[string]any `yaml:"vars" doc:"variables: text, numbers, true or false; used as ${name}"`
	Engines  variants       `yaml:"engines" doc:"what differs with an engine"`
	Steps    []rawStep      `yaml:"steps" need:"true" doc:"played in order, until one fails"`
	Always   []rawStep      `yaml:"always" doc:"played after the steps, even if one failed"`
}

// rawStep keeps a step's node for its verb.
type rawStep struct {
	node *yaml.Node
	path string
}

// ReadYAML implements strict's custom decoding.
func (s *rawStep) ReadYAML(_ *strict.Reader, n *yaml.Node, path string) { s.node, s.path = n, path }

// header is the part of a step that all verbs share.
type header struct {
	ID     string           `yaml:"id" doc:"a name for references of other steps: since"`
	Title  string           `yaml:"title" need:"true" doc:"what happens, for users"`
	Engine []lab.EngineType `yaml:"engine" doc:"engines that the step is for; default all"`
}

// List returns the sorted names of an estate's scenarios.
func List(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, lab.ScenariosDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("scenarios: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && len(names) < maxScenarios {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

var scenarioName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// IsName reports whether a scenario can have a name.
func IsName(name string) bool { return scenarioName.MatchString(name) }

// Load reads a scenario of an estate. Its problems are returned as lab.Problems in one *lab.Error.
func Load(fsys fs.FS, name string, verbs []Verb) (*Scenario, error) {
	if !IsName(name) {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be the name of a scenario", name), Cure: "lab scenario ls"}
	}
	dir := path.Join(lab.ScenariosDir, name)
	l := &loader{verbs: verbs, file: path.Join(dir, "scenario.yaml"), alone: map[lab.Problem]bool{}}
	data, err := readRegular(fsys, l.file)
	if errors.Is(err, fs.ErrNotExist) {
		if info, err := fs.Stat(fsys, dir); err != nil || !info.IsDir() {
			return nil, noSuch(fsys, name)
		}
		return nil, invalid(name, lab.Problems{{Position: lab.Position{File: l.file}, Message: "does not exist", Cure: "write it, or remove the folder"}})
	}
	if err != nil {
		return nil, invalid(name, lab.Problems{{Position: lab.Position{File: l.file}, Message: err.Error()}})
	}
	root, problems := strict.ParseOne(l.file, data)
	if len(problems) > 0 {
		return nil, invalid(name, problems)
	}
	if l.files, err = fs.Sub(fsys, dir); err != nil {
		return nil, err
	}
	s := l.read(root, name)
	if len(l.reader.Problems) > 0 {
		return nil, invalid(name, l.reader.Problems)
	}
	return s, nil
}

func noSuch(fsys fs.FS, name string) error {
	e := &lab.Error{Exit: lab.ExitInvalid, Code: "no_scenario", Message: "the estate has no scenario " + name, Cure: "lab scenario ls"}
	if names, err := List(fsys); err == nil {
		if best := strict.Closest(name, names); best != "" {
			e.Cure = fmt.Sprintf("did you mean %q?", best)
		}
	}
	return e
}

func invalid(name string, problems lab.Problems) error {
	problems.Sort()
	what := "1 problem"
	if len(problems) > 1 {
		what = fmt.Sprintf("%d problems", len(problems))
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_scenario", Message: what + " in scenario " + name + ", nothing was touched", Problems: problems}
}

// readRegular reads a regular file of limited size. Symlinks are refused: a scenario must not read outside its folder.
func readRegular(fsys fs.FS, name string) ([]byte, error) {
	at := ""
	for _, part := range strings.Split(name, "/") {
		at = path.Join(at, part)
		info, err := fs.Lstat(fsys, at)
		if err != nil {
			return nil, plainError(err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a link, which is not allowed", at)
		}
		if at == name && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", at)
		}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, plainError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strict.MaxFile+1))
	if err != nil {
		return nil, plainError(err)
	}
	if len(data) > strict.MaxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, strict.MaxFile)
	}
	return data, nil
}

// plainError strips the operation and path from err.
func plainError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

type loader struct {
	verbs  []Verb
	file   string
	files  fs.FS
	reader *strict.Reader

	engines []lab.EngineType     // of the story
	alone   map[lab.Problem]bool // of steps that are not for every engine
	plan
}

// builtins are the predefined variables, in addition to engineVariable of each required cluster.
func builtins() []string { return []string{"lab", "scenario", "commit", "door"} }

func (l *loader) read(root *yaml.Node, name string) *Scenario {
	l.reader = strict.NewReader(l.file)
	var doc document
	l.reader.Decode(root, &doc, "")
	l.reader.Unfilled = true
	if doc.Metadata.Name != "" && doc.Metadata.Name != name {
		l.reader.FailAt("metadata.name", fmt.Sprintf("name %q differs from folder %q", doc.Metadata.Name, name), "use the same name")
	}
	s := &Scenario{
		Name: name, File: l.file, Title: doc.Spec.Title, Teaches: doc.Spec.Teaches, Requires: doc.Spec.Requires,
		Timeout: cmp.Or(doc.Spec.Timeout, defaultTimeout), Vars: doc.Spec.Vars, own: doc.Spec.Engines, Files: l.files,
	}
	if len(doc.Spec.Steps)+len(doc.Spec.Always) > maxSteps {
		l.reader.FailAt("spec.steps", fmt.Sprintf("more than %d steps", maxSteps), "split the story")
		return s
	}
	l.plans(s, doc.Spec)
	return s
}

func (l *loader) step(raw rawStep) (Step, bool) {
	if raw.node.Kind != yaml.MappingNode {
		l.reader.Fail(raw.node, raw.path+" must be a mapping", "a step has a title and a verb")
		return Step{}, false
	}
	step := Step{At: strict.Position(l.file, raw.node), path: raw.path}
	head := *raw.node
	head.Content = nil
	misspelt := false
	var names []string
	for _, v := range l.verbs {
		names = append(names, v.Name)
	}
	for i := 0; i+1 < len(raw.node.Content); i += 2 {
		key, value := raw.node.Content[i], raw.node.Content[i+1]
		switch at := slices.Index(names, key.Value); {
		case key.Value == "id" || key.Value == "title" || key.Value == "engine":
			head.Content = append(head.Content, key, value)
		case at < 0:
			l.reader.Unknown(key, append([]string{"title", "id", "engine"}, names...))
			misspelt = true
		case step.node != nil:
			l.reader.Fail(key, fmt.Sprintf("a step has one verb, this has %s and %s", step.Verb, key.Value), "split the step")
		default:
			step.Verb, step.verb, step.node = key.Value, l.verbs[at], value
		}
	}
	if l.header(&step, &head); !step.isFor(l.engine) {
		return step, false
	}
	if step.node == nil && !misspelt {
		l.reader.Fail(raw.node, "step without a verb", "add one of "+strings.Join(names, ", "))
	}
	if step.node == nil {
		return step, false
	}
	l.action(&step)
	return step, true
}

func (l *loader) header(step *Step, node *yaml.Node) {
	var h header
	l.reader.Decode(node, &h, step.path)
	l.reader.At[step.path] = step.At
	step.ID, step.Title, step.Engines = h.ID, h.Title, h.Engine
	for i, engine := range h.Engine {
		if !slices.Contains(l.engines, engine) && slices.Contains(lab.EngineTypes(), engine) {
			l.reader.FailAt(fmt.Sprintf("%s.engine[%d]", step.path, i), "the story excludes "+string(engine), "add it to spec.requires.engine")
		}
	}
	if h.ID == "" || !step.isFor(l.engine) {
		return
	}
	if l.ids[h.ID] {
		l.reader.FailAt(step.path+".id", fmt.Sprintf("duplicate id %q", h.ID), "")
	}
	l.ids[h.ID] = true
}

func (l *loader) action(step *Step) {
	below := strict.Join(step.path, step.Verb)
	references(step.node, func(name string, at *yaml.Node) {
		if l.known[name] {
			return
		}
		cure := "set it under spec.vars, or by capture in an earlier step"
		if best := strict.Closest(name, slices.Sorted(maps.Keys(l.known))); best != "" {
			cure = fmt.Sprintf("did you mean ${%s}?", best)
		} else if cluster, ok := strings.CutPrefix(name, enginePrefix); ok {
			cure = "add " + cluster + " to spec.requires.clusters"
		}
		l.reader.Fail(at, fmt.Sprintf("no variable ${%s}", name), cure)
	})
	step.Action = step.verb.New()
	before := len(l.reader.Problems)
	l.reader.Decode(step.node, step.Action, below)
	if strict.IsNull(step.node) {
		l.reader.Fail(step.node, step.Verb+" is empty", "")
	}
	if len(l.reader.Problems) == before {
		checker := &Checker{loader: l, path: below}
		step.Action.Check(checker)
		if s, ok := step.Action.(Settler); ok {
			s.CheckOutcome(checker)
		}
	}
	if len(l.reader.Problems) == before {
		l.reader.Problems = append(l.reader.Problems, step.misfits(l.values)...)
	}
	if c, ok := step.Action.(Capturer); ok {
		for _, name := range c.Captures() {
			if !variableName.MatchString(name) || slices.Contains(builtins(), name) {
				l.reader.FailAt(below, fmt.Sprintf("%q cannot be the name of a variable", name), "")
			}
			l.known[name] = true
		}
	}
}

// filled returns the step's action with variables expanded; lenient keeps those that are not set yet.
func (s Step) filled(vars map[string]any, lenient bool) (Action, error) {
	f := filler{vars: vars, lenient: lenient, left: maxStepText}
	node, err := f.fill(s.node)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", s.Number, err)
	}
	action := s.verb.New()
	r := strict.NewReader(s.At.File)
	r.Unfilled = lenient
	r.Decode(node, action, "")
	if len(r.Problems) > 0 {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_scenario", Message: fmt.Sprintf("step %d, after expansion of its variables", s.Number), Problems: r.Problems}
	}
	return action, nil
}
