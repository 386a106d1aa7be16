package render

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/envsubst"

	"homelab/lab"
	"homelab/lab/strict"
)

func repositoryOf(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %}\ndata: {region: \"${region}\", tier: \"${tier:=gold}\"}\n"

func named(name string) string { return strings.ReplaceAll(configMap, "%", name) }

// An error is about the folder if its kustomization is generated, and says once what is wrong.
func TestBuildErrors(t *testing.T) {
	fsys := repositoryOf(map[string]string{"plain/notes.yaml": "a: b\n", "listed/notes.yaml": "a: b\n", "listed/kustomization.yaml": "resources: [notes.yaml]\n", "above/kustomization.yaml": "resources: [../listed]\n"})
	for dir, want := range map[string]string{
		"plain": "plain: accumulating resources from 'notes.yaml': missing Resource metadata", "listed": "listed/kustomization.yaml: accumulating resources from 'notes.yaml': missing Resource metadata",
		"above": "above/kustomization.yaml: accumulating resources: recursed accumulation of path 'listed': accumulating resources from 'notes.yaml': missing Resource metadata",
	} {
		if _, _, err := (Kustomization{FS: fsys, Path: dir}).Build(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBuildVariables(t *testing.T) {
	fsys := repositoryOf(map[string]string{
		"a/a.yaml": named("a"),
		"a/b.yaml": strings.Replace(named("b"), "metadata: {name: b}", "metadata: {name: b, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}", 1),
	})
	docs, unset, err := Kustomization{FS: fsys, Path: "a", Variables: map[string]string{}}.Build()
	if err != nil || len(docs) != 2 {
		t.Fatalf("%v, %v", docs, err)
	}
	if len(unset) != 1 || unset[0].At.File != "a/a.yaml" || unset[0].At.Line != 4 || unset[0].Problem().Message != "variable region is not set" {
		t.Errorf("%v", unset)
	}
	if got := strict.Text(docs[1].Node, "data", "region"); got != "${region}" {
		t.Errorf("substitution is disabled, but region is %q", got)
	}
	docs, unset, err = Kustomization{FS: fsys, Path: "a"}.Build()
	if err != nil || len(unset) != 0 || strict.Text(docs[0].Node, "data", "region") != "${region}" {
		t.Errorf("without postBuild: %v, %v", unset, err)
	}
	for value, want := range map[string]string{
		"${n:=2}": "a/a.yaml:4: ConfigMap a: data.region is 2 after substitution, not a string", "${n}": "data.region is true after", "${quote}${n}${quote}": "", "x${n}": "",
	} {
		fsys["a/a.yaml"].Data = []byte(strings.Replace(named("a"), "${region}", value, 1))
		vars := map[string]string{"quote": `"`}
		if !strings.Contains(value, "=") {
			vars["n"] = "true"
		}
		_, _, err := Kustomization{FS: fsys, Path: "a", Variables: vars}.Build()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
	fsys["a/a.yaml"].Data = []byte(strings.Replace(named("a"), "${region}", "${quote}${region}${quote}", 1))
	docs, _, err = Kustomization{FS: fsys, Path: "a", Variables: map[string]string{"quote": `"`, "region": "012"}}.Build()
	if err != nil || strict.Text(docs[0].Node, "data", "region") != "012" {
		t.Errorf("%v", err)
	}
}

// A whole repository: hidden folders are read, and variables in blocks and patches have positions.
func TestBuildRepository(t *testing.T) {
	docs, _, err := Kustomization{FS: repositoryOf(map[string]string{".hidden/a.yaml": named("a")})}.Build()
	if err != nil || len(docs) != 1 || docs[0].File != ".hidden/a.yaml" {
		t.Errorf("%v, %v", docs, err)
	}
	_, unset, err := Kustomization{FS: repositoryOf(map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: patch.yaml}]\n",
		"a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  text: |\n    one\n    ${two}\n",
		"patch.yaml":         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  host: www.${domain}\n",
	}), Variables: map[string]string{}}.Build()
	if err != nil || len(unset) != 2 {
		t.Fatalf("%v, %v", unset, err)
	}
	got := []string{unset[0].At.String() + " " + unset[0].Name, unset[1].At.String() + " " + unset[1].Name}
	slices.Sort(got)
	if want := []string{"a.yaml:7 two", "patch.yaml:6 domain"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestBuildFails(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		files map[string]string
		want  string
	}{
		"no folder":    {"nowhere", map[string]string{"a/a.yaml": named("a")}, "no such folder"},
		"a remote":     {"a", map[string]string{"a/kustomization.yaml": "resources: [https://example.com/x.yaml]\n"}, "https://example.com/x.yaml"},
		"no manifest":  {"a", map[string]string{"a/a.yaml": "a: b\n"}, ""},
		"substitution": {"a", map[string]string{"a/a.yaml": strings.Replace(named("a"), "${region}", "${region", 1)}, "substitution"},
	} {
		_, _, err := Kustomization{FS: repositoryOf(c.files), Path: c.path, Variables: map[string]string{}}.Build()
		var failed *Error
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVariables(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "$a": nil, "${a}": {"a"}, "${a} ${b:=c} ${a}${d}": {"a", "d"}, "$${a}": nil, "${a": nil, "${a:-}": nil,
	} {
		if got := Variables(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// explosions are texts of which variables make much, or take long, and whether a budget ends them.
func explosions() map[string]string {
	return map[string]string{
		"many of a long one":         strings.Repeat("${big}", 300),
		"replaced by long ones":      "${big//a/" + strings.Repeat("b", 1000) + "}",
		"replaced by variables":      "${big//a/${big}}",
		"replaced by many variables": "${small//s/" + strings.Repeat("${small}${big}", 100) + "}",
		"nested":                     strings.Repeat("${none:-", 20_000) + "x" + strings.Repeat("}", 20_000),
		"nested and never closed":    strings.Repeat("${none:-", 20_000),
		"a pattern":                  "${big##*b}",
		"a pattern at the end":       "${big%%b*}",
		"a long pattern":             "${small##" + strings.Repeat("*s", 300) + "b}",
		"a pattern of variables":     "${small##${small}${small}${big}}",
	}
}

// Substitution is bounded before it begins, with an error that names the file.
func TestSubstituteExplosions(t *testing.T) {
	variables := map[string]string{"big": strings.Repeat("a", 1<<16), "small": strings.Repeat("s", 1000)}
	for name, text := range explosions() {
		t.Run(name, func(t *testing.T) {
			fsys := repositoryOf(map[string]string{"a/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '" + text + "'}\n"})
			_, _, err := Kustomization{FS: fsys, Path: "a", Variables: variables}.Build()
			var e *Error
			if !errors.As(err, &e) || !e.Limit || e.File != "a/a.yaml" || e.Cure != limitCure {
				t.Fatalf("%v, want a limit", err)
			}
		})
	}
	for _, text := range []string{"${small}${small}", "${small//s/tt}", "${none:-${small}}", "${small##*b}", "$small } $${small}"} {
		fsys := repositoryOf(map[string]string{"a/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '" + text + "'}\n"})
		if _, _, err := (Kustomization{FS: fsys, Path: "a", Variables: map[string]string{"small": "sss"}}).Build(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The budget of an estate ends what each build alone may do.
func TestSubstituteBudget(t *testing.T) {
	fsys := repositoryOf(map[string]string{"a/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '" + strings.Repeat("${big}", 100) + "'}\n"})
	k := Kustomization{FS: fsys, Path: "a", Variables: map[string]string{"big": strings.Repeat("a", 5_000)}, Budget: &Budget{files: maxFiles, bytes: 3 << 20, steps: maxSteps}}
	for range 10 {
		if _, _, err := k.Build(); err != nil {
			if !Exhausted(err) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Error("the budget does not end")
}

// What is within the budget neither crashes nor makes more than the budget says.
func FuzzVariables(f *testing.F) {
	for _, s := range []string{"${a}", "${a:=b}", "${a/b/c}", "${${a}}", "${#a}", "$${", "${a:1:2}", "${a##*}", "${a//s/${a}${a}}"} {
		f.Add(s)
	}
	for _, s := range explosions() {
		f.Add(s)
	}
	variables := map[string]string{"a": "sss", "big": strings.Repeat("a", 10_000), "small": strings.Repeat("s", 100)}
	f.Fuzz(func(t *testing.T, s string) {
		if n := len(Variables(s)); n > strings.Count(s, "${") {
			t.Errorf("%d variables in %q", n, s)
		}
		b := one(nil)
		if b.expansion(s, variables) != nil {
			return
		}
		after, err := envsubst.Eval(s, func(name string) (string, bool) { return variables[name], true })
		if spent := maxBytes - b.bytes; err == nil && len(after) > spent+len(s) {
			t.Errorf("%d bytes of %q, budget of %d", len(after), s, spent)
		}
	})
}

// Values keep the lines of their file after substitution, which may change the number of lines, the order of keys and the type of a value.
func TestSubstitutedPositions(t *testing.T) {
	text := strings.Join([]string{
		"# a comment", "apiVersion: v1", "kind: ConfigMap", "metadata:", "  name: ${name}", "  # another", "  annotations: {a: \"${long}\"}", "data:", "  z: last", "  b: |", "    ${name}", "    two",
		"  a: ${long}", "  ${name}: key",
	}, "\n")
	docs, _, err := Kustomization{
		FS: repositoryOf(map[string]string{"a/a.yaml": text}), Path: "a", Variables: map[string]string{"name": "x", "long": strings.Repeat("word ", 40) + "end"},
	}.Build()
	if err != nil || len(docs) != 1 {
		t.Fatal(docs, err)
	}
	for line, path := range map[int][]any{3: {"kind"}, 5: {"metadata", "name"}, 7: {"metadata", "annotations", "a"}, 9: {"data", "z"}, 10: {"data", "b"}, 13: {"data", "a"}} {
		if n := strict.Get(docs[0].Node, path...); n == nil || n.Line != line {
			t.Errorf("%v: %+v, want line %d", path, n, line)
		}
	}
}

func TestMalformedSubstitution(t *testing.T) {
	script := strings.Join([]string{
		"apiVersion: v1", "kind: ConfigMap", "metadata: {name: a}", "data:", "  b.sh: |", "    # ${...} is a list, $${...} is not", "    echo ${HOME} ${LIST[@]}", "    echo ${open",
	}, "\n")
	k := Kustomization{FS: repositoryOf(map[string]string{"a/a.yaml": script}), Path: "a", Variables: map[string]string{"HOME": "x"}}
	_, _, err := k.Build()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v", err)
	}
	if e.Problem.Position != (lab.Position{File: "a/a.yaml", Line: 6}) || !strings.Contains(e.Problem.Cure, "$${...}") {
		t.Errorf("%+v", e.Problem)
	}
	for _, want := range []string{"${...} in line 6", "${LIST[@]} in line 7", "${open in line 8"} {
		if !strings.Contains(e.Problem.Message, want) {
			t.Errorf("%q lacks %q", e.Problem.Message, want)
		}
	}
	if strings.Contains(e.Problem.Message, "HOME") || strings.Count(e.Problem.Message, " in line ") != 3 {
		t.Errorf("%q", e.Problem.Message)
	}
}
