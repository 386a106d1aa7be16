package argocd

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
)

// A lab is settled once all its roots are, at one commit.
func TestStandingRoots(t *testing.T) {
	root := func(name, commit string) string {
		return strings.Replace(object(name, commit, "Synced", "Healthy", ""), "{app.kubernetes.io/instance: addons}", "{lab.homelab/part: root}", 1)
	}
	elsewhere := strings.NewReplacer("http://forge/estate.git", "http://forge/other.git").Replace(root("other", "c0"))
	annotation := "metadata: {annotations: {lab.homelab/estate: http://forge/estate.git main}, "
	rootSet := "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\n" + annotation + "name: bootstrap, labels: {lab.homelab/part: root}}\n"
	for _, c := range []struct {
		name     string
		objects  []string
		root     bool
		revision string
		settled  bool
		behind   []string
	}{
		{"none", []string{object("stray", "c2", "Synced", "Healthy", "")}, false, "", false, nil},
		{"two at one commit", []string{root("a", "c2"), root("b", "c2")}, true, "c2", true, nil},
		{"one is older", []string{root("a", "c2"), root("b", "c1")}, true, "c2", false, []string{"b"}},
		{"one is out of sync", []string{root("a", "c2"), strings.Replace(root("b", "c2"), "status: Synced", "status: OutOfSync", 1)}, true, "c2", false, []string{"b"}},
		{"one is syncing", []string{root("a", "c2"), root("b", "c2") + "  operationState: {phase: Running}\n"}, true, "c2", true, []string{"b"}},
		{"one waits for its sets", []string{root("a", "c2"), waiting(root("b", "c2"), "ApplicationSet")}, true, "c2", true, nil},
		{"one waits for its applications", []string{root("a", "c2"), waiting(root("b", "c2"), "Application")}, true, "c2", true, nil},
		{"one waits for more than others", []string{root("a", "c2"), waiting(root("b", "c2"), "AppProject")}, true, "c2", false, []string{"b"}},
		{"an application is changed", []string{root("a", "c2"), strings.Replace(object("made", "c2", "Synced", "Healthy", ""), "path: ", "path: new-", 1)}, true, "c2", true, []string{"made"}},
		{"one reads another repository", []string{strings.Replace(root("a", "c2"), "metadata: {", annotation, 1), elsewhere}, true, "c2", true, nil},
		{"the first reads another repository", []string{strings.Replace(strings.Replace(elsewhere, "metadata: {", annotation, 1), "name: other", "name: a", 1), root("b", "c1")}, true, "c1", true, []string{"b"}},
		{"a set alone", []string{rootSet, object("made", "c1", "Synced", "Healthy", "")}, true, "c1", true, []string{"made"}},
		{"a set without applications yet", []string{rootSet}, true, "", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, _ := newFake(t, c.objects...)
			s, err := a.Snapshot(t.Context())
			if err != nil || s.Root != c.root || s.Revision != c.revision || s.Settled != c.settled {
				t.Errorf("%+v, %v", s, err)
			}
			if got := s.Behind(engine.Want{Revision: "c2"}, nil); !slices.Equal(got, c.behind) {
				t.Errorf("behind %v, want %v", got, c.behind)
			}
		})
	}
}

// waiting makes an Application wait for the health of an object in it.
func waiting(app, kind string) string {
	return strings.Replace(app, "health: {status: Healthy}", "health: {status: Progressing}", 1) +
		"  resources: [{group: argoproj.io, kind: " + kind + ", namespace: argocd, name: podinfo, health: {status: Progressing}}]\n"
}

// The order is roots, then Applications that only contain others, then sets, then the rest.
func TestWaitConvergedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := strings.Replace(object("workloads", oldCommit, "Synced", "Healthy", ""), "addons}", "addons, lab.homelab/part: root}", 1)
		holder := object("platform", oldCommit, "Synced", "Healthy", "  resources: [{group: argoproj.io, kind: ApplicationSet, namespace: argocd, name: podinfo}]\n")
		a, hub, _ := newFake(t, strings.Join([]string{object("addons", oldCommit, "Synced", "Healthy", ""), second, holder, object("prod-podinfo", oldCommit, "Synced", "Healthy", ""), "\n" + set("")}, "---"))
		done := make(chan error, 1)
		var apps []lab.Application
		go func() {
			var err error
			apps, err = a.WaitConverged(t.Context(), engine.Want{Revision: newCommit, Expected: []string{"prod-podinfo"}, Changed: true}, func(string) {})
			done <- err
		}()
		step := func(want ...string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			if w := hub.Writes(); !slices.Equal(w, want) {
				t.Fatalf("requests %v, want %v", w, want)
			}
		}
		step("patch applications addons", "patch applications workloads", "patch applications platform")
		for _, name := range []string{"addons", "workloads", "platform"} {
			hub.patch(t, applications, name, comparedAt(newCommit))
		}
		step("patch applicationsets podinfo")
		hub.patch(t, applicationSets, "podinfo", unannotate(refreshApplicationSet))
		step("patch applicationsets podinfo", "patch applications prod-podinfo")
		hub.patch(t, applicationSets, "podinfo", unannotate(refreshApplicationSet))
		hub.patch(t, applications, "prod-podinfo", comparedAt(newCommit))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(apps) != 2 || !apps[0].Leads || apps[1].Leads {
			t.Errorf("%+v", apps)
		}
	})
}
