package lab_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "homelab"

// layers are the rooms of the house, lowest first. A room imports lower layers alone, so that rooms of one layer do not know one another. A room that is
// not listed fails the test: whoever builds one says here where it stands.
var layers = [][]string{
	{"lab"},
	{"argv", "docker", "front", "interrupt", "gitcommand", "strict", "fieldpath", "gitfiles", "threeway", "writeout", "cloud", "state", "ui"},
	adapters,
	{"appset", "bridge", "yamledit"},
	{"render"},
	{"fluxset"},
	{"estate", "plan", "apply", "observe", "promote"},
	{"draft", "scenario", "workspace"},
	{"diagnose", "live", "up"},
	{"present"},
	{"cli"},
	{"e2e"},
}

// adapters each stand alone beside the others, before one thing of the outside.
var adapters = []string{"cluster", "doctor", "engine", "forge", "registry", "snapshot", "supply"}

// seams are modules of others that few rooms may know, mostly one, so that an upstream change affects one place.
var seams = map[string][]string{
	"code.gitea.io/sdk":            {"forge"},
	"github.com/urfave/cli":        {"argv", "cli"},
	"helm.sh/helm/v3/pkg/action":   {"engine"},
	"sigs.k8s.io/kind/pkg/cluster": {"cluster"},
	"sigs.k8s.io/kustomize":        {"render"},
}

type goPackage struct {
	Dir, ImportPath, Name   string
	GoFiles, IgnoredGoFiles []string
	Imports                 []string
}

// packages lists the module's packages.
func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=Dir,ImportPath,Name,GoFiles,IgnoredGoFiles,Imports", module+"/...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		t.Fatal(err)
	}
	var list []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 10 {
		t.Fatalf("only %d packages: this test looks at the wrong place", len(list))
	}
	return list
}

// room is the folder under lab that a package stands in: "engine" for homelab/lab/engine/argocd, "lab" for the vocabulary, "main" for the program.
func room(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, module+"/lab")
	if !ok {
		return "main"
	}
	if strings.HasPrefix(rest, "/scenario/live") { // gives the player of stories its real hands; stands beside the player, not in it
		return "live"
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if name == "" {
		return "lab"
	}
	return name
}

// forbidden says why one room may not import another; empty when it may.
func forbidden(from, to string) string {
	height := func(r string) int {
		return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, r) })
	}
	switch {
	case from == to:
		return ""
	case from == "main" && to != "cli":
		return "the program knows lab/cli alone"
	case from == "main":
		return ""
	case height(from) < 0:
		return "lab/" + from + " has no layer: say in this test where it stands"
	case height(to) < 0 || height(to) >= height(from):
		return "imports point downwards"
	case slices.Contains(adapters, to) && !slices.Contains([]string{"cli", "diagnose", "e2e", "live", "present", "up"}, from):
		return "only lab/cli brings adapters together, and lab/up knows what they have in common"
	case to == "docker" && !slices.Contains([]string{"cli", "diagnose", "e2e", "live"}, from) && !slices.Contains(adapters, from):
		return "only adapters and lab/cli speak to the engine"
	case to == "ui" && from != "cli" && from != "e2e" && from != "present":
		return "only lab/cli speaks to the terminal, and lab/present prepares what it says"
	}
	return ""
}

func TestImportsPointDownwards(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		for _, imported := range p.Imports {
			if imported == module || strings.HasPrefix(imported, module+"/") {
				if why := forbidden(from, room(imported)); why != "" {
					t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
				}
				continue
			}
			if first, _, _ := strings.Cut(imported, "/"); from == "lab" && strings.Contains(first, ".") {
				t.Errorf("%s imports %s: the vocabulary rests on the standard library alone", p.ImportPath, imported)
			}
			for seam, owners := range seams {
				if (imported == seam || strings.HasPrefix(imported, seam+"/")) && !slices.Contains(owners, from) {
					t.Errorf("%s imports %s, which only lab/%s knows", p.ImportPath, imported, strings.Join(owners, " and lab/"))
				}
			}
		}
	}
}

