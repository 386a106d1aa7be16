package scenario

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Loner is an action that concerns more than its subjects: all that follows Git, or a whole cluster. A story with one is not played beside others.
type Loner interface {
	// Alone returns the reason: "commits to Git".
	Alone() string
}

// Scoped is an action whose subjects are in files of the story.
type Scoped interface {
	Scope(files fs.FS) ([]Subject, error)
}

// Alone returns the stories that cannot be played beside others, by the first reason: "commits to Git: drift, rollback".
func Alone(list []*Scenario, w World) []string {
	names := map[string][]string{}
	for _, s := range list {
		if _, alone := s.scope(w); len(alone) > 0 {
			names[alone[0]] = append(names[alone[0]], s.Name)
		}
	}
	var lines []string
	for _, why := range slices.Sorted(maps.Keys(names)) {
		lines = append(lines, why+": "+strings.Join(names[why], ", "))
	}
	return lines
}

// Apart reports whether two stories can be played side by side: neither has to be alone, and they have no common subjects.
func Apart(a, b *Scenario, w World) bool {
	of, alone := a.scope(w)
	others, too := b.scope(w)
	if len(alone)+len(too) > 0 {
		return false
	}
	for _, s := range of {
		for _, o := range others {
			if w.common(s, o) || w.common(o, s) {
				return false
			}
		}
	}
	return true
}

// scope returns what a story is about, and why it cannot be played beside others.
func (s *Scenario) scope(w World) (subjects []Subject, alone []string) {
	own := s.For(w.Engines)
	vars := maps.Clone(own.Vars)
	vars["lab"], vars["scenario"] = w.Lab, s.Name
	maps.Copy(vars, w.places())
	for _, step := range own.all() {
		action, err := step.filled(vars, true)
		if err != nil {
			return nil, append(alone, err.Error())
		}
		var about []Subject
		if l, ok := action.(Loner); ok {
			alone = append(alone, l.Alone())
		}
		if a, ok := action.(Watcher); ok {
			about = a.Subjects()
		}
		if a, ok := action.(Scoped); ok {
			if about, err = a.Scope(s.Files); err != nil {
				return nil, append(alone, fmt.Sprintf("step %d: %v", step.Number, err))
			}
		}
		for _, one := range about {
			if unnamed(one) {
				alone = append(alone, "is about what is known only when it is played")
				break
			}
		}
		subjects = append(subjects, about...)
	}
	return subjects, alone
}

// common reports whether what happens to s may show in o. Which namespace an application has is known when it runs: it meets every object of its cluster, and
// of the one where its engine runs.
func (w World) common(s, o Subject) bool {
	switch {
	case s.isApplication() && o.isApplication():
		return s.Cluster == o.Cluster && s.Addon == o.Addon
	case s.isApplication():
		return o.Cluster == s.Cluster || o.Cluster == w.engineOf(s.Cluster)
	case o.isApplication() || s.Cluster != o.Cluster:
		return false
	}
	return s.Namespace == o.Namespace || s.Namespace == "" || o.Namespace == ""
}

// Company joins stories that are played side by side. Each records the lab before any of them has changed something, and compares after all have undone
// their changes.
type Company struct{ opened, undone *meeting }

// NewCompany returns a Company for a number of stories.
func NewCompany(stories int) *Company {
	return &Company{opened: newMeeting(stories), undone: newMeeting(stories)}
}

type meeting struct {
	mu   sync.Mutex
	left int
	all  chan struct{} // closed when all have arrived
}

func newMeeting(size int) *meeting { return &meeting{left: size, all: make(chan struct{})} }

// member is a story's part in a company; its zero value is a story that is played alone.
type member struct {
	company        *Company
	opened, undone bool
}

func (m *meeting) arrive(once *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *once {
		return
	}
	*once = true
	if m.left--; m.left == 0 {
		close(m.all)
	}
}

func (m *meeting) wait(ctx context.Context) error {
	select {
	case <-m.all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open waits until all stories have recorded the lab.
func (m *member) open(ctx context.Context) error {
	if m.company == nil {
		return nil
	}
	m.company.opened.arrive(&m.opened)
	return m.company.opened.wait(ctx)
}

// undo waits until all stories have undone their changes.
func (m *member) undo(ctx context.Context) error {
	if m.company == nil {
		return nil
	}
	m.company.undone.arrive(&m.undone)
	return m.company.undone.wait(ctx)
}

// leave lets the others go on without the story.
func (m *member) leave() {
	if m.company != nil {
		m.company.opened.arrive(&m.opened)
		m.company.undone.arrive(&m.undone)
	}
}
