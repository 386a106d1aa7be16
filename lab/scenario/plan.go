package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab"
)

// variants are the differences of a story between engines.
type variants map[lab.EngineType]variant

type variant struct {
	Vars   map[string]any      `yaml:"vars" doc:"variables for this engine, which override spec.vars"`
	Addons map[string][]string `yaml:"addons" doc:"addon -> clusters that must have it with this engine, besides requires.addons"`

	Components []string `yaml:"components" doc:"controllers that spec.engine.componentsExtra of the hub must list"`
}

// For returns the story for an engine: without the steps of others, and with the engine's variables and requirements. Steps keep their numbers.
func (s *Scenario) For(engine lab.EngineType) *Scenario {
	own := *s
	others := func(step Step) bool { return !step.isFor(engine) }
	own.Steps, own.Always = slices.DeleteFunc(slices.Clone(s.Steps), others), slices.DeleteFunc(slices.Clone(s.Always), others)
	own.Vars = s.varsFor(engine)
	own.Requires.components = s.own[engine].Components
	own.Requires.Addons = maps.Clone(s.Requires.Addons)
	if more := s.own[engine].Addons; len(more) > 0 {
		if own.Requires.Addons == nil {
			own.Requires.Addons = map[string][]string{}
		}
		maps.Copy(own.Requires.Addons, more)
	}
	return &own
}

func (s *Scenario) varsFor(engine lab.EngineType) map[string]any {
	vars := map[string]any{}
	maps.Copy(vars, s.Vars)
	maps.Copy(vars, s.own[engine].Vars)
	return vars
}

func (s Step) isFor(engine lab.EngineType) bool {
	return len(s.Engines) == 0 || slices.Contains(s.Engines, engine)
}

// plan is the state of reading the story for one engine.
type plan struct {
	engine lab.EngineType
	ids    map[string]bool
	made   map[string]bool // repositories created so far
	known  map[string]bool // variables set so far
	values map[string]any  // of the story and of the engine
}

// plans reads the story once per engine: a step may use what earlier steps of the same engine set.
func (l *loader) plans(s *Scenario, doc spec) {
	for _, engine := range lab.EngineTypes() {
		if len(s.Requires.Engine) == 0 || slices.Contains(s.Requires.Engine, engine) {
			l.engines = append(l.engines, engine)
		}
		l.checkVars("spec.engines."+string(engine)+".vars", s.own[engine].Vars)
	}
	l.checkVars("spec.vars", s.Vars)
	all := l.reader.Problems
	var order []lab.Problem
	with := map[lab.Problem][]string{}
	steps := map[int]Step{}
	for _, engine := range l.engines {
		l.reader.Problems = nil
		l.plan = plan{engine: engine, ids: map[string]bool{}, made: map[string]bool{}, known: map[string]bool{}, values: s.varsFor(engine)}
		for _, name := range slices.Concat(builtins(), slices.Collect(maps.Keys(l.values))) {
			l.known[name] = true
		}
		for _, cluster := range s.Requires.Clusters {
			l.known[engineVariable(cluster)] = true
		}
		l.steps(doc.Steps, 0, steps)
		l.steps(doc.Always, len(doc.Steps), steps)
		l.whole(s, len(doc.Steps), steps)
		for _, p := range l.reader.Problems {
			if with[p] == nil {
				order = append(order, p)
			}
			if !slices.Contains(with[p], string(engine)) {
				with[p] = append(with[p], string(engine))
			}
		}
	}
	for _, p := range order {
		engines := with[p]
		if len(engines) < len(l.engines) && !l.alone[p] {
			p.Message += ", with " + engines[0]
		}
		all = append(all, p)
	}
	l.reader.Problems = all
	for _, n := range slices.Sorted(maps.Keys(steps)) {
		if n <= len(doc.Steps) {
			s.Steps = append(s.Steps, steps[n])
		} else {
			s.Always = append(s.Always, steps[n])
		}
	}
}

func (l *loader) checkVars(path string, vars map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		at := path + "." + name
		if !variableName.MatchString(name) || slices.Contains(builtins(), name) {
			l.reader.FailAt(at, fmt.Sprintf("%q cannot be the name of a variable", name), "a-z first, then letters, digits and _; "+strings.Join(builtins(), ", ")+" are taken")
		}
		if why := checkVariable(vars[name]); why != "" {
			l.reader.FailAt(at, name+" "+why, "")
		}
		if s, ok := vars[name].(string); ok && reference.MatchString(s) {
			l.reader.FailAt(at, "a variable cannot contain others", "write it where it is used")
		}
	}
}

// steps reads the engine's steps into to, by number.
func (l *loader) steps(raw []rawStep, before int, to map[int]Step) {
	for i, r := range raw {
		if r.node == nil {
			continue // empty item, already reported
		}
		known := len(l.reader.Problems)
		step, ok := l.step(r)
		if len(step.Engines) > 0 {
			for _, p := range l.reader.Problems[known:] {
				l.alone[p] = true
			}
		}
		if ok {
			step.Number = before + i + 1
			to[step.Number] = step
		}
	}
}

// whole checks the story as a whole: it needs steps, and must not wait longer than its timeout.
func (l *loader) whole(s *Scenario, last int, steps map[int]Step) {
	any, total := false, time.Duration(0)
	for _, n := range slices.Sorted(maps.Keys(steps)) {
		step := steps[n]
		if !step.isFor(l.engine) {
			continue
		}
		any = any || n <= last
		action, err := step.filled(l.values, true)
		w, ok := action.(interface{ Waits() time.Duration })
		if err != nil || !ok {
			continue
		}
		if total += w.Waits(); total > s.Timeout {
			l.reader.FailAt(step.path, fmt.Sprintf("the story waits longer than its timeout of %s", Span(s.Timeout)), "wait less, or raise spec.timeout")
			break
		}
	}
	if _, there := l.reader.At["spec.steps"]; there && !any {
		l.reader.FailAt("spec.steps", "a story without steps", "")
	}
}

// misfits returns the values that the story's variables make invalid.
func (s Step) misfits(vars map[string]any) lab.Problems {
	_, err := s.filled(vars, true)
	var e *lab.Error
	if !errors.As(err, &e) {
		return nil // too long, which is reported at run time
	}
	return e.Problems
}