// The rule itself is tested: a rule that forbids nothing would pass any house.
func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"main", "cli", true},
		{"main", "engine", false},
		{"cli", "engine", true},
		{"cli", "docker", true},
		{"cli", "ui", true},
		{"forge", "docker", true},
		{"forge", "lab", true},
		{"forge", "engine", false},
		{"forge", "estate", false},
		{"estate", "bridge", true},
		{"estate", "render", true},
		{"render", "appset", true},
		{"render", "engine", false},
		{"bridge", "estate", false},
		{"estate", "cluster", false},
		{"plan", "docker", false},
		{"apply", "ui", false},
		{"lab", "docker", false},
		{"cellar", "lab", false},
		{"cli", "cellar", false},
	} {
		if why := forbidden(c.from, c.to); (why == "") != c.ok {
			t.Errorf("%s imports %s: %q", c.from, c.to, why)
		}
	}
}

// Of the standard library, what a program has one of is used in one place: the exit in main.go, the terminal in lab/ui, lab/cli and main.go. What runs in a
// cluster is a program of its own, with a main.go of its own.
func TestOneExitAndOneVoice(t *testing.T) {
	for _, p := range packages(t) {
		speaks := p.Name == "main" || slices.Contains([]string{"cli", "ui"}, room(p.ImportPath))
		for _, file := range append(p.GoFiles, p.IgnoredGoFiles...) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			name := filepath.Join(p.Dir, file)
			for _, use := range uses(t, name) {
				switch {
				case use.what == "os.Exit" || strings.HasPrefix(use.what, "log.Fatal"):
					if p.Name != "main" || file != "main.go" {
						t.Errorf("%s: %s: a failure is returned, main.go alone exits", use.at, use.what)
					}
				case slices.Contains([]string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println"}, use.what), strings.HasPrefix(use.what, "log.Print"):
					if !speaks {
						t.Errorf("%s: %s: only lab/ui and lab/cli speak", use.at, use.what)
					}
				case use.what == "time.Sleep":
					t.Errorf("%s: %s: watch, or tick, under a context", use.at, use.what)
				case use.what == "func init":
					t.Errorf("%s: %s: nothing happens before main", use.at, use.what)
				}
			}
		}
		if base := path.Base(p.ImportPath); slices.Contains([]string{"util", "utils", "helpers", "common"}, base) {
			t.Errorf("%s: its name does not say what it is for", p.ImportPath)
		}
	}
}

// What is compiled as a module of its own has no dependencies.
func TestFrontRestsOnTheStandardLibrary(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+"/lab/front/") {
			continue
		}
		for _, imported := range p.Imports {
			first, _, _ := strings.Cut(imported, "/")
			if strings.Contains(first, ".") || first == module && !strings.HasPrefix(imported, module+"/lab/front/") {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

type use struct {
	what string // "os.Exit", "func init"
	at   token.Position
}

// uses lists the selectors of imported packages that a file uses, under the packages' own names, and its init functions.
func uses(t *testing.T, name string) []use {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]string{} // name in this file -> path
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		local := path.Base(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = p
	}
	var found []use
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				found = append(found, use{"func init", fset.Position(n.Pos())})
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] != "" {
				found = append(found, use{imported[x.Name] + "." + n.Sel.Name, fset.Position(n.Pos())})
			}
		}
		return true
	})
	return found
}

// A name may be another's here: what counts is the package behind it.
func TestUsesAreSeen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "room.go")
	source := "package room\nimport (say \"fmt\"; \"os\")\nfunc init() { say.Println(); os.Exit(1) }\ntype fmt struct{}\nfunc (fmt) init() { _ = fmt.init }\n"
	if err := os.WriteFile(name, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range uses(t, name) {
		got = append(got, u.what)
	}
	if want := []string{"func init", "fmt.Println", "os.Exit"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
