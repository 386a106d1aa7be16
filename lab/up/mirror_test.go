package up_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/up"
)

// A mirror is pushed when its source changed, and never over foreign commits.
func TestFollowMirrors(t *testing.T) {
	s := newStage(t)
	web := func(text string) {
		s.files["upstream/apps/web.yaml"] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
		s.load()
	}
	edit(s.files, lab.ClusterFile("hub"), "  role: hub\n", "  role: hub\n  repositories: {https://github.com/acme/gitops: upstream}\n")
	web("one")

	run := func(want ...string) {
		t.Helper()
		changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
		must(t, err)
		var about []string
		for _, c := range changed {
			if strings.Contains(c, "gitops") {
				about = append(about, c)
			}
		}
		if !slices.Equal(about, want) {
			t.Errorf("changed %q, want %q", about, want)
		}
	}
	run("estate: gitops/apps/web.yaml", "estate: gitops/webhook", "addons: repository mirror-gitops: http://lab-demo-forge:3000/lab/gitops.git")
	run()
	web("two")
	run("estate: gitops/apps/web.yaml")

	clone := filepath.Join(tempDir(t), "clone")
	for _, args := range [][]string{
		{"clone", "--quiet", "--branch", "main", filepath.Join(s.forge.Dir, "mirrors", "gitops"), clone},
		{"-C", clone, "rm", "--quiet", "apps/web.yaml"},
		{"-C", clone, "-c", "user.name=she", "-c", "user.email=she@example.org", "commit", "--quiet", "-m", "gone"},
		{"-C", clone, "push", "--quiet"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	web("three")
	_, err := (&process{stage: s}).up(t.Context(), up.Options{})
	var refused *lab.Error
	if !errors.As(err, &refused) || refused.Code != "diverged" || !strings.Contains(refused.Cure, " pull ") {
		t.Errorf("error %v, want diverged", err)
	}
}

// The front receives pushes to the estate if manifests use its upstream address, which the engine does not match.
func TestFollowEstateWebhook(t *testing.T) {
	s := newStage(t)
	s.estate.Repositories = []lab.Repository{{Name: "estate", URL: "https://github.com/acme/mono", Dir: ".", Branch: "main", FS: s.estate.FS, Written: true}}
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil {
		t.Fatal(err)
	}
	lines, err := s.forge.Contents(t.Context())
	must(t, err)
	if !strings.Contains(lines[0], "hook http://demo-hub-control-plane:30081/webhook") {
		t.Errorf("forge: %s", lines[0])
	}
	changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
	if must(t, err); len(changed) > 0 {
		t.Errorf("second run changed %q", changed)
	}
}
