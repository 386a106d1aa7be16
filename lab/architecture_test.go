package lab_test

import (
	"bytes"
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

// layers are the package areas, lowest first. An area imports only lower layers, so areas of the same layer are independent. Every area must be listed.
var layers = [][]string{
	{"lab"},
	{"regular"},
	{"finding"},
	{"gitcommand"},
	{"apiserver", "argo", "argv", "docker", "door", "flux", "front", "gate", "informer", "redact", "sandbox", "strict", "fieldpath", "gitfiles", "writeout", "cloud", "tofu", "state", "trust", "ui", "review"},
	{"service"},
	adapters,
	{"appset", "bridge", "yamledit"},
	{"fill"},
	{"render"},
	{"needs", "provenance"},
	{"desired", "fluxset"},
	{"consequence", "diff", "dryrun", "estate", "plan", "apply", "promote"},
	{"draft"},
	{"lint", "scenario", "workspace"},
	{"diagnose", "live", "up"},
	{"cli"},
	{"e2e"},
}

// adapters each wrap one external system and are independent of one another.
var adapters = []string{"cluster", "doctor", "engine", "forge", "hostnames", "registry", "runner", "snapshot", "supply"}

// seams are third-party modules that only the listed areas may import, so that an upstream change affects one place.
var seams = map[string][]string{
	"code.gitea.io/sdk":                        {"forge"},
	"github.com/urfave/cli":                    {"argv", "cli"},
	"helm.sh/helm/v3/pkg/action":               {"engine"},
	"k8s.io/client-go/informers":               {"informer"}, // costs every resource's, as its package says
	"k8s.io/client-go/dynamic/dynamicinformer": {"informer"},
	"sigs.k8s.io/kind/pkg/cluster":             {"cluster"},
	"k8s.io/kubernetes":                        {"apiserver"},
	"sigs.k8s.io/kustomize":                    {"render"},
}

type goPackage struct {
	Dir, ImportPath, Name   string
	GoFiles, IgnoredGoFiles []string
	Imports                 []string
}

// packages returns the packages of the module.
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
		t.Fatalf("only %d packages found", len(list))
	}
	return list
}

// area returns the folder under lab that contains a package: "engine" for homelab/lab/engine/argocd, "lab" for the root, "main" for the program.
func area(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, module+"/lab")
	if !ok {
		return "main"
	}
	if strings.HasPrefix(rest, "/scenario/live") { // connects the scenario player to real adapters, hence a separate area
		return "live"
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if name == "" {
		return "lab"
	}
	return name
}

// forbidden returns why one area may not import another, or "" if it may.
func forbidden(from, to string) string {
	height := func(r string) int {
		return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, r) })
	}
	switch {
	case from == to:
		return ""
	case from == "main" && to != "cli":
		return "main imports only lab/cli"
	case from == "main":
		return ""
	case height(from) < 0:
		return "lab/" + from + " is missing from layers"
	case height(to) < 0 || height(to) >= height(from):
		return "imports point downwards"
	case slices.Contains(adapters, to) && !slices.Contains([]string{"cli", "diagnose", "e2e", "live", "up"}, from):
		return "only lab/cli and lab/up combine adapters"
	case to == "docker" && !slices.Contains([]string{"cli", "diagnose", "e2e", "live", "service"}, from) && !slices.Contains(adapters, from):
		return "only adapters and lab/cli call the container engine"
	case to == "ui" && from != "cli" && from != "e2e":
		return "only lab/cli writes to the terminal"
	}
	return ""
}

// spelling lists the files besides lab/argo, the engine itself and lab/supply's recipes that may spell Argo CD's name: an engine's name in documents, the state
// folder of existing labs, and the line that constructs the engine.
var spelling = []string{"estate.go", "state/credentials.go", "state/ports.go", "cli/assemble.go"}

