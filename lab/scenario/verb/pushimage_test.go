package verb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

func TestPushImage(t *testing.T) {
	r := &scenariotest.Registry{}
	had, err := r.Push(t.Context(), "before", "team/web:1")
	if err != nil {
		t.Fatal(err)
	}
	with := func(l *scenariotest.Lab) { l.Registry = r }
	const steps = "  - title: it\n    push-image: {image: web, as: 'team/web:1'}\n  - title: it\n    push-image: {image: web, as: 'team/web:2'}\n"
	if got := playWith(t, steps, with); got.Verdict != scenario.Passed || !strings.Contains(textOf(got), "team/web:2 is sha256:") {
		t.Error(textOf(got))
	}
	if tags := r.Tags(); len(tags) != 1 || tags["team/web:1"] != had {
		t.Errorf("afterwards %v, before %s", tags, had)
	}
	if got := playWith(t, "  - title: it\n    push-image: {image: none, as: 'team/web:2'}\n", with); got.Verdict != scenario.Broken || !strings.Contains(textOf(got), "no image none") {
		t.Error(textOf(got))
	}
	if tags := r.Tags(); len(tags) != 1 {
		t.Errorf("after a failure %v", tags)
	}
	if got := playWith(t, steps, func(l *scenariotest.Lab) { l.Registry = nil }); got.Verdict != scenario.Broken || !strings.Contains(textOf(got), "has no registry") {
		t.Error(textOf(got))
	}
}

func TestPushImageRejected(t *testing.T) {
	for as, ok := range map[string]bool{"team/web:1": true, "'${tag}'": true, "team/web": false, "Team/web:1": false, "'team/web:1@sha256:0'": false, "../web:1": false} {
		fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), map[string]string{
			"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n  steps:\n  - {title: it, push-image: {image: web, as: " + as + "}}\n",
		})
		_, err := scenario.Load(fsys, "test", verb.All())
		if says := problemsOf(err); strings.Contains(says, "is not NAME:TAG") == ok {
			t.Errorf("%s: %s", as, says)
		}
	}
}
