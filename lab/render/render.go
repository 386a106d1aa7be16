// Package render makes manifests of a folder as Argo CD's repo-server does: a Helm chart, or a kustomization. It reads nothing but the fs.FS that it is
// given. What would need a network ends in an Error that names it, and what is too large or does not end in one that says so.
package render

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

// Bounds on one rendering: folders come from strangers.
const (
	maxFiles  = 10_000
	maxBytes  = 32 << 20         // of files read
	maxOutput = 16 << 20         // bytes of manifests
	maxTime   = 20 * time.Second // unless a Source says otherwise
)

// Type is what Argo CD takes a folder for.
type Type string

// The types.
const (
	Plain     Type = "Directory" // manifests as they are; not rendered here
	Helm      Type = "Helm"
	Kustomize Type = "Kustomize"
	Plugin    Type = "Plugin" // runs beside the repo-server, so that nobody else can know what it makes
)

// Source is a folder with what an Application says of how to render it.
type Source struct {
	FS            fs.FS // the whole repository
	appset.Source       // Path is the folder within FS

	Application string // its name is the default for the release's
	Project     string
	Namespace   string // of the destination
	KubeVersion string // of the destination; empty for that of lab's own

	Within time.Duration // how long templates may take; 0 for maxTime

	// Ref returns the repository of the source that is called name, "values" for $values/values.yaml; nil where it is not at hand.
	Ref func(name string) fs.FS
}

// Document is a rendered object. Its node has the lines of File: where a template made a value, that of the action which wrote the line; where kustomize
// changed one, that of the value before; 0 where nothing is known. Column is 0 but for what stands there as it is.
type Document struct {
	*yaml.Node
	File string
}

// Error says why a folder cannot be rendered.
type Error struct {
	lab.Problem
	Remote string // address or chart that is not at hand; empty when the folder itself is at fault
}

func (e *Error) Error() string { return e.String() }

func failed(file string, err error) error {
	return &Error{Problem: lab.Problem{Position: lab.Position{File: file}, Message: oneLine(err.Error())}}
}

func remote(at lab.Position, what, message string) error {
	return &Error{Problem: lab.Problem{Position: at, Message: message}, Remote: what}
}

func oneLine(s string) string {
	const most = 400
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

// kustomizations are the names by which kustomize knows its files.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// TypeOf is what Argo CD takes a source for: what the Application says, or else what lies in the folder.
func TypeOf(fsys fs.FS, s appset.Source) Type {
	switch {
	case s.Kustomize != nil:
		return Kustomize
	case s.Helm != nil:
		return Helm
	case s.Directory != nil:
		return Plain
	case s.Plugin != nil:
		return Plugin
	}
	dir := path.Clean(s.Path)
	for _, name := range kustomizations { // Argo CD finds the chart first, and lets the kustomization win
		if isFile(fsys, path.Join(dir, name)) {
			return Kustomize
		}
	}
	if isFile(fsys, path.Join(dir, "Chart.yaml")) {
		return Helm
	}
	return Plain
}

// Render renders a folder that is a chart or a kustomization. Its error is an *Error.
func Render(s Source) ([]Document, error) {
	dir := path.Clean(s.Path)
	if !fs.ValidPath(dir) {
		return nil, &Error{Problem: lab.Problem{Position: lab.Position{File: s.Path}, Message: "leaves the repository"}}
	}
	s.Path = dir
	switch t := TypeOf(s.FS, s.Source); t {
	case Helm:
		return s.helm()
	case Kustomize:
		return s.kustomize()
	default:
		return nil, &Error{Problem: lab.Problem{Position: lab.Position{File: dir}, Message: "is not rendered: " + strings.ToLower(string(t))}}
	}
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// substitute replaces the variables that Argo CD gives to tools. Which commit it will be is not known before.
func (s Source) substitute(text string) string {
	return os.Expand(text, func(name string) string {
		switch name {
		case "$": // $$
			return "$"
		case "ARGOCD_APP_NAME":
			return s.Application
		case "ARGOCD_APP_NAMESPACE":
			return s.Namespace
		case "ARGOCD_APP_PROJECT_NAME":
			return s.Project
		case "ARGOCD_APP_SOURCE_REPO_URL":
			return s.RepoURL
		case "ARGOCD_APP_SOURCE_PATH":
			return s.Source.Path
		case "ARGOCD_APP_SOURCE_TARGET_REVISION":
			return s.TargetRevision
		}
		return ""
	})
}

// documents reads what a tool wrote. lines are those of the file, for each line of the text; nil when the text is the file as it stands.
func documents(file, text string, lines []int) ([]Document, error) {
	var docs []Document
	line := 0 // of the text, before the chunk
	for _, chunk := range split(text) {
		nodes, problems := strict.Parse(file, []byte(chunk))
		if len(nodes) == 0 && len(problems) > 0 {
			if n := large(chunk); n != nil {
				nodes = []*yaml.Node{n}
			}
		}
		if len(nodes) == 0 && len(problems) > 0 { // a key that stands there twice is none of Argo CD's problems
			p := problems[0]
			if p.Line += line; lines != nil {
				p.Line, p.Column, p.Message = lineOf(lines, p.Line), 0, "renders to what is "+p.Message
			}
			return nil, &Error{Problem: p}
		}
		for _, n := range nodes {
			move(n, line, lines)
			docs = append(docs, Document{Node: n, File: file})
		}
		line += strings.Count(chunk, "\n")
	}
	return docs, nil
}

// lineOf is the line of a file that a line of what it renders to comes from; 0 where that is not known.
func lineOf(lines []int, line int) int {
	if line < 1 || line > len(lines) {
		return 0
	}
	return lines[line-1]
}

// move gives a node of a chunk, which begins after line, its place in the file.
func move(n *yaml.Node, line int, lines []int) {
	if n.Line += line; lines != nil {
		n.Line, n.Column = lineOf(lines, n.Line), 0
	}
	for _, c := range n.Content {
		move(c, line, lines)
	}
}

// large reads a document that is more than a person would write, as some CRDs are; nil when it holds aliases, or is none.
func large(chunk string) *yaml.Node {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(chunk), &doc) != nil || len(doc.Content) == 0 || aliased(&doc) {
		return nil
	}
	return doc.Content[0]
}

func aliased(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, aliased)
}

// split cuts a stream before every line that begins with three dashes.
func split(text string) []string {
	var chunks []string
	for {
		i := strings.Index(text, "\n---")
		if i < 0 {
			return append(chunks, text)
		}
		chunks, text = append(chunks, text[:i+1]), text[i+1:]
	}
}
