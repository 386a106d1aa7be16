package verb_test

import (
	"strings"
	"testing"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// A story uses only a repository that it has created, and creates none that exists. What it may do there, story many-repositories tells.
func TestRepository(t *testing.T) {
	const create = "    - {title: it, repository: {name: shop, url: url}}\n"
	for steps, want := range map[string]string{
		create: "did not create",
		"    - {title: it, credentials: {repository: shop, cluster: hub, namespace: argocd, name: shop}}\n": "no step has created repository shop",
		"    - {title: it, commit: {repository: shop, message: m, remove: [a]}}\n":                          "no step has created repository shop",
		"    - {title: it, commit: {as: shop, message: m, remove: [a]}}\n":                                  "no step has created repository shop",
	} {
		var others *scenariotest.Repositories
		r := playWith(t, steps, func(l *scenariotest.Lab) {
			if others = l.Repositories; steps == create {
				if _, err := others.Create(t.Context(), "shop"); err != nil {
					t.Fatal(err)
				}
			}
		})
		if there := len(others.URLs()) == 1; there != (steps == create) {
			t.Errorf("%s: repositories %q", steps, others.URLs())
		}
		if text := textOf(r); r.Verdict != scenario.Broken || !strings.Contains(text, want) {
			t.Errorf("%s: %s", steps, text)
		}
	}
}
