package scenario

import (
	"cmp"
	"fmt"
	"strings"

	"homelab/lab"
)

// Subject is something that can be watched: an application, an object, or the events of a namespace.
type Subject struct {
	Cluster    string
	Addon      string // of an application
	APIVersion string // of an object
	Kind       string
	Namespace  string
	Name       string // empty for events
}

// ApplicationOf is the application that brings an addon to a cluster.
func ApplicationOf(cluster, addon string) Subject { return Subject{Cluster: cluster, Addon: addon} }

// EventsIn is what a cluster reports in a namespace.
func EventsIn(cluster, namespace string) Subject {
	return Subject{Cluster: cluster, APIVersion: "v1", Kind: "Event", Namespace: namespace}
}

func (s Subject) isApplication() bool { return s.Addon != "" }
func (s Subject) isEvents() bool      { return s.Kind == "Event" && s.Name == "" }

// String is how a user calls it: "application prod-podinfo", "deployment podinfo in prod".
func (s Subject) String() string {
	switch {
	case s.isApplication():
		return "application " + lab.ApplicationName(s.Cluster, s.Addon)
	case s.isEvents():
		return "events of namespace " + s.Namespace + " in " + s.Cluster
	}
	return fmt.Sprintf("%s %s in %s", strings.ToLower(s.Kind), s.Name, s.Cluster)
}

// ObjectRef names an object in a cluster.
type ObjectRef struct {
	Cluster    string `yaml:"cluster" need:"true" doc:"name of the cluster in the estate"`
	APIVersion string `yaml:"apiVersion" doc:"v1 when left out"`
	Kind       string `yaml:"kind" need:"true" doc:"Deployment, ConfigMap, ..."`
	Namespace  string `yaml:"namespace" doc:"left out for objects that are in none"`
	Name       string `yaml:"name" need:"true"`
}

// Subject is the object as something to watch.
func (o ObjectRef) Subject() Subject {
	return Subject{Cluster: o.Cluster, APIVersion: cmp.Or(o.APIVersion, "v1"), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// ApplicationRef names the application that brings an addon to a cluster, whatever the engine calls it.
type ApplicationRef struct {
	Cluster string `yaml:"cluster" need:"true"`
	Addon   string `yaml:"addon" need:"true"`
}

// Subject is the application as something to watch.
func (a ApplicationRef) Subject() Subject { return ApplicationOf(a.Cluster, a.Addon) }

// Applications stands for all applications: it is known once the engine has told of every one that there is, and for as long as it goes on telling.
func Applications() Subject { return ApplicationOf("", "*") }

// place is who tells of a subject.
func (s Subject) place() string {
	if s.isApplication() {
		return "the engine"
	}
	return "cluster " + s.Cluster
}

// State is what was seen of a subject. Only what is known may be taken for there or for absent.
type State struct {
	Known       bool           // it was seen, and who tells of it goes on telling
	Lost        bool           // it was known before
	Why         string         // it is not known; empty where nobody said
	Application *Application   // nil where there is none
	Object      map[string]any // nil where there is none
	Events      []map[string]any
}

// Unseen says of a subject why it is not known.
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

// View is the world at one moment.
type View map[Subject]State

// State is what is known of a subject. The engine tells of the applications that there are, so one that it does not tell of is absent, once it has told of all.
func (v View) State(s Subject) State {
	state, seen := v[s]
	if seen || !s.isApplication() {
		return state
	}
	all := v[Applications()]
	return State{Known: all.Known, Lost: all.Lost, Why: all.Why}
}
