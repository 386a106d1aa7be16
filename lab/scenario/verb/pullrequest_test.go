package verb_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

const openRequest = `
  - title: a branch
    commit: {branch: pr/color, message: "another color", set: {environments/dev/addons/podinfo/values.yaml: {ui.color: "#ffffff"}}}
  - title: a pull request
    pull-request:
      open: {branch: pr/color, title: another color, body: why}
      has: {state: open, author: lab}
`

// A pull request is opened, judged, refused to the bot, merged and synced; afterwards main is as before, and the request closed or merged.
func TestPullRequest(t *testing.T) {
	r := playWith(t, openRequest+`
  - title: judged
    pull-request: {status: {check: lab/diff, state: success, description: 1 object}, as: bot}
  - title: commented on
    pull-request: {comment: looks good, as: bot, has: {statuses: {lab/diff: {state: success, author: lab-bot}}, comments: [{author: lab-bot, body: looks good}]}}
  - title: the bot does not merge
    pull-request: {merge: true, as: bot, outcome: refused, refusal: {by: forge, message: {matches: cannot be merged}}}
  - title: nothing to open
    pull-request: {open: {branch: none, title: x}, outcome: refused, refusal: {by: lab, message: {matches: no branch none}}}
  - title: merged
    pull-request: {request: "${request}", merge: true, has: {state: merged}, capture: {is: state}}
  - title: synced
    expect: {application: {cluster: dev, addon: podinfo}, revision: "${commit}", sync: synced, patience: 2m}
`, func(*scenariotest.Lab) {})
	if r.Verdict != scenario.Passed {
		t.Error(textOf(r))
	}
}

func TestPullRequestClosed(t *testing.T) {
	for name, c := range map[string]struct{ step, says string }{
		"closed":        {"pull-request: {close: true, has: {state: closed}}", ""},
		"left open":     {"wait: {for: 1s}", ""},
		"never merged":  {"pull-request: {has: {state: merged}, within: 5s}", "pull request #1 in the forge: state = merged"},
		"not refused":   {"pull-request: {comment: x, outcome: refused}", "it was done"},
		"of no request": {`pull-request: {request: 99, comment: x}`, "not found"},
	} {
		fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), map[string]string{
			"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n  steps:" + openRequest + "  - title: then\n    " + c.step + "\n",
		})
		story, err := scenario.Load(fsys, "test", verb.All())
		if err != nil {
			t.Fatal(problemsOf(err))
		}
		synctest.Test(t, func(t *testing.T) {
			l := scenariotest.New(t, fsys)
			r := scenario.Player{World: l.World}.Play(t.Context(), story)
			if (r.Verdict == scenario.Passed) != (c.says == "") || !strings.Contains(textOf(r), c.says) {
				t.Errorf("%s: %s", name, textOf(r))
			}
			if len(r.Left) > 0 {
				t.Errorf("%s: left is %q", name, r.Left)
			}
			if state, err := l.Requests.Look(t.Context(), 1); err != nil || state["state"] != "closed" {
				t.Errorf("%s: afterwards %v, %v", name, state["state"], err)
			}
		})
	}
}

// problemsOf returns all problems of a scenario as text.
func problemsOf(err error) string {
	var list lab.Problems
	if !errors.As(err, &list) {
		return fmt.Sprint(err)
	}
	var text strings.Builder
	for _, p := range list {
		text.WriteString(p.String() + "; " + p.Cure + "\n")
	}
	return text.String()
}

func TestPullRequestRejected(t *testing.T) {
	for step, says := range map[string]string{
		"{merge: true, close: true}":                               "several actions in one step",
		"{}":                                                       "without an action or an expectation",
		"{has: {state: open}, outcome: refused}":                   "an expectation cannot be refused",
		"{open: {branch: --force, title: x}}":                      "invalid branch name",
		`{open: {branch: ../x, title: x}}`:                         "invalid branch name",
		`{open: {branch: x, title: x}, request: 1}`:                "has no number yet",
		"{request: three, merge: true}":                            "must be the number",
		"{merge: true, within: 1s, patience: 1s}":                  "both within and patience",
		"{status: {check: x, state: fine}}":                        "fine",
		"{merge: true, refusal: {by: forge}}":                      "refusal needs outcome: refused",
		`{request: "${request}", merge: true}`:                     "${request}",
		"{open: {branch: x, title: x}, as: somebody, merge: true}": "somebody",
	} {
		fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), map[string]string{
			"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n  steps:\n  - title: x\n    pull-request: " + step + "\n",
		})
		if _, err := scenario.Load(fsys, "test", verb.All()); err == nil || !strings.Contains(problemsOf(err), says) {
			t.Errorf("%s: %s, want %q", step, problemsOf(err), says)
		}
	}
}
