package mount

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
)

var at = lab.Position{File: "clusters/hub/cluster.yaml", Line: 7}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAdd(t *testing.T) {
	above := t.TempDir()
	home := filepath.Join(above, "estate")
	write(t, filepath.Join(above, "apps/.git/HEAD"), "ref: refs/heads/trunk\n")
	write(t, filepath.Join(above, "apps/web.yaml"), "beside\n")
	write(t, filepath.Join(above, "detached/.git/HEAD"), "0123456789\n")
	write(t, filepath.Join(above, "tree/.git"), "gitdir: ../apps/.git/worktrees/tree\n")
	write(t, filepath.Join(above, "apps/.git/worktrees/tree/HEAD"), "ref: refs/heads/topic\n")
	write(t, filepath.Join(above, "apps/.git/worktrees/tree/commondir"), "../..\n")
	write(t, filepath.Join(above, "apps/.git/worktrees/tree/gitdir"), filepath.Join(above, "tree/.git")+"\n")
	write(t, filepath.Join(home, "vendor/lib/web.yaml"), "inside\n")
	m := Mounts{FS: os.DirFS(home), Dir: home}
	for _, c := range []struct{ address, folder, want, has string }{
		{"https://github.com/acme/apps.git", "../apps", "apps trunk " + filepath.Join(above, "apps"), "beside"},
		{"git@gitlab.com:other/Apps", filepath.Join(above, "detached"), "apps-2 main " + filepath.Join(above, "detached"), ""},
		{"https://github.com/acme/tree", "../tree/", "tree topic " + filepath.Join(above, "tree"), ""},
		{"https://github.com/acme/lib", "./vendor/lib", "lib main " + filepath.Join(home, "vendor/lib"), "inside"},
		{"https://github.com/acme/estate", "../apps", "estate-2 trunk " + filepath.Join(above, "apps"), "beside"},
		{"https://github.com/acme/mono", ".", "estate main " + home, ""},
	} {
		if p := m.Add(c.address, c.folder, at); p != nil {
			t.Fatalf("%s: %v", c.address, p)
		}
		r := m.List[len(m.List)-1]
		if got := strings.Join([]string{r.Name, r.Branch, r.Path}, " "); got != c.want || r.URL != c.address || r.At != at || (r.Revisions == nil) != (r.Dir == ".") {
			t.Errorf("%s: %s, want %s", c.address, got, c.want)
		}
		if c.has == "" {
			continue
		}
		fsys, name := m.File(r.Dir + "/web.yaml")
		if fsys == nil {
			t.Fatalf("%s: no file in %s", c.address, r.Dir)
		}
		if data, err := fs.ReadFile(fsys, name); err != nil || string(data) != c.has+"\n" {
			t.Errorf("%s: %q, %v", c.address, data, err)
		}
	}
	for _, file := range []string{"web.yaml", "../appsweb.yaml", "./web.yaml", "clusters/hub/cluster.yaml"} {
		if fsys, _ := m.File(file); fsys != nil {
			t.Errorf("%s is in a repository", file)
		}
	}
}

func TestAddFails(t *testing.T) {
	memory := fstest.MapFS{"apps/web.yaml": {}, "root.yaml": {}}
	for name, c := range map[string]struct {
		m                     *Mounts
		address, folder, want string
	}{
		"no address":        {&Mounts{FS: memory}, "apps", "apps", `"apps" is not the address of a Git repository: https://HOST/OWNER/NAME, as in manifests`},
		"no folder":         {&Mounts{FS: memory}, "https://example.com/apps", "", "a repository without folder: name the folder of your clone, relative to the estate"},
		"a second":          {&Mounts{FS: memory, List: []lab.Repository{{URL: "git@example.com:apps.git", Dir: "../a"}}}, "https://example.com/apps", "apps", "a second repository example.com/apps: the first is ../a"},
		"a file":            {&Mounts{FS: memory}, "https://example.com/apps", "root.yaml", "folder root.yaml of repository https://example.com/apps: it is a file: clone it there: git clone https://example.com/apps root.yaml"},
		"absent":            {&Mounts{FS: memory}, "https://example.com/apps", "lib", "folder lib of repository https://example.com/apps: file does not exist: clone it there: git clone https://example.com/apps lib"},
		"beside no folder":  {&Mounts{FS: memory}, "https://example.com/apps", "../apps", "folder ../apps of repository https://example.com/apps: the estate is not on disk: clone it there: git clone https://example.com/apps ../apps"},
		"absent on disk":    {&Mounts{Dir: t.TempDir()}, "https://example.com/apps", "apps", "folder apps of repository https://example.com/apps: no such file or directory: clone it there: git clone https://example.com/apps apps"},
		"in memory":         {&Mounts{FS: memory}, "https://example.com/apps", "apps", ""},
		"earlier":           {&Mounts{FS: memory, Earlier: []lab.Repository{{Dir: "../apps", FS: memory}}}, "https://example.com/apps", "../apps", ""},
		"of another folder": {&Mounts{Earlier: []lab.Repository{{Dir: ".", FS: memory}}}, "https://example.com/apps", ".", "folder . of repository https://example.com/apps: the estate is not on disk: clone it there: git clone https://example.com/apps ."},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if p := c.m.Add(c.address, c.folder, lab.Position{}); p != nil {
				got = p.Message + ": " + p.Cure
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A repository at another revision is opened once; its files are named by it.
func TestRevisions(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "README"), "no clone\n")
	m := Mounts{Dir: filepath.Dir(dir)}
	if p := m.Add("https://example.com/apps", filepath.Base(dir), at); p != nil {
		t.Fatal(p)
	}
	at, err := m.List[0].Revisions("v1")
	_, again := m.List[0].Revisions("v1")
	if at != nil || err == nil || err != again || !strings.HasPrefix(err.Error(), filepath.Base(dir)+" at v1 cannot be read: ") {
		t.Errorf("%v, %v, then %v", at, err, again)
	}
	m.others.add(&lab.Repository{Dir: "../apps@v1", FS: fstest.MapFS{"web.yaml": {}}})
	if fsys, name := m.File("../apps@v1/web.yaml"); fsys == nil || name != "web.yaml" {
		t.Errorf("file %s", name)
	}
}

func TestAlias(t *testing.T) {
	apps := lab.Repository{URL: "https://example.com/apps", Name: "apps", Dir: "../apps"}
	list := Alias([]lab.Repository{apps}, apps, "https://internal.example.com/mirrors/"+strings.Repeat("apps-", 12))
	if len(list) != 2 || list[1].Dir != "../apps" || list[1].Name != strings.TrimSuffix(strings.Repeat("apps-", 10), "-") {
		t.Errorf("%+v", list)
	}
	list = Alias(list, apps, "git@example.com:apps")
	if names := []string{list[0].Name, list[2].Name}; !slices.Equal(names, []string{"apps", "apps-2"}) {
		t.Errorf("names %q", names)
	}
}
