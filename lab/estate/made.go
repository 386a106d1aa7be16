package estate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/provenance"
	"homelab/lab/render"
)

// made is what a part is rendered from.
type made struct {
	render.Source
	name func(tree, file string) string     // of a file, for users
	at   func(path []string) []lab.Position // of a field of Source.Source
	as   *fluxset.Release                   // how Flux renders it; nil for Argo CD

	values func() []valuesFile // of as.From, those that are files

	err error // why it cannot be rendered

	manifest string // digest of the chart's in a registry

	digest func(ref, name string) string     // render.Digest of a file, for Inputs; nil if the files are unknown
	has    func(ref, name, word string) bool // whether a file or folder may contain a word
}

// inputs returns a digest of what rendering depends on; "" if that is unknown.
func (m made) inputs() string {
	var text string
	var err error
	switch {
	case m.digest == nil:
		return ""
	case m.as != nil:
		text, err = m.as.Inputs(m.FS, m.digest)
	default:
		text, err = m.Source.Inputs(m.digest)
	}
	if err != nil {
		return ""
	}
	if known := new(render.Error); errors.As(m.err, &known) {
		text += known.Message + known.Cure
	}
	return text
}

// mentions reports whether what is rendered may have a word. reads is what inputs has asked for.
func (m made) mentions(word string, reads [][2]string) bool {
	if m.err != nil || m.has == nil || m.as != nil {
		return m.err == nil
	}
	options, err := json.Marshal(m.Source.Source)
	return err != nil || strings.Contains(string(options), word) || slices.ContainsFunc(reads, func(r [2]string) bool { return m.has(r[0], r[1], word) })
}

// searches returns made.has for the trees of a source, each searched once. digest and tree are as for digests. Charts that are elsewhere may contain anything.
func (l *loader) searches(digest func(ref, file string) string, tree func(ref string) fs.FS) func(ref, file, word string) bool {
	return func(ref, file, word string) bool {
		key := [3]string{digest(ref, file), file, word}
		found, known := l.searched[key]
		if files := tree(ref); !known && files != nil {
			found = search(files, file, word)
			l.searched[key] = found
		}
		return found
	}
}

// search reports whether a file or folder may contain a word: a chart or a kustomization may read others.
func search(files fs.FS, name, word string) bool {
	found := errors.New("found")
	err := fs.WalkDir(files, name, func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // Render reports it
		}
		data, err := fs.ReadFile(files, file)
		if err != nil {
			return nil //nolint:nilerr // Render reports it
		}
		text, base := string(data), path.Base(file)
		reads := slices.Contains([]string{"Chart.yaml", "requirements.yaml"}, base) && strings.Contains(text, "repository:") ||
			slices.Contains(render.Kustomizations, base) && strings.Contains(text, "helmChart")
		if reads || strings.Contains(text, word) || path.Ext(file) == ".tgz" {
			return found
		}
		return nil
	})
	return errors.Is(err, found)
}

// digests returns render.Digest for the trees of a source, each read once. name tells the tree of a ref from others of the estate.
func (l *loader) digests(name func(ref string) string, tree func(ref string) fs.FS) func(ref, file string) string {
	return func(ref, file string) string {
		key := [2]string{name(ref), file}
		digest, known := l.digested[key]
		if files := tree(ref); !known && files != nil {
			digest = render.Digest(files, file)
			l.digested[key] = digest
		}
		return key[0] + digest
	}
}

// ofDestination is an option besides the fields of a source.
const ofDestination = "destination"

// chartTree begins the name of a chart's tree of files; refs have no slash.
const chartTree = "charts/"

// fixed are the fields of a source that choose what is rendered.
var fixed = []string{"repoURL", "path", "targetRevision", "chart", "ref", "name", "tagPrefix"}

// part completes a part. What it is made from is found out when it is needed.
func part(p desired.Part, of func() made) desired.Part {
	of = sync.OnceValue(of)
	p.Render = func() ([]render.Document, error) {
		m := of()
		return m.render(m.Source)
	}
	p.Subject = func() (provenance.Subject, error) { return of().subject() }
	var reads [][2]string
	p.Inputs = func() string {
		m := of()
		reads = nil
		if digest := m.digest; digest != nil {
			m.digest = func(ref, name string) string {
				reads = append(reads, [2]string{ref, name})
				return digest(ref, name)
			}
		}
		return m.inputs()
	}
	p.Mentions = func(word string) bool { return reads == nil && p.Inputs() == "" || of().mentions(word, reads) }
	return p
}

