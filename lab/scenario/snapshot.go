package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// snapshot is the lab as it is found and as it should be left: everything that the story speaks of or touches, every application, every registration, and
// the forge's branches.
type snapshot struct {
	objects  map[Subject]map[string]any // without what the API server and controllers keep in them
	unseen   map[Subject]bool           // objects of which nobody knows how they were
	uids     map[Subject]any
	apps     map[Subject]*Application
	marks    map[string]Marks
	branches map[string]string
	head     string // commit of the branch that engines follow
	settled  string // commit of it that the engine has taken over
}

func newSnapshot() *snapshot {
	return &snapshot{objects: map[Subject]map[string]any{}, unseen: map[Subject]bool{}, uids: map[Subject]any{}, apps: map[Subject]*Application{}}
}

// asking reads what is not watched, and keeps what cannot be read.
type asking struct {
	ctx    context.Context
	silent map[string]error // who gave no answer, and is not asked again
	failed []error
}

func ask[T any](a *asking, what, whom string, call func(context.Context) (T, error)) (T, bool) {
	var value T
	err := a.silent[whom]
	if err == nil {
		value, err = within(a.ctx, askEach, call)
	}
	var none noAnswer
	if errors.As(err, &none) {
		a.silent[whom] = err
	}
	if err != nil {
		a.failed = append(a.failed, fmt.Errorf("%s: %w", what, err))
	}
	return value, err == nil
}

// ask reads what is not watched. What cannot be read is an error each, and the rest is read.
func (s *snapshot) ask(ctx context.Context, w World) []error {
	a := &asking{ctx: ctx, silent: map[string]error{}}
	s.marks = map[string]Marks{}
	for _, c := range w.Estate.Clusters {
		m, ok := ask(a, "registration of "+c.Name, "engine", func(ctx context.Context) (Marks, error) { return w.Engine.Registration(ctx, c.Name) })
		if ok {
			s.marks[c.Name] = m
		}
	}
	s.branches, _ = ask(a, "branches of the forge", "forge", w.Branches.Branches)
	tree, _ := ask(a, "branch "+Branch+" of the forge", "forge", func(ctx context.Context) (Tree, error) { return w.Forge.Tree(ctx, Branch) })
	s.head = tree.Commit
	s.settled, _ = ask(a, "the engine's own commit", "engine", w.Engine.Settled)
	return a.failed
}

// keep adds subjects as they are in a view, unless they are known already.
func (s *snapshot) keep(v View, subjects []Subject) {
	for _, subject := range subjects {
		state := v[subject]
		if _, known := s.objects[subject]; known || s.unseen[subject] || subject.isApplication() || subject.isEvents() {
			continue
		}
		if !state.Known {
			s.unseen[subject] = true
			continue
		}
		s.objects[subject], s.uids[subject] = essence(state.Object), identity(state.Object)
	}
}

func (s *snapshot) keepApplications(v View) {
	for subject, state := range v {
		if subject.isApplication() && state.Application != nil {
			s.apps[subject] = state.Application
		}
	}
}

// changed says what of a view is not as it was. head is where the engines' branch is now: an application that was at its head before has followed it.
func (s *snapshot) changed(v View, head string) []string {
	var lines []string
	for _, subject := range sortedSubjects(s.unseen) {
		lines = append(lines, subject.String()+" was not seen before, so it is not known how it was")
	}
	for _, subject := range sortedSubjects(s.objects) {
		state := v.State(subject)
		if !state.Known {
			lines = append(lines, subject.String()+": "+state.Unseen(subject))
			continue
		}
		was, is := s.objects[subject], essence(state.Object)
		if s.uids[subject] != identity(state.Object) { // it was made again
			was, is = withoutAllocated(was), withoutAllocated(is)
		}
		lines = append(lines, differences(subject.String(), was, is)...)
	}
	if all := v.State(Applications()); !all.Known {
		return append(lines, "applications: "+all.Unseen(Applications()))
	}
	for _, subject := range sortedSubjects(s.apps) {
		if line := s.applicationChanged(subject, v.State(subject), head); line != "" {
			lines = append(lines, line)
		}
	}
	for _, subject := range sortedSubjects(v) {
		if v[subject].Application != nil && s.apps[subject] == nil {
			lines = append(lines, subject.String()+" was not there before")
		}
	}
	return lines
}

