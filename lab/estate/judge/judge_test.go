package judge_test

import (
	"testing"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/judge"
	"homelab/lab/estate/project"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

func object(t *testing.T, text string) render.Document {
	t.Helper()
	docs, problems := strict.Parse("app.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return render.Document{Node: docs[0], File: "app.yaml"}
}

// Of all that is wrong with an Application, the first reason is told; without it, the next.
func TestFirstReason(t *testing.T) {
	const wrong = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web}\nspec:\n  source: {repoURL: https://git.example.com/web, path: web, plugin: {}}\n" +
		"  destination: {namespace: '?'}\n  syncPolicy: {syncOptions: [CreateNamespace=true]}\n"
	app, problems := appset.ParseApplication("app.yaml", object(t, wrong).Node)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	limited := project.Read(object(t, "metadata: {name: team}\nspec: {sourceRepos: [https://git.example.com/other]}\n").Node, 0)
	open := project.Read(object(t, "metadata: {name: web}\nspec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}], clusterResourceWhitelist: [{group: '*', kind: '*'}]}\n").Node, 0)
	secret := object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nsops: {mac: x}\n")
	sealed := object(t, "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: s, namespace: web}\n")
	e := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub}}}
	a := judge.Application{Template: app, Plain: true, Rendered: true, Above: "apps", Replaces: true, Sources: []judge.Source{
		{Unrenderable: "no values.yaml", Mounted: true, Objects: []render.Document{secret, sealed}, Unread: "no branch v2", NoFolder: "no folder web"},
	}}
	source := &a.Sources[0]
	for _, c := range []struct {
		want  string
		state lab.State
		fix   func()
	}{
		{"below apps, which is synced manually", lab.Absent, func() { a.Above = "" }},
		{"it would replace the lab's engine", lab.Absent, func() { a.Replaces = false }},
		{"rendered by a plugin, which the lab's engine does not have", lab.Absent, func() { app.Spec.Source.Plugin = nil }},
		{"synced manually: spec.syncPolicy.automated is not set", lab.Absent, func() { app.Spec.SyncPolicy.Automated = &appset.Automated{} }},
		{`there can be no namespace "?"`, lab.Absent, func() { app.Spec.Destination.Namespace = "" }},
		{"its project default is not known to exist", lab.Absent, func() { a.Project = judge.Project{Project: limited, Known: true} }},
		{"its project team does not permit the source https://git.example.com/web", lab.Absent, func() {
			app.Spec.Project, a.Project = "web", judge.Project{Project: open, Known: true, Wave: judge.Wave{Folder: "apps", Number: 1}}
		}},
		{"its project web is in a later sync wave", lab.Absent, func() { a.Project.Wave.Number = 0 }},
		{"it cannot be rendered: no values.yaml", lab.Absent, func() { source.Unrenderable = "" }},
		{"its SealedSecrets are encrypted for the controller upstream", lab.Absent, func() { source.Mounted = false }},
		{"app.yaml is encrypted", lab.Absent, func() { source.Objects = source.Objects[1:] }},
		{"no branch v2", lab.Absent, func() { source.Unread = "" }},
		{"no folder web", lab.Absent, func() { source.NoFolder = "" }},
		{"", lab.Unready, func() {}},
	} {
		g := lab.Generated{Folder: "apps"}
		if a.Judge(e, &g); g.LeftOut != c.want || g.State != c.state {
			t.Errorf("%q, %q, want %q, %q", g.LeftOut, g.State, c.want, c.state)
		}
		c.fix()
	}
}

// What is wrong with a release of the estate's own is a problem; one of another repository is left out.
func TestRelease(t *testing.T) {
	of := fluxset.Release{Name: "web", Source: "GitRepository web"}
	for _, c := range []struct {
		judge.Release
		want    string
		problem bool
	}{
		{judge.Release{NoSource: true, Foreign: true}, "HelmRelease web: chart source GitRepository web does not exist", false},
		{judge.Release{NoSource: true}, "", true},
		{judge.Release{NoFolder: "folder web in the estate", Foreign: true}, "HelmRelease web: no chart folder web in the estate", false},
		{judge.Release{NoFolder: "folder web in the estate"}, "", true},
		{judge.Release{Unusable: "no branch v2"}, "HelmRelease web: no branch v2", false},
	} {
		c.Release.Release = of
		var g lab.Generated
		if f := c.Judge(&g); g.LeftOut != c.want || (len(f.Problems) > 0) != c.problem {
			t.Errorf("%q, %v, want %q", g.LeftOut, f.Problems, c.want)
		}
	}
}
