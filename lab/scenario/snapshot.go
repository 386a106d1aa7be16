package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"homelab/lab/argo"
)

// snapshot is the state to compare the lab with at the end: the story's subjects, all applications, registrations and
// branches.
type snapshot struct {
	objects  map[Subject]map[string]any // without bookkeeping
	unseen   map[Subject]bool           // objects whose original state is unknown
	uids     map[Subject]any
	apps     map[Subject]*Application
	marks    map[string]Marks
	branches map[string]string
	head     string // head of the engines' branch
	settled  string // commit that the engine has synced
}

func newSnapshot() *snapshot {
	return &snapshot{objects: map[Subject]map[string]any{}, unseen: map[Subject]bool{}, uids: map[Subject]any{}, apps: map[Subject]*Application{}}
}

// asking queries state that is not watched.
type asking struct {
	ctx    context.Context
	silent map[string]error // sources that did not answer and are not asked again
	failed []error
}

func ask[T any](a *asking, what, whom string, call func(context.Context) (T, error)) (T, bool) {
	var value T
	err := a.silent[whom]
	if err == nil {
		value, err = within(a.ctx, queryTimeout, call)
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

// ask queries state that is not watched. It continues after errors.
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

// keep adds subjects of a view, unless already present.
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

// changed returns the differences of a view to the snapshot. head is the head of the engines' branch: applications that
// were in sync before must have synced it.
func (s *snapshot) changed(v View, head string) []string {
	var lines []string
	for _, subject := range sortedSubjects(s.unseen) {
		lines = append(lines, subject.String()+" has no recorded state to compare with")
	}
	for _, subject := range sortedSubjects(s.objects) {
		state := v.State(subject)
		if !state.Known {
			lines = append(lines, subject.String()+": "+state.Unseen(subject))
			continue
		}
		was, is := s.objects[subject], essence(state.Object)
		if s.uids[subject] != identity(state.Object) { // recreated
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

// applicationChanged compares lasting properties. An application that had not converged before need not now.
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
		return subject.String() + " has another definition"
	case head != "" && was.Revision == s.head && is.Revision != head:
		return fmt.Sprintf("%s is at commit %s, the forge at %s", subject, is.Revision[:min(7, len(is.Revision))], head[:min(7, len(head))])
	case was.Converged() && !is.Converged():
		return fmt.Sprintf("%s is %s and %s", subject, SyncWord(is.Sync), HealthWord(is.Health))
	}
	return ""
}

// askedChanged compares the state that is not watched.
func (s *snapshot) askedChanged(now *snapshot) []string {
	var lines []string
	for _, cluster := range slices.Sorted(maps.Keys(s.marks)) {
		was := s.marks[cluster]
		is, asked := now.marks[cluster]
		if !asked { // the error was reported
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
			lines = append(lines, "branch "+name+" of the forge has other files than before")
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

// bookkeeping lists annotations that controllers and appliers maintain.
func bookkeeping() []string {
	return []string{
		"deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration", "kubectl.kubernetes.io/restartedAt",
		"reconcile.fluxcd.io/requestedAt", "reconcile.fluxcd.io/resetAt", "reconcile.fluxcd.io/forceAt",
		argo.Prefix + "refresh",
	}
}

// essence returns an object without volatile parts, or nil.
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

// differences returns the first three differing fields.
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

func walkDifferences(path string, a, b any, report func(string, any, any)) {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	if !okX || !okY {
		if !reflect.DeepEqual(a, b) {
			report(path, a, b)
		}
		return
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		walkDifferences(strings.TrimPrefix(path+"."+k, "."), x[k], y[k], report)
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
