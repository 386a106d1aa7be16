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

// String is how a person calls it: "application prod-podinfo", "deployment podinfo in prod".
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

// State is what was seen of a subject.
type State struct {
	Known       bool           // it was looked at
	Application *Application   // nil where there is none
	Object      map[string]any // nil where there is none
	Events      []map[string]any
}

// View is the world at one moment.
type View map[Subject]State
