package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"homelab/lab"
)

// A hint reaches the same lab and estate when typed where it was printed.
func TestHintsReachTheSameLab(t *testing.T) {
	for name, c := range map[string]struct {
		s                 Workspace
		command, onEstate string
	}{
		"enclosing estate":         {Workspace{Name: "demo", here: "demo"}, "lab up", "lab up"},
		"another name":             {Workspace{Name: "mine", here: "demo"}, "lab up --name mine", "lab up --name mine"},
		"estate elsewhere":         {Workspace{Name: "far", here: "demo", named: "../far", Estate: Files{Name: "far"}}, "lab up --name far", "lab up -C ../far"},
		"elsewhere, another name":  {Workspace{Name: "mine", here: "demo", named: "../far", Estate: Files{Name: "far"}}, "lab up --name mine", "lab up -C ../far --name mine"},
		"outside the lab's estate": {Workspace{Name: "far", here: "homelab", Estate: Files{Name: "far"}}, "lab up --name far", "lab up --name far"},
		"enclosing estate, named":  {Workspace{Name: "demo", here: "demo", named: ".", Estate: Files{Name: "demo"}}, "lab up", "lab up -C ."},
	} {
		if got := c.s.Command("lab up"); got != c.command {
			t.Errorf("%s: %s, want %s", name, got, c.command)
		}
		if got := c.s.OnEstate("lab up"); got != c.onEstate {
			t.Errorf("%s: %s, want %s", name, got, c.onEstate)
		}
	}
}

func TestToEdit(t *testing.T) {
	estate := t.TempDir()
	within := filepath.Join(estate, "clusters")
	if err := os.Mkdir(within, 0o755); err != nil {
		t.Fatal(err)
	}
	s := Workspace{Estate: Files{Dir: estate}}
	for wd, want := range map[string]string{
		estate: "clusters/dev.yaml", filepath.Dir(estate): filepath.Join(filepath.Base(estate), "clusters/dev.yaml"), within: "dev.yaml",
		t.TempDir(): filepath.Join(estate, "clusters/dev.yaml"),
	} {
		t.Chdir(wd)
		if got := s.ToEdit("clusters/dev.yaml"); got != want {
			t.Errorf("in %s: %s, want %s", wd, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	t.Chdir(t.TempDir())
	files := fstest.MapFS{"environments/dev/addons/podinfo/values.yaml": {}}
	w := &Workspace{Name: "mine", here: "homelab"}
	est, stories := &lab.Estate{FS: files, Environments: []lab.Environment{{Name: "dev", Order: 1}}}, []string{"outage", "drift"}
	story := ", or play a story: lab scenario run drift --name mine"
	if got, want := w.Next(est, stories), "lab init mine && cd mine, edit environments/dev/addons/podinfo/values.yaml and run lab up"+story; got != want {
		t.Errorf("built-in estate: %s, want %s", got, want)
	}
	w.Estate.Dir = "/srv/estate"
	if got, want := w.Next(est, stories), "edit /srv/estate/environments/dev/addons/podinfo/values.yaml and run lab up --name mine"+story; got != want {
		t.Errorf("outside the estate: %s, want %s", got, want)
	}
}
