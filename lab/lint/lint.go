// Package lint judges what an estate's files ask for: it looks for what an engine accepts, and its author did not mean. It runs nothing and makes no requests.
package lint

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/provenance"
	"homelab/lab/render"
)

// Model is an estate with what its engine will have, as of estate.Inspect.
type Model struct {
	Estate   *lab.Estate
	Apps     []desired.App
	Problems lab.Problems // for which lab up refuses it
}

// Result is what the rules found.
type Result struct {
	Findings []finding.Finding
	Ignored  int // comments that ignore findings
}

// Selection is which findings are wanted; zero is all.
type Selection struct {
	Cluster string   // without those about other clusters
	Rules   []string // codes
}

func (s Selection) leavesOut(f finding.Finding) bool {
	return s.Cluster != "" && f.Subject.Cluster != "" && f.Subject.Cluster != s.Cluster || len(s.Rules) > 0 && !slices.Contains(s.Rules, f.Rule)
}

// Run applies all rules.
func Run(m Model, s Selection) Result {
	l := &linter{Model: m, whole: len(m.Problems) == 0 && len(m.Estate.UnknownSets) == 0, read: map[string]bool{}, tried: map[string]bool{}}
	loading := finding.Of(m.Problems, finding.Error)
	for _, f := range finding.Of(m.Estate.Notes, finding.Warning) {
		if of, _ := finding.ByCode(f.Rule); of.Severity == finding.Note {
			f.Severity = finding.Note
		}
		l.findings = append(l.findings, f)
	}
	for _, a := range m.Apps {
		l.render(a)
	}
	l.schemas = l.customKinds()
	for _, a := range l.apps {
		l.objects(a)
		l.application(a)
	}
	l.policies()
	l.shared()
	l.scaled()
	l.overlaps()
	l.dependencies()
	l.sides()
	l.ignoredDifferences()
	l.charts()
	l.values()
	l.layers()
	l.pins()
	l.unmatched()
	if l.whole {
		l.valueFiles()
		l.bridgeKeys()
		l.misspeltKeys()
	}
	res := l.ignore(l.findings)
	res.Findings = append(loading, res.Findings...)
	res.Findings = distinct(slices.DeleteFunc(res.Findings, s.leavesOut))
	finding.Sort(res.Findings)
	return res
}

type linter struct {
	Model
	whole    bool // nothing of the model is missing or wrong
	apps     []application
	findings []finding.Finding

	schemas map[string]*customKind // by cluster and kind; nil for unknown ones

	read  map[string]bool // files that rendering reads, as users know them
	tried map[string]bool // the same with those that do not exist
}

// application is one with its objects.
type application struct {
	desired.App
	objects  []desired.Object
	complete bool
	parts    []part
	broken   bool // a part cannot be built, and which kustomizations it reads is not all known
}

// part is a rendered part, with what it was made from.
type part struct {
	provenance.Subject
	release string // of Flux; empty for others
	trees   map[string]fs.FS
	read    map[string]map[string]bool // files, by tree
}

// add adds a finding with the severity and the cure of its rule, if it has none.
func (l *linter) add(f finding.Finding) {
	rule, _ := finding.ByCode(f.Rule)
	f.Severity, f.Cure = cmp.Or(f.Severity, rule.Severity), cmp.Or(f.Cure, rule.Cure)
	f.Line = max(f.Line, 1)
	l.findings = append(l.findings, f)
}

// distinct leaves out what is said already: the applications of a set share its lines.
func distinct(list []finding.Finding) []finding.Finding {
	type key struct {
		rule, message string
		at            lab.Position
	}
	seen := map[key]bool{}
	return slices.DeleteFunc(list, func(f finding.Finding) bool {
		k := key{f.Rule, f.Message, f.Position}
		if seen[k] {
			return true
		}
		seen[k] = true
		return false
	})
}

// render renders an application, and records the files that it is made from.
func (l *linter) render(a desired.App) {
	of := application{App: a}
	of.Parts = slices.Clone(a.Parts)
	for i := range of.Parts {
		p := &of.Parts[i]
		plain := p.Render
		p.Render = func() ([]render.Document, error) {
			s, err := p.Subject()
			if err != nil || s.Render == nil {
				return plain()
			}
			made := part{Subject: s, release: p.Name, trees: map[string]fs.FS{}, read: map[string]map[string]bool{}}
			docs, err := s.Render(nil, func(tree string, files fs.FS) fs.FS {
				if made.read[tree] == nil {
					made.trees[tree], made.read[tree] = files, map[string]bool{}
				}
				return provenance.Watch(files, made.read[tree], func(name string) { l.tried[s.Name(tree, name)] = true })
			})
			for tree, names := range made.read {
				for name := range names {
					l.read[s.Name(tree, name)] = true
				}
			}
			if of.broken = of.broken || err != nil && len(s.Layers) == 0; err == nil { // charts read none
				of.parts = append(of.parts, made)
			}
			return docs, err
		}
	}
	var problems lab.Problems
	of.objects, problems = of.Objects()
	of.complete = len(problems) == 0
	for _, p := range problems {
		l.unrendered(of, p)
	}
	l.apps = append(l.apps, of)
}

