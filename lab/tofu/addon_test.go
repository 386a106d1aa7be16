package tofu

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What addon tofu takes of a commit, which may be a stranger's: small plain files in the folder itself that cannot run a program during a plan.
func TestTaken(t *testing.T) {
	script, err := filepath.Abs("../../addons/tofu/chart/scripts/git.sh")
	if err != nil {
		t.Fatal(err)
	}
	const plain = "infrastructure/main.tf"
	for name, test := range map[string]struct {
		files map[string]string // a value that begins with -> is the target of a link
		says  string
	}{
		"plain files":        {map[string]string{plain: "locals {}\n", "infrastructure/b.tf": "\n", "other/x.sh": "exit\n"}, ""},
		"no folder":          {map[string]string{"README.md": "\n"}, ""},
		"a link":             {map[string]string{plain: "->/etc/passwd"}, "main.tf: only small files"},
		"a folder":           {map[string]string{"infrastructure/modules/x.tf": "\n"}, "modules: only small files"},
		"JSON":               {map[string]string{"infrastructure/main.tf.json": "{}"}, "main.tf.json: only small files"},
		"variables":          {map[string]string{"infrastructure/terraform.tfvars": "\n"}, "terraform.tfvars: only small files"},
		"a lock":             {map[string]string{"infrastructure/.terraform.lock.hcl": "\n"}, ".terraform.lock.hcl: only small files"},
		"an override":        {map[string]string{plain: "\n", "infrastructure/z_override.tf": "\n"}, "z_override.tf: only small files"},
		"a large file":       {map[string]string{plain: strings.Repeat("#\n", 40000)}, "main.tf: only small files"},
		"a name with a line": {map[string]string{"infrastructure/a\nb.tf": "\n"}, "only small files"},
		"a program":          {map[string]string{plain: "terraform {\n  encryption {}\n}\n"}, "main.tf: encryption may run programs"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, text := range test.files {
				path = filepath.Join(dir, path)
				err := os.MkdirAll(filepath.Dir(path), 0o755)
				if target, link := strings.CutPrefix(text, "->"); err == nil && link {
					err = os.Symlink(target, path)
				} else if err == nil {
					err = os.WriteFile(path, []byte(text), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", "-c", `git init -q . && git add . && git -c user.name=a -c user.email=a@example.com commit -qm a && source "$0" && FOLDER=infrastructure take HEAD "$1"`, script, filepath.Join(dir, "taken"))
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if (err == nil) != (test.says == "") || !strings.Contains(string(out), test.says) {
				t.Fatalf("%v: %q, want %q", err, out, test.says)
			}
			var taken, want []string
			for path := range maps.Keys(test.files) {
				if folder, file := filepath.Split(path); folder == "infrastructure/" && test.says == "" {
					want = append(want, file)
				}
			}
			entries, _ := os.ReadDir(filepath.Join(dir, "taken"))
			for _, e := range entries {
				taken = append(taken, e.Name())
			}
			if slices.Sort(want); !slices.Equal(taken, want) {
				t.Errorf("took %q, want %q", taken, want)
			}
		})
	}
}
