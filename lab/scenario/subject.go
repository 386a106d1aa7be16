package scenario

import (
	"cmp"
	"fmt"
	"strings"

	"homelab/lab"
)

// Subject is an application, all applications of an addon on a cluster, an object, or the events of a namespace.
type Subject struct {
	Cluster    string
	Addon      string // applications only
	APIVersion string // objects only
	Kind       string
	Namespace  string
	Name       string // empty for events, and for all applications of an addon
}

// ApplicationOf returns the subject of an addon's applications for a cluster: usually one.
func ApplicationOf(cluster, addon string) Subject { return Subject{Cluster: cluster, Addon: addon} }

// Subject returns the application as a subject.
func (a Application) Subject() Subject {
	return Subject{Cluster: a.Cluster, Addon: a.Addon, Name: a.Name}
}

// EventsIn returns the subject of a namespace's events.
func EventsIn(cluster, namespace string) Subject {
	return Subject{Cluster: cluster, APIVersion: "v1", Kind: "Event", Namespace: namespace}
}

func (s Subject) isApplication() bool { return s.APIVersion == "" && s.Addon+s.Name != "" }
func (s Subject) isEvents() bool      { return s.Kind == "Event" && s.Name == "" }

// includes reports whether a subject is another, or applications of which that is one.
func (s Subject) includes(one Subject) bool {
	return s == one || s.isApplication() && s == Subject{Cluster: one.Cluster, Addon: one.Addon}
}

// String formats it for users: "application prod-podinfo", "deployment podinfo in prod".
func (s Subject) String() string {
	switch {
	case s.isApplication():
		return "application " + cmp.Or(s.Name, lab.ApplicationName(s.Cluster, s.Addon))
	case s.isEvents():
		return "events of namespace " + s.Namespace + " in " + s.Cluster
	}
	return fmt.Sprintf("%s %s in %s", strings.ToLower(s.Kind), s.Name, s.Cluster)
}

// ObjectRef names an object in a cluster.
type ObjectRef struct {
	Cluster    string `yaml:"cluster" need:"true" doc:"name of the cluster in the estate"`
	APIVersion string `yaml:"apiVersion" doc:"default v1"`
	Kind       string `yaml:"kind" need:"true" doc:"Deployment, ConfigMap, ..."`
	Namespace  string `yaml:"namespace" doc:"omitted for cluster-scoped objects"`
	Name       string `yaml:"name" need:"true"`
}

// Subject returns the object as a subject.
func (o ObjectRef) Subject() Subject {
	return Subject{Cluster: o.Cluster, APIVersion: cmp.Or(o.APIVersion, "v1"), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// ApplicationRef names an addon's application for a cluster, independent of the engine's naming.
type ApplicationRef struct {
	Cluster string `yaml:"cluster" need:"true"`
	Addon   string `yaml:"addon" need:"true"`
	Name    string `yaml:"name" doc:"of one of several; without it, all must meet an expectation"`
}

// Subject returns the applications as a subject.
func (a ApplicationRef) Subject() Subject {
	return Subject{Cluster: a.Cluster, Addon: a.Addon, Name: a.Name}
}

// Applications returns the subject of all applications. It is known once the engine has reported them all, while its watch lasts.
func Applications() Subject { return ApplicationOf("", "*") }

// place names the source of a subject's observations.
func (s Subject) place() string {
	if s.isApplication() {
		return "the engine"
	}
	return "cluster " + s.Cluster
}

// State is the state of a subject. Without Known, it is neither present nor absent.
type State struct {
	Known       bool           // observed, and its source is alive
	Lost        bool           // known before
	Why         string         // why it is not known; may be empty
	Application *Application   // nil if absent
	Object      map[string]any // nil if absent
	Events      []map[string]any
}

// Unseen explains why a subject is not known.
func (s State) Unseen(of Subject) string {
	text := "nothing seen from " + of.place() + " yet"
	if s.Lost {
		text = "nothing seen from " + of.place() + " any more"
	}
	if s.Why != "" {
		text += ": " + Shown(s.Why)
	}
	return text
}

// View is the state of all subjects at one point in time.
type View map[Subject]State

// Of returns the subjects that a subject stands for: itself, or an addon's applications on a cluster that exist or may exist.
func (v View) Of(s Subject) []Subject {
	if s == Applications() || !s.isApplication() || s.Name != "" {
		return []Subject{s}
	}
	var list []Subject
	for _, one := range sortedSubjects(v) {
		if state := v[one]; s.includes(one) && (state.Application != nil || !state.Known) {
			list = append(list, one)
		}
	}
	if len(list) == 0 {
		return []Subject{s}
	}
	return list
}

// State returns the state of a subject, of the first that it stands for. An application that the engine does not report is absent once all were
// reported.
func (v View) State(s Subject) State {
	state, seen := v[v.Of(s)[0]]
	if seen || !s.isApplication() {
		return state
	}
	all := v[Applications()]
	return State{Known: all.Known, Lost: all.Lost, Why: all.Why}
}