// applicationChanged looks at what is lasting; one that was not converged before need not be so now.
func (s *snapshot) applicationChanged(subject Subject, state State, head string) string {
	was, is := s.apps[subject], state.Application
	switch {
	case !state.Known:
		return subject.String() + ": " + state.Unseen(subject)
	case is == nil:
		return subject.String() + " is gone"
	case was.Version != is.Version:
		return fmt.Sprintf("%s: version %s -> %s", subject, was.Version, is.Version)
	case was.Heals != is.Heals:
		return fmt.Sprintf("%s: self-heal %t -> %t", subject, was.Heals, is.Heals)
	case was.Definition != is.Definition:
		return subject.String() + " is defined otherwise"
	case head != "" && was.Revision == s.head && is.Revision != head:
		return fmt.Sprintf("%s is at commit %s, and the forge at %s", subject, is.Revision[:min(7, len(is.Revision))], head[:min(7, len(head))])
	case was.Converged() && !is.Converged():
		return fmt.Sprintf("%s is %s and %s", subject, SyncWord(is.Sync), HealthWord(is.Health))
	}
	return ""
}

// askedChanged says what of what is not watched is not as it was.
func (s *snapshot) askedChanged(now *snapshot) []string {
	var lines []string
	for _, cluster := range slices.Sorted(maps.Keys(s.marks)) {
		was := s.marks[cluster]
		is, asked := now.marks[cluster]
		if !asked { // that it could not be asked was said
			continue
		}
		lines = append(lines, differences("registration of "+cluster, plainMarks(was), plainMarks(is))...)
	}
	if now.branches == nil {
		return lines
	}
	for _, name := range slices.Sorted(maps.Keys(s.branches)) {
		switch tree, ok := now.branches[name]; {
		case !ok:
			lines = append(lines, "branch "+name+" is gone from the forge")
		case tree != s.branches[name]:
			lines = append(lines, "branch "+name+" of the forge holds other files than before")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.branches)) {
		if _, ok := s.branches[name]; !ok {
			lines = append(lines, "branch "+name+" was not in the forge before")
		}
	}
	return lines
}

func plainMarks(m Marks) map[string]any {
	plain := func(in map[string]*string) map[string]any {
		out := map[string]any{}
		for k, v := range in {
			if v != nil {
				out[k] = *v
			}
		}
		return out
	}
	return map[string]any{"labels": plain(m.Labels), "annotations": plain(m.Annotations)}
}

// bookkeeping are annotations in which controllers and appliers keep their records of an object.
func bookkeeping() []string {
	return []string{"deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration", "kubectl.kubernetes.io/restartedAt"}
}

// essence is an object without what changes by itself; nil for none.
func essence(o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	out := map[string]any{}
	for k, v := range o {
		if k != "status" && k != "metadata" {
			out[k] = v
		}
	}
	meta, _ := o["metadata"].(map[string]any)
	if list, ok := meta["finalizers"].([]any); ok && len(list) > 0 {
		out["metadata.finalizers"] = list
	}
	for _, k := range []string{"labels", "annotations"} {
		m, ok := meta[k].(map[string]any)
		if !ok {
			continue
		}
		m = maps.Clone(m)
		for _, key := range bookkeeping() {
			delete(m, key)
		}
		if len(m) > 0 {
			out["metadata."+k] = m
		}
	}
	return out
}

// differences says where two values differ, three places at most.
func differences(what string, was, is map[string]any) []string {
	switch {
	case was == nil && is == nil:
		return nil
	case was == nil:
		return []string{what + " was not there before"}
	case is == nil:
		return []string{what + " is gone"}
	}
	var lines []string
	walkDifferences("", was, is, func(path string, a, b any) {
		lines = append(lines, fmt.Sprintf("%s: %s: %s -> %s", what, path, shownOrNone(a), shownOrNone(b)))
	})
	const most = 3
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("%s: and %d more", what, len(lines)-most))
	}
	return lines
}

func walkDifferences(path string, a, b any, tell func(string, any, any)) {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	if !okX || !okY {
		if !reflect.DeepEqual(a, b) {
			tell(path, a, b)
		}
		return
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		walkDifferences(strings.TrimPrefix(path+"."+k, "."), x[k], y[k], tell)
	}
}

func shownOrNone(v any) string {
	if v == nil {
		return "(none)"
	}
	return Shown(v)
}

func sortedSubjects[V any](m map[Subject]V) []Subject {
	return slices.SortedFunc(maps.Keys(m), func(a, b Subject) int { return strings.Compare(a.String(), b.String()) })
}