func TestOnlyTheEngineNamesArgoCD(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"argo", "e2e", "supply", "engine/argocd"}, filepath.ToSlash(file)) || strings.HasSuffix(file, "test")):
			return filepath.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(spelling, filepath.ToSlash(file)):
			return nil
		}
		data, err := os.ReadFile(file)
		if bytes.Contains(data, []byte("argocd")) {
			t.Errorf("%s contains \"argocd\": names of its API belong in lab/argo, everything else in lab/engine/argocd", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsPointDownwards(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		from := area(p.ImportPath)
		found[from] = true
		for _, imported := range p.Imports {
			if imported == module || strings.HasPrefix(imported, module+"/") {
				if why := forbidden(from, area(imported)); why != "" {
					t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
				}
				continue
			}
			if first, _, _ := strings.Cut(imported, "/"); from == "lab" && strings.Contains(first, ".") {
				t.Errorf("%s imports %s: lab may import only the standard library", p.ImportPath, imported)
			}
			for seam, owners := range seams {
				if (imported == seam || strings.HasPrefix(imported, seam+"/")) && !slices.Contains(owners, from) {
					t.Errorf("%s imports %s, which only lab/%s may import", p.ImportPath, imported, strings.Join(owners, " and lab/"))
				}
			}
		}
	}
	for _, area := range slices.Concat(layers...) {
		if !found[area] && area != "e2e" { // built with a tag
			t.Errorf("layers: lab/%s does not exist", area)
		}
	}
}

// TestImportRules tests forbidden itself, as a rule that forbids nothing would pass.
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

// pure are packages whose results depend on their arguments alone.
var pure = []string{"lab/bridge", "lab/consequence", "lab/diff", "lab/estate/judge", "lab/estate/project", "lab/needs", "lab/plan"}

func TestJudgementIsPure(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, module+"/")) {
			continue
		}
		found++
		for _, imported := range p.Imports {
			if slices.Contains([]string{"io", "io/fs", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "path/filepath", "time"}, imported) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
		for _, file := range p.GoFiles {
			name := filepath.Join(p.Dir, file)
			for _, use := range uses(t, name) {
				if of, ok := strings.CutPrefix(use.what, module+"/lab/render."); ok && !slices.Contains([]string{"Document", "Globs", "Namespaced"}, of) {
					t.Errorf("%s: render.%s may read files", use.at, of)
				}
			}
			if data, err := os.ReadFile(name); err != nil || bytes.Contains(data, []byte(".FS")) {
				t.Errorf("%s uses the files of an estate: %v", name, err)
			}
		}
	}
	if found != len(pure) {
		t.Errorf("%d packages found of %d", found, len(pure))
	}
}

// The program exits only in main.go and writes to the terminal only in lab/ui, lab/cli and main.go. Programs that run in a cluster have their own main.go.
func TestExitAndOutput(t *testing.T) {
	for _, p := range packages(t) {
		prints := p.Name == "main" || slices.Contains([]string{"cli", "ui"}, area(p.ImportPath))
		for _, file := range append(p.GoFiles, p.IgnoredGoFiles...) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			name := filepath.Join(p.Dir, file)
			for _, use := range uses(t, name) {
				switch {
				case use.what == "os.Exit" || strings.HasPrefix(use.what, "log.Fatal"):
					if p.Name != "main" || file != "main.go" {
						t.Errorf("%s: %s: return an error; only main.go exits", use.at, use.what)
					}
				case slices.Contains([]string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println"}, use.what), strings.HasPrefix(use.what, "log.Print"):
					if !prints {
						t.Errorf("%s: %s: only lab/ui and lab/cli print", use.at, use.what)
					}
				case use.what == "time.Sleep":
					t.Errorf("%s: %s: use a watch, or a ticker with a context", use.at, use.what)
				case use.what == "func init":
					t.Errorf("%s: %s: no init functions", use.at, use.what)
				}
			}
		}
		if base := path.Base(p.ImportPath); slices.Contains([]string{"util", "utils", "helpers", "common"}, base) {
			t.Errorf("%s: name does not describe its purpose", p.ImportPath)
		}
	}
}

// A program that is compiled as its own module has only the dependency of its go.mod.
func TestFrontImportsOnlySSH(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+"/lab/front/") {
			continue
		}
		for _, imported := range p.Imports {
			first, _, _ := strings.Cut(imported, "/")
			if strings.Contains(first, ".") && imported != "golang.org/x/crypto/ssh" || first == module && !strings.HasPrefix(imported, module+"/lab/front/") {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

type use struct {
	what string // "os.Exit", "func init"
	at   token.Position
}

// uses returns the selectors of imported packages that a file uses, qualified by import path, and its init functions.
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

// Uses are resolved by import path, not by the local name of the import.
func TestUses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "uses.go")
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
