package cli

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/up"
)

// A hint is typed where it was read: it has to reach the same lab and estate from there.
func TestHintsReachTheSameLab(t *testing.T) {
	p := &program{Env: Env{Getenv: func(string) string { return "" }}}
	for name, c := range map[string]struct {
		s                 session
		command, onEstate string
	}{
		"the estate around":              {session{name: "demo", here: "demo"}, "lab up", "lab up"},
		"another name":                   {session{name: "mine", here: "demo"}, "lab up --name mine", "lab up --name mine"},
		"an estate elsewhere":            {session{name: "far", here: "demo", named: "../far", estate: estateFiles{name: "far"}}, "lab up --name far", "lab up -C ../far"},
		"one elsewhere, another name":    {session{name: "mine", here: "demo", named: "../far", estate: estateFiles{name: "far"}}, "lab up --name mine", "lab up -C ../far --name mine"},
		"away from the estate of a lab":  {session{name: "far", here: "homelab", estate: estateFiles{name: "far"}}, "lab up --name far", "lab up --name far"},
		"the estate around, named again": {session{name: "demo", here: "demo", named: ".", estate: estateFiles{name: "demo"}}, "lab up", "lab up -C ."},
	} {
		c.s.program = p
		if got := c.s.command("lab up"); got != c.command {
			t.Errorf("%s: %s, want %s", name, got, c.command)
		}
		if got := c.s.onEstate("lab up"); got != c.onEstate {
			t.Errorf("%s: %s, want %s", name, got, c.onEstate)
		}
	}
}

func TestWhatToEditIsNamedFromHere(t *testing.T) {
	estate := t.TempDir()
	within := filepath.Join(estate, "clusters")
	if err := os.Mkdir(within, 0o755); err != nil {
		t.Fatal(err)
	}
	s := session{estate: estateFiles{dir: estate}}
	for wd, want := range map[string]string{
		estate: "clusters/dev.yaml", filepath.Dir(estate): filepath.Join(filepath.Base(estate), "clusters/dev.yaml"), within: "dev.yaml",
		t.TempDir(): filepath.Join(estate, "clusters/dev.yaml"),
	} {
		t.Chdir(wd)
		if got := s.toEdit("clusters/dev.yaml"); got != want {
			t.Errorf("in %s: %s, want %s", wd, got, want)
		}
	}
}

func TestWhatComesNextCanBeDone(t *testing.T) {
	t.Chdir(t.TempDir())
	files := fstest.MapFS{"environments/dev/addons/podinfo/values.yaml": {}, "scenarios/drift/scenario.yaml": {}}
	s := &session{program: &program{Env: Env{Getenv: func(string) string { return "" }}}, name: "mine", here: "homelab"}
	r := &world{session: s, Lab: &up.Lab{Estate: &lab.Estate{FS: files, Environments: []lab.Environment{{Name: "dev", Order: 1}}}}}
	story := ", or play a story: lab scenario run drift --name mine"
	if got, want := r.next(), "lab init mine && cd mine, edit environments/dev/addons/podinfo/values.yaml and run lab up"+story; got != want {
		t.Errorf("of the built-in estate: %s, want %s", got, want)
	}
	s.estate.dir = "/srv/estate"
	if got, want := r.next(), "edit /srv/estate/environments/dev/addons/podinfo/values.yaml and run lab up --name mine"+story; got != want {
		t.Errorf("away from the estate: %s, want %s", got, want)
	}
}
