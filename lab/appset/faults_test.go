package appset_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab/appset"
)

// world returns a fleet with a repository and only the default project.
func world(n int, repository fs.FS) appset.World {
	w := fleet(n)
	w.Project = func(name string) bool { return name == "default" }
	w.Repository = func(string, string) (fs.FS, error) { return repository, nil }
	return w
}

func goSet(spec string) string {
	return "kind: ApplicationSet\nmetadata: {name: x}\nspec:\n  goTemplate: true\n  goTemplateOptions: [missingkey=error]\n" + spec
}

const plainTemplate = `
  template:
    metadata: {name: '{{.a}}'}
    spec: {project: default, destination: {name: c000}}
`

// All faults of a set are reported together, with positions.
func TestFaultPositions(t *testing.T) {
	for name, c := range map[string]struct {
		spec   string
		reason string
		want   []string // position: substring of the message
	}{
		"two generators": {
			`  generators:
  - list: {elements: [{a: x}, no mapping]}
  - clusters: {selector: {matchExpressions: [{key: a, operator: Near}]}}
  - list: {elements: [{a: fine}]}` + plainTemplate,
			appset.ReasonParameters,
			[]string{"set.yaml:7:31: an element of a list is a mapping", `set.yaml:8:26: "Near" is not a valid label selector operator`},
		},
		"template field": {
			`  generators:
  - list: {elements: [{a: x}]}
  template:
    metadata:
      name: x
      labels: {one: '{{.b}}'}
    spec: {project: default, destination: {name: c000}}
`,
			appset.ReasonTemplate,
			[]string{"set.yaml:11:21: ", "b"},
		},
		"template list": {
			`  generators:
  - list: {elements: [{a: x}]}
  template:
    metadata: {name: x}
    spec:
      project: default
      destination: {name: c000}
      sources:
      - repoURL: https://git.example.com/x.git
      - repoURL: '{{.b}}'
`,
			appset.ReasonTemplate,
			[]string{"set.yaml:15:18: "},
		},
		"generator template": {
			`  generators:
  - list:
      elements: [{a: x}]
      template:
        metadata: {labels: {one: '{{.b}}'}}
        spec: {project: default, destination: {}}
  - list: {elements: [{a: y}]}` + plainTemplate,
			appset.ReasonTemplate,
			[]string{"set.yaml:10:34: "},
		},
		"second generator of a matrix": {
			`  generators:
  - matrix:
      generators:
      - list: {elements: [{a: x}]}
      - clusters:
          values:
            own: '{{.b}}'` + plainTemplate,
			appset.ReasonParameters,
			[]string{"set.yaml:12:18: "},
		},
		"later generators of a merge": {
			`  generators:
  - merge:
      mergeKeys: [a]
      generators:
      - list: {elements: [{a: x}]}
      - list: {elements: [{a: x}]}
      - list: {elements: [{a: y}, {a: y}]}` + plainTemplate,
			appset.ReasonParameters,
			[]string{"set.yaml:12:9: two sets of parameters have the same merge keys"},
		},
		"patch": {
			`  generators:
  - list: {elements: [{a: x}]}
  templatePatch: |
    spec: {project: 5}` + plainTemplate,
			appset.ReasonTemplate,
			[]string{"set.yaml:8:18: templatePatch does not fit an Application"},
		},
		"line of a patch": {
			`  generators:
  - list: {elements: [{a: x}]}
  templatePatch: |
    metadata:
      labels: {one: '{{.b}}'}` + plainTemplate,
			appset.ReasonTemplate,
			[]string{`set.yaml:8:18: template "labels: {one: '{{.b}}'}": :2:`},
		},
		"patch is not YAML": {
			`  generators:
  - list: {elements: [{a: x}]}
  templatePatch: |
    a: b: c` + plainTemplate,
			appset.ReasonTemplate,
			[]string{"set.yaml:8:18: "},
		},
		"option": {
			`  goTemplateOptions: [missingkey=maybe]
  generators:
  - list: {elements: [{a: x}]}` + plainTemplate,
			appset.ReasonTemplate,
			[]string{"goTemplateOptions"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := goSet(c.spec)
			if strings.HasPrefix(c.spec, "  goTemplateOptions") {
				text = strings.Replace(text, "  goTemplateOptions: [missingkey=error]\n", "", 1)
			}
			x, err := parse(t, text).Expand(world(1, nil))
			var fault *appset.Error
			if !errors.As(err, &fault) || fault.Reason != c.reason {
				t.Fatalf("%+v, %v: want reason %s", x, err, c.reason)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
		})
	}
}

// Rejected Applications are reported with positions, and do not affect others.
func TestRejectedApplications(t *testing.T) {
	set := parse(t, goSet(`  generators:
  - list: {elements: [{a: d, p: none, c: c000}, {a: c, p: default, c: gone}, {a: b, p: default, c: c000}, {a: b, p: default, c: c000}, {a: E_, p: default, c: c000}]}
  - list: {elements: [{a: a, p: default, c: c001}]}
  template:
    metadata:
      name: '{{.a}}'
    spec:
      project: '{{.p}}'
      destination: {name: '{{.c}}'}
`))
	x, err := set.Expand(world(2, nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Applications) != 1 || x.Applications[0].Metadata.Name != "a" || x.Applications[0].Cluster != "c001" {
		t.Errorf("applications: %+v", x.Applications)
	}
	var got []string
	for _, i := range x.Invalid {
		got = append(got, i.Position.String()+" "+i.Reason+" "+i.Name)
	}
	want := []string{
		"set.yaml:11:7 " + appset.ReasonRefused + " E_", "set.yaml:11:13 " + appset.ReasonInvalid + " b",
		"set.yaml:14:20 " + appset.ReasonInvalid + " c", "set.yaml:13:16 " + appset.ReasonInvalid + " d",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rejected:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// broken is a repository with an unreadable file.
type broken struct {
	fstest.MapFS
	name string
}

var errDisk = errors.New("input/output error")

func (b broken) Open(name string) (fs.File, error) {
	if name == b.name {
		return nil, errDisk
	}
	return b.MapFS.Open(name)
}

func (b broken) ReadFile(name string) ([]byte, error) {
	if name == b.name {
		return nil, errDisk
	}
	return b.MapFS.ReadFile(name)
}

func (b broken) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == b.name {
		return nil, errDisk
	}
	return b.MapFS.ReadDir(name)
}

// A partly readable repository is an error: an Application missing from the result would be pruned.
func TestUnreadableRepository(t *testing.T) {
	files := fstest.MapFS{"apps/a/x.yaml": {Data: []byte("n: a")}, "apps/b/x.yaml": {Data: []byte("n: b")}}
	template := "\n  template: {metadata: {name: '{{.path.basename}}'}, spec: {project: default, destination: {name: c000}}}\n"
	for kind, generator := range map[string]string{"directories": "directories: [{path: apps/*}]", "files": "files: [{path: apps/*/x.yaml}]"} {
		set := goSet("  generators: [{git: {repoURL: https://git.example.com/x.git, revision: main, " + generator + "}}]" + template)
		for _, name := range []string{"", "apps/b", "apps/b/x.yaml"} {
			x, err := parse(t, set).Expand(world(1, broken{files, name}))
			if whole := name == "" || kind == "directories" && name == "apps/b/x.yaml"; whole {
				if err != nil || len(x.Applications) != 2 {
					t.Errorf("%s: %+v, %v", kind, x, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), errDisk.Error()) {
				t.Errorf("%s, without %s: %+v, %v", kind, name, x, err)
			}
		}
	}
}

// With missingkey=error, a missing parameter is an error in a condition, too.
func TestRefsOfBranches(t *testing.T) {
	for template, want := range map[string]string{
		`{{ if .a }}{{ else }}{{ .b }}{{ end }}`:                     "a b",
		`{{ with .a }}{{ .b }}{{ else }}{{ .c }}{{ end }}`:           "a a.b? c",
		`{{ range .a }}{{ $.b }}{{ .c }}{{ else }}{{ .d }}{{ end }}`: "a b? d",
		`{{ .a | default "x" }}{{ default "x" (index .b "c") }}`:     "a b.c?",
		`{{ if hasKey .a "b" }}{{ .a.b }}{{ .a.c }}{{ end }}`:        "a.b? a.c?",
		`{{ $x := .a | upper }}{{ $x.b }}`:                           "a",
	} {
		set := parse(t, goSet("  generators: [{list: {elements: []}}]\n  template: {metadata: {name: x}, spec: {project: default, destination: {}, info: [{name: x, value: '"+template+"'}]}}\n"))
		var got []string
		for _, r := range set.Refs() {
			ref := strings.Join(r.Path, ".")
			if r.Guarded {
				ref += "?"
			}
			got = append(got, ref)
			if r.Line != 7 {
				t.Errorf("%s: %s in line %d", template, ref, r.Line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}

// Index returns nothing for a missing key, which a default or a condition handles.
func TestSilentRefs(t *testing.T) {
	for template, want := range map[string]bool{
		`{{ index .metadata.labels "a" }}`:                                         true,
		`{{ index .metadata.labels "a" | upper }}`:                                 true,
		`{{ index .metadata.labels "a" | default "x" }}`:                           false,
		`{{ or (index .metadata.labels "a") "x" }}`:                                false,
		`{{ if index .metadata.labels "a" }}{{ end }}`:                             false,
		`{{ if .b }}{{ index .metadata.labels "a" }}{{ end }}`:                     false,
		`{{ get .metadata.labels "a" }}{{ index .metadata.labels "a" }}`:           true,
		`{{ index .metadata.labels "a" }}{{ .metadata.labels.a }}`:                 false,
		`{{ if eq (index .metadata.labels "a") "x" }}{{ else }}y{{ end }}{{ .c }}`: false,
	} {
		strict := goSet("  generators: [{list: {elements: []}}]\n  template: {metadata: {name: x}, spec: {project: default, destination: {}, info: [{name: x, value: '" + template + "'}]}}\n")
		for _, text := range []string{strict, strings.ReplaceAll(strict, "missingkey=error", "missingkey=zero")} {
			set := parse(t, text)
			for _, r := range set.Refs() {
				if r.Path[len(r.Path)-1] == "a" && r.Silent != want {
					t.Errorf("%s: %+v, want silent %t", text, r, want)
				}
			}
		}
	}
}

// Nondeterministic functions are unknown anywhere in a template.
func TestNondeterministicBranches(t *testing.T) {
	for _, template := range []string{
		`{{ if .a }}{{ else }}{{ uuidv4 }}{{ end }}`, `{{ with .a }}{{ uuidv4 }}{{ end }}`, `{{ range .a }}{{ uuidv4 }}{{ end }}`, `{{ (uuidv4).x }}`, `{{ printf "%s" (uuidv4) }}`,
	} {
		set := parse(t, goSet("  generators: [{list: {elements: []}}]\n  template: {metadata: {name: '"+template+"'}, spec: {project: default, destination: {}}}\n"))
		var unknown *appset.UnknownError
		if _, err := set.Expand(world(1, nil)); !errors.As(err, &unknown) || unknown.What != "template function uuidv4" || unknown.Line != 7 {
			t.Errorf("%s: %v", template, err)
		}
	}
}

// TestUndotted checks the cure of parameters written as without goTemplate.
func TestUndotted(t *testing.T) {
	for name, want := range map[string]string{
		"a-{{name}}": "with goTemplate, write {{.name}}", "{{ metadata.labels.env }}": "with goTemplate, write {{.metadata}}", "{{required .name}}": "", "{{.name}}-{{lower name}}": "",
	} {
		_, err := parse(t, `spec:
  goTemplate: true
  generators: [{list: {elements: [{name: b}]}}]
  template: {metadata: {name: '`+name+`'}, spec: {project: default, destination: {name: c000}, source: {repoURL: u}}}
`).Expand(world(1, nil))
		var fault *appset.Error
		if !errors.As(err, &fault) || fault.Problems[0].Cure != want {
			t.Errorf("%s: %v, want the cure %q", name, err, want)
		}
	}
}
