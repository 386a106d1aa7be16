package verb_test

import (
	"strings"
	"testing"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// A story creates no repository that exists. What it may do in its own is in story many-repositories.
func TestRepository(t *testing.T) {
	var others *scenariotest.Repositories
	r := playWith(t, "    - {title: it, repository: {name: shop, url: url}}\n", func(l *scenariotest.Lab) {
		others = l.Repositories
		if _, err := others.Create(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
	})
	if len(others.URLs()) != 1 {
		t.Errorf("repositories %q", others.URLs())
	}
	if text := textOf(r); r.Verdict != scenario.Broken || !strings.Contains(text, "did not create") {
		t.Error(text)
	}
}

// A name that is known when the story is played must be that of a repository that it has created.
func TestRepositoryByVariable(t *testing.T) {
	r := playWith(t, "    - {title: it, commit: {repository: '${lab}', message: m, remove: [a]}}\n", func(*scenariotest.Lab) {})
	if text := textOf(r); r.Verdict != scenario.Broken || !strings.Contains(text, "no step has created repository") {
		t.Error(text)
	}
}