// unrendered adds why an application lacks objects. The note about the application, which has the same reason, is left out.
func (l *linter) unrendered(a application, p lab.Problem) {
	_, message, _ := strings.Cut(p.Message, ": ")
	reason := message // without the release, which notes name otherwise
	if strings.HasPrefix(message, "HelmRelease ") {
		_, reason, _ = strings.Cut(message, ": ")
	}
	if p.Code == finding.NotHere {
		message = reason
	}
	if a.LeftOut != "" && strings.HasSuffix(message, a.LeftOut) {
		return // nothing was tried
	}
	rule, known := finding.ByCode(p.Code)
	if !known {
		rule, _ = finding.ByCode(finding.CannotRender)
	}
	f := finding.Finding{Rule: rule.Code, Severity: rule.Severity, Position: p.Position, Subject: finding.Subject{Cluster: a.Cluster, Application: a.Name}, Message: message, Cure: p.Cure}
	if f.Severity == finding.Error && l.elsewhere(a) {
		f.Severity = finding.Warning
	}
	if !l.exists(p.File) {
		f.Position, f.Message = a.named(func(layer desired.Layer) bool { return p.Code == finding.ValueFileMissing && layer.File == p.File }), strings.TrimSpace(p.File+": "+message)
	}
	if f.Severity == finding.Note {
		if !slices.ContainsFunc(l.findings, func(n finding.Finding) bool { return n.Position == f.Position && strings.Contains(n.Message, message) }) {
			l.add(f)
		}
		return
	}
	l.findings = slices.DeleteFunc(l.findings, func(n finding.Finding) bool {
		same := strings.Contains(n.Message, reason) || f.Rule == finding.PathMissing && strings.Contains(n.Message, ": no folder ")
		return n.Rule == finding.LeftOut && n.Position == a.At && strings.Contains(n.Message, a.Name) && same
	})
	l.add(f)
}

// mounted reports whether a file is in a mounted repository.
func (l *linter) mounted(name string) bool {
	return slices.ContainsFunc(l.Estate.Repositories, func(r lab.Repository) bool {
		return path.Clean(r.Dir) != "." && strings.HasPrefix(name, path.Clean(r.Dir)+"/")
	})
}

// elsewhere reports whether an application is of a mounted repository or of a chart.
func (l *linter) elsewhere(a application) bool { return l.mounted(a.At.File) || !l.exists(a.At.File) }

// file resolves a file of the estate or of a mounted repository.
func (l *linter) file(name string) (fs.FS, string) {
	for _, r := range l.Estate.Repositories {
		if within, inside := strings.CutPrefix(name, path.Clean(r.Dir)+"/"); inside && r.FS != nil {
			return r.FS, within
		}
	}
	return l.Estate.FS, name
}

func (l *linter) exists(name string) bool {
	files, within := l.file(name)
	info, err := fs.Stat(files, within)
	return err == nil && info.Mode().IsRegular()
}

// text returns the content of a file.
func (l *linter) text(name string) (string, error) {
	files, within := l.file(name)
	data, err := fs.ReadFile(files, within)
	return string(data), err
}

// walk visits the files of the estate's own folders and of all mounted repositories, up to a size of 1 MiB.
func (l *linter) walk(visit func(file, text string)) {
	each := func(files fs.FS, root, prefix string) {
		_ = fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // what cannot be read is a problem of loading
			case d.IsDir() && d.Name() == ".git":
				return fs.SkipDir
			case !d.Type().IsRegular():
				return nil
			}
			if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
				return nil
			}
			if data, err := fs.ReadFile(files, name); err == nil {
				visit(path.Join(prefix, name), string(data))
			}
			return nil
		})
	}
	for _, dir := range []string{lab.AddonsDir, lab.ClustersDir, lab.EnvironmentsDir, "scenarios"} {
		each(l.Estate.FS, dir, "")
	}
	for _, r := range l.Estate.Repositories {
		if r.FS != nil && path.Clean(r.Dir) != "." {
			each(r.FS, ".", path.Clean(r.Dir))
		}
	}
}
