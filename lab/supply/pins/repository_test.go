package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"

	"homelab/lab"
	"homelab/lab/supply/registry"
)

const repository = "../../.."

func ofRepository(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func pinsOfRepository(t *testing.T) []*Pin {
	t.Helper()
	pins, err := find(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	return pins
}

var (
	looksPinned = regexp.MustCompile(`\bv?[0-9]+\.[0-9]+(\.[0-9]+)?\b`)
	usesLine    = regexp.MustCompile(`(?m)^ *-? *uses: `)
)

// Every version in the files of pins is listed, whatever key it stands under.
func TestNothingForgotten(t *testing.T) {
	pins := pinsOfRepository(t)
	listed := map[lab.Position]bool{}
	for _, p := range pins {
		for _, at := range p.At {
			listed[lab.Position{File: at.File, Line: at.Line}] = true
		}
		if p.Source.Of == "" && !slices.Contains([]string{"karpenter", "base", "istiod", "debian"}, p.Name) {
			t.Errorf("%s %s at %s has no source of versions", p.What, p.Name, p.At[0].Position)
		}
	}
	versions := 0
	for _, file := range []string{imagesFile, recipesFile, chartsFile} {
		number := 0
		for line := range strings.Lines(ofRepository(t, file)) {
			number++
			text, _, _ := strings.Cut(" "+line, " #")
			if !looksPinned.MatchString(text) || strings.HasPrefix(line, "    app: ") { // what a chart installs follows from its version
				continue
			}
			versions++
			if at := (lab.Position{File: file, Line: number}); !listed[at] {
				t.Errorf("%s is not listed: %s", at, line)
			}
		}
	}
	if versions < 80 {
		t.Errorf("only %d versions", versions)
	}
	for _, file := range []string{"go.mod", ".tools/go.mod", frontMod} {
		mod, err := modfile.Parse(file, []byte(ofRepository(t, file)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			if at := (lab.Position{File: file, Line: r.Syntax.Start.Line}); !r.Indirect && !listed[at] {
				t.Errorf("%s is not listed: %s", at, r.Mod)
			}
		}
		for _, tool := range mod.Tool {
			if !slices.ContainsFunc(pins, func(p *Pin) bool { return p.What == Module && strings.HasPrefix(tool.Path+"/", p.Name+"/") }) {
				t.Errorf("tool %s is not listed", tool.Path)
			}
		}
	}
	workflows, err := filepath.Glob(filepath.Join(repository, ".github/workflows/*"))
	if err != nil || len(workflows) < 2 {
		t.Fatalf("workflows %q, %v", workflows, err)
	}
	uses := 0
	for _, file := range workflows {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		uses += len(usesLine.FindAll(data, -1))
	}
	for _, p := range pins {
		if p.What == Action {
			uses -= len(p.At)
		}
	}
	if uses != 0 {
		t.Errorf("%d uses of actions are not listed", uses)
	}
}

// The end of upstream's support is known of all that a lab runs.
func TestEndsOfPins(t *testing.T) {
	list, err := rows(pinsOfRepository(t), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	products := map[string]bool{}
	for _, r := range list {
		products[r.Product] = true
		must := slices.Contains([]string{"argocd", "kubernetes", "gitea", "source-controller", "kustomize-controller", "helm-controller", "notification-controller"}, r.Name)
		if must && r.Product == "" || strings.HasPrefix(r.SupportedUntil, "unknown") {
			t.Errorf("%s %s %s: lab/supply/ends/ends.yaml has no end of it: %s", r.What, r.Name, r.Version, r.SupportedUntil)
		}
	}
	for _, product := range []string{"Argo CD", "Flux", "Kubernetes", "Gitea", "Go", "Debian"} {
		if !products[product] {
			t.Errorf("no pin is of %s", product)
		}
	}
}

// wasTested is what a row of the page says of an end-to-end run: a version, the day, and a machine of the page.
var wasTested = regexp.MustCompile(`^(not yet|[0-9][0-9.]*, 20[0-9]{2}-[0-9]{2}-[0-9]{2}, ([A-Z]))$`)

// The versions that docs/support.md calls pinned are those of the pins, and the machines that it names are described.
func TestSupportPage(t *testing.T) {
	pins := pinsOfRepository(t)
	version := func(name, file string) string {
		i := slices.IndexFunc(pins, func(p *Pin) bool {
			return p.Name == name && slices.ContainsFunc(p.At, func(at Place) bool { return at.File == file })
		})
		if i < 0 {
			return "nothing"
		}
		return strings.TrimPrefix(pins[i].Version, "v")
	}
	embedded, err := registry.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	node := embedded.Images[0].Ref
	node = node[strings.LastIndexByte(node, ':')+1:]
	page := ofRepository(t, support)
	rows := map[string][]string{}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `\n")
		}
		if len(cells) == 8 {
			rows[cells[2]] = cells
		}
	}
	want := map[string][2]string{
		"kind":       {version("kind", recipesFile), version("sigs.k8s.io/kind", "go.mod")},
		"kubernetes": {version("kubernetes", recipesFile), strings.TrimPrefix(node, "v")},
		"argocd":     {version("argocd", recipesFile), version("argocd", imagesFile)},
		"flux2":      {version("flux2", chartsFile), "chart " + version("flux2", imagesFile)},
		"gitea":      {version("gitea", recipesFile), version("gitea", imagesFile)},
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		cells := rows[name]
		if cells == nil {
			t.Errorf("%s has no row of %s", support, name)
			continue
		}
		if got := [2]string{cells[3], cells[4]}; got != want[name] {
			t.Errorf("%s: %s is pinned to %q, the page says %q", support, name, want[name], got)
		}
	}
	for name, cells := range rows {
		for _, cell := range cells[5:7] {
			if name == "pin" || strings.HasPrefix(name, "-") && cells[3] != "-" {
				continue
			}
			if m := wasTested.FindStringSubmatch(cell); m == nil || m[2] != "" && !strings.Contains(page, "\n- "+m[2]+": ") {
				t.Errorf("%s: %s: %q is not VERSION, DATE, MACHINE of the page, or not yet", support, cells[1], cell)
			}
		}
	}
}

// Renovate's expressions find what they are for: its flavour of them is RE2, as Go's.
func TestRenovate(t *testing.T) {
	var config struct {
		CustomManagers []struct {
			ManagerFilePatterns, MatchStrings []string
			DepNameTemplate                   string
		}
		PackageRules []struct {
			MatchDepNames       []string
			OverridePackageName string
		}
	}
	if err := json.Unmarshal([]byte(ofRepository(t, ".github/renovate.json")), &config); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range config.CustomManagers {
		for _, pattern := range m.ManagerFilePatterns {
			file := strings.ReplaceAll(strings.Trim(pattern, "/^$"), `\`, "")
			for _, expression := range m.MatchStrings {
				re, err := regexp.Compile(expression)
				if err != nil {
					t.Fatal(err)
				}
				if re.SubexpIndex("currentValue") < 0 {
					t.Errorf("%q captures no currentValue", expression)
				}
				matches := re.FindAllStringSubmatch(ofRepository(t, file), -1)
				if len(matches) == 0 && m.DepNameTemplate != "go" { // recipes may do with lab's own
					t.Errorf("%s: %q finds nothing", file, expression)
				}
				for _, match := range matches {
					found[file+" "+match[re.SubexpIndex("currentValue")]] = true
				}
			}
		}
	}
	modules := map[string]string{}
	for _, rule := range config.PackageRules {
		modules[strings.Join(rule.MatchDepNames, " ")] = rule.OverridePackageName
	}
	recipes := strings.Split(ofRepository(t, recipesFile), "\n")
	for _, p := range pinsOfRepository(t) {
		at := p.At[0].File
		if at == recipesFile && strings.HasPrefix(recipes[p.At[0].Line-1], "- {image: ") {
			continue // of another minor than the newest: people choose it
		}
		if module, ok := modules[p.Name]; ok && p.What == Recipe && module != p.Source.Name {
			t.Errorf("Renovate takes %s from %s, which is %s", p.Name, module, p.Source.Name)
		}
		if isPseudo(p.Version) || p.Source.Of == "" || p.What == Chart && p.Source.Of == Module || p.What == Recipe && p.Source.Of == Image {
			continue // it cannot, or another pin leads
		}
		if slices.Contains([]string{imagesFile, recipesFile, chartsFile}, at) && !found[at+" "+p.Version] {
			t.Errorf("%s:%d: Renovate does not find %s %s %s", at, p.At[0].Line, p.What, p.Name, p.Version)
		}
	}
}