func (m made) subject() (provenance.Subject, error) {
	if m.err != nil {
		return provenance.Subject{}, m.err
	}
	options := map[string]any{}
	text, err := json.Marshal(m.Source.Source)
	if err == nil {
		err = json.Unmarshal(text, &options)
	}
	if err != nil {
		return provenance.Subject{}, err
	}
	for _, field := range fixed {
		delete(options, field)
	}
	options[ofDestination] = map[string]any{"namespace": m.Namespace}
	if m.as != nil {
		return m.releaseSubject(), nil
	}
	return provenance.Subject{
		Options: options, Layers: m.Source.Layers(), ValuesAt: "helm.valuesObject.", Name: m.name, At: m.at,
		Render: func(options map[string]any, open func(string, fs.FS) fs.FS) ([]render.Document, error) {
			s := m.Source
			s.FS = open("", s.FS)
			if charts := s.Charts; charts != nil {
				s.Charts = func(use lab.ChartUse) (lab.ChartFiles, error) {
					files, err := charts(use)
					if err == nil {
						files.FS = open(chartTree+use.Name+"-"+files.Version, files.FS)
					}
					return files, err
				}
			}
			if ref := s.Ref; ref != nil {
				s.Ref = func(name string) fs.FS {
					if files := ref(name); files != nil {
						return open(name, files)
					}
					return nil
				}
			}
			if options != nil {
				text, err := json.Marshal(options)
				if err != nil {
					return nil, err
				}
				destination, _ := options[ofDestination].(map[string]any)
				s.Namespace, _ = destination["namespace"].(string)
				s.Helm, s.Kustomize, s.Directory, s.Plugin = nil, nil, nil, nil
				if err := json.Unmarshal(text, &s.Source); err != nil {
					return nil, err
				}
			}
			return m.render(s)
		},
	}, nil
}

// render renders a source, and names files as users know them.
func (m made) render(s render.Source) ([]render.Document, error) {
	if m.err != nil {
		return nil, m.err
	}
	var docs []render.Document
	var err error
	if m.as != nil {
		docs, err = m.as.RenderIn(s.FS, m.manifest, nil)
	} else {
		docs, err = render.Render(s)
	}
	return m.named(docs, err)
}

// named names the files of objects and of an error as users know them.
func (m made) named(docs []render.Document, err error) ([]render.Document, error) {
	for i := range docs {
		docs[i].File = m.name("", docs[i].File)
	}
	if known := new(render.Error); errors.As(err, &known) {
		e := *known
		if fs.ValidPath(e.File) { // others leave the repository
			e.File = m.name("", e.File)
		}
		err = &e
	}
	return docs, err
}

// chartSource returns how a chart of a chart repository is rendered. Its files are named NAME-VERSION/...
func (l *loader) chartSource(use lab.ChartUse, of func(fs.FS) render.Source) made {
	title := judge.ChartTitle(use)
	if l.openChart == nil {
		return made{Source: of(nil), err: absent(use.At, title, "")}
	}
	files, err := l.chartFiles(use)
	if err != nil {
		return made{Source: of(nil), err: absent(use.At, title, err.Error())}
	}
	return made{Source: of(files), manifest: files.Manifest, name: func(tree, file string) string {
		if tree == "" {
			return path.Join(use.Name+"-"+files.Version, file)
		}
		return file
	}}
}

// chartFiles opens a chart once.
func (l *loader) chartFiles(use lab.ChartUse) (lab.ChartFiles, error) {
	if use.Repository == l.inputs().ChartRepoURL {
		use.Repository = ""
	}
	of, known := l.charts[unplaced(use)]
	if !known {
		of.at = use.At
		of.ChartFiles, of.err = l.openChart(use)
		l.charts[unplaced(use)] = of
	}
	return of.ChartFiles, of.err
}

// unplaced returns a chart without the place that names it.
func unplaced(use lab.ChartUse) lab.ChartUse {
	use.At = lab.Position{}
	return use
}

// openedChart is a chart, or the reason that it cannot be read.
type openedChart struct {
	lab.ChartFiles
	at     lab.Position // that names it first
	err    error
	unread bool // noted
}

// lackedCharts records the charts that lab does not have. Lab's own are made when they are needed.
func (l *loader) lackedCharts() {
	l.facts.Missing = map[lab.ChartUse]error{}
	for use, of := range l.charts {
		if use.At = of.at; l.component != nil && of.err != nil && use.Repository != "" && !of.unread {
			l.facts.Missing[use] = of.err
		}
	}
	for _, a := range l.estate.Applications {
		for _, c := range a.Charts {
			if l.haveChart != nil && !l.haveChart(c) {
				l.facts.Unreachable = append(l.facts.Unreachable, c)
			}
		}
	}
}

// absent is the error for what is not on this machine.
func absent(at lab.Position, what, why string) error {
	message := what + " is not on this machine"
	if why != "" {
		message += ": " + why
	}
	return &render.Error{Problem: lab.Problem{Code: finding.NotHere, Position: at, Message: message}, Remote: what}
}
