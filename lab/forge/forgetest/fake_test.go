package forgetest_test

import (
	"os"
	"path/filepath"
	"testing"

	"homelab/lab"
	"homelab/lab/forge"
	"homelab/lab/forge/forgetest"
)

func TestFake(t *testing.T) {
	f := &forgetest.Fake{Dir: filepath.Join(t.TempDir(), "estate.git")}
	forgetest.Contract(t, forgetest.Subject{
		Forge: f, Spec: forge.Spec{Image: lab.Image{Ref: "gitea:1", Digest: "sha256:1"}},
		Stop:  func(*testing.T) { f.Stop() },
		Pause: func(*testing.T) { f.Pause() },
		Silence: func(*testing.T) func() {
			f.Silence(true)
			return func() { f.Silence(false) }
		},
		Unprepare: func(t *testing.T) {
			if err := f.Unprepare(); err != nil {
				t.Fatal(err)
			}
		},
		Other: func(_ *testing.T, message string, files ...string) { f.Commit("ann", message, files...) },
		Strangers: func(*testing.T) {
			f.Branch("ann", "try", "try it", "try.txt", "try\n")
			f.Add(forge.PullRequest{Repository: "lab/estate", Number: 1, Title: "Try it", Author: "ann"}, "ann/notes")
			f.AddItem(forge.Item{Kind: "issue", Repository: "lab/estate", Title: "#2 It breaks", Author: "ann"})
			f.AddItem(forge.Item{Kind: "release", Repository: "lab/estate", Title: "First", Author: "ann"})
			f.AddItem(forge.Item{Kind: "wiki page", Repository: "lab/estate", Title: "Home"})
		},
		Chart: func(t *testing.T, dir, version, text string) lab.Chart {
			file := filepath.Join(dir, "chart.tgz")
			if err := os.WriteFile(file, []byte(version+text), 0o644); err != nil {
				t.Fatal(err)
			}
			return lab.Chart{Name: "demo", Version: version, Digest: forgetest.Digest(t, file), Archive: file}
		},
	})
}
