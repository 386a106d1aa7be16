package up

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"homelab/lab"
	"homelab/lab/engine/notes"
	"homelab/lab/engine/survey"
	"homelab/lab/plan"
)

// Upgrade is the replacement of the engine's version by a run, and what it changed.
type Upgrade struct {
	From, To string // "3.2.11"; empty if the run kept the version
	survey.Report
}

// Lines returns the report for users.
func (u Upgrade) Lines() []string {
	versions := u.From + " to " + u.To
	if u.From == u.To {
		versions = u.From + " as before"
	}
	if !u.Changes() {
		return []string{fmt.Sprintf("%s: all %d tracked objects and %d pods are as they were, and no application is newly out of sync", versions, u.Objects, u.Pods)}
	}
	lines := []string{fmt.Sprintf("%s, of %d tracked objects and %d pods:", versions, u.Objects, u.Pods)}
	for _, part := range []struct {
		what string
		list []string
	}{
		{"newly out of sync", u.OutOfSync},
		{"applications gone", u.Gone},
		{"applications new", u.New},
		{"objects replaced", u.Replaced},
		{"objects deleted", u.Deleted},
		{"objects that no application tracks any more", u.Orphaned},
		{"objects tracked in another way", u.retracked()},
		{"pods outside of the engine", u.Restarted},
		{"unknown, cluster", u.Unknown},
	} {
		for _, name := range part.list {
			lines = append(lines, part.what+": "+name)
		}
	}
	return lines
}

// retracked returns the first of the objects tracked in another way: usually all are.
func (u Upgrade) retracked() []string {
	const named = 5
	if len(u.Retracked) <= named+1 {
		return u.Retracked
	}
	return append(slices.Clone(u.Retracked[:named]), fmt.Sprintf("%d more; -o json names all", len(u.Retracked)-named))
}

// upgrades returns the versions that steps replace, of the hub's engine or else of a spoke's.
func (l *Lab) upgrades(seen *Seen, steps []lab.Step) (u Upgrade) {
	for _, s := range steps {
		of := seen.Engine
		if s.Cluster != "" {
			of = seen.Engines[s.Cluster]
		}
		if s.Kind == plan.KindEngine && s.Action == lab.ActionUpdate && plan.Upgrade(of, l.Release.Version) != "" {
			u.From, u.To, _ = strings.Cut(plan.Upgrade(of, l.Release.Version), " -> ")
			return u
		}
	}
	return u
}

// kept returns the version that a run keeps, for the report of one that is to have it nonetheless.
func (l *Lab) kept(seen *Seen) (u Upgrade) {
	of := seen.Engine
	for _, c := range l.Estate.Clusters {
		if of.Version == "" {
			of = seen.Engines[c.Name]
		}
	}
	u.From = cmp.Or(strings.TrimPrefix(of.Version, "v"), l.Release.Version)
	u.To = u.From
	return u
}

// Warnings returns what users should know before the steps replace the engine's version: what upstream's notes call breaking, or that there is no way back.
func (l *Lab) Warnings(seen *Seen, steps []lab.Step) (lines []string) {
	u := l.upgrades(seen, steps)
	if u.To == "" {
		return nil
	}
	if semver.Compare("v"+u.To, "v"+u.From) < 0 {
		return []string{fmt.Sprintf("%s %s to %s: upstream supports no way back but a snapshot from before", l.Definition.Title, u.From, u.To)}
	}
	for _, n := range notes.Between(string(l.Definition.Type), u.From, u.To) {
		lines = append(lines, fmt.Sprintf("breaking in %s %s: %s (%s)", l.Definition.Title, n.Minor, n.Text, n.URL))
	}
	if !notes.Known(string(l.Definition.Type), u.To) {
		lines = append(lines, fmt.Sprintf("what is breaking in %s %s is unknown to this lab", l.Definition.Title, lab.Minor(u.To)))
	}
	return lines
}

// survey surveys the clusters in scope that exist.
func (l *Lab) survey(ctx context.Context, clusters []lab.Cluster, seen *Seen) (survey.Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyLimit)
	defer cancel()
	if l.Survey != nil {
		return l.Survey(ctx)
	}
	e, err := l.Hub()
	if err != nil {
		return survey.Survey{}, err
	}
	applications, err := e.Applications(ctx)
	if err != nil {
		return survey.Survey{}, err
	}
	hub, err := l.Clusters.RESTConfig(l.Estate.Hub().Name)
	if err != nil {
		return survey.Survey{}, err
	}
	keys, err := l.Definition.Tracking(ctx, hub)
	if err != nil {
		return survey.Survey{}, err
	}
	var list []survey.Cluster
	for _, c := range clusters {
		is := seen.Clusters[c.Name]
		if !is.Exists && !is.Attached {
			continue
		}
		cfg, err := l.Clusters.RESTConfig(c.Name)
		if err != nil {
			return survey.Survey{}, err
		}
		of, err := survey.Connect(c.Name, cfg)
		if err != nil {
			return survey.Survey{}, err
		}
		of.Runs = is.Running
		if c.Role == lab.RoleHub || l.ownEngine(c) {
			of.Engine = l.Definition.Namespace
		}
		if c.Provider == lab.ProviderExisting {
			if of.Only = namespacesOf(applications, c.Name); len(of.Only) == 0 {
				continue
			}
		}
		list = append(list, of)
	}
	return survey.Take(ctx, list, applications, keys), nil
}

// namespacesOf returns the namespaces of the applications of a cluster.
func namespacesOf(applications []lab.Application, cluster string) []string {
	names := []string{}
	for _, a := range applications {
		if a.Cluster == cluster && a.Namespace != "" {
			names = append(names, a.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// surveyLimit bounds a survey, so that it does not keep a run from ending.
const surveyLimit = time.Minute
