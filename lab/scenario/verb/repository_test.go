package verb_test

import (
	"strings"
	"testing"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// A story creates no repository that exists. What it may do in its own, story many-repositories tells.
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
