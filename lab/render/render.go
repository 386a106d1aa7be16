// Package render renders manifests like Argo CD's repo-server: Helm charts, kustomizations, plain folders. It only reads the given
// fs.FS. Remote inputs and exceeded limits are an Error.
package render

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// Type is Argo CD's type of a source.
type Type string

const (
	Plain     Type = "Directory" // plain manifests and Jsonnet
	Helm      Type = "Helm"
	Kustomize Type = "Kustomize"
	Plugin    Type = "Plugin" // a sidecar of the repo-server, so its output is unknown
)

// Source is a folder with the rendering options of an Application.
type Source struct {
	FS            fs.FS // the whole repository
	appset.Source       // Path is a folder in FS

	Application string // default release name
	Project     string
	Namespace   string     // of the destination
	KubeVersion string     // of the destination, with the patch; empty for lab's
	APIVersions []string   // of the destination's kinds, as v1/Pod; empty for those of every cluster
	Minor       argo.Minor // of Argo CD; zero for the default

	Budget    *Budget    // of all renderings, or nil
	Templates *Templates // parsed in other renderings, or nil

	Sources []appset.Source // of an Application with several, for their names

	// Ref returns the repository of a named source, "values" for $values/values.yaml, or nil if it is not available.
	Ref func(name string) fs.FS

	// Charts opens charts of chart repositories, which are not fetched: an error is the reason why one cannot be read. Nil if none can.
	Charts func(lab.ChartUse) (lab.ChartFiles, error)

	asFound bool // helm does not build the dependencies of the chart
}

// Document is a rendered object. Its nodes have lines of File: for a templated value, that of the action that wrote the
// line; for one changed by kustomize, that of the original; 0 if unknown. Column is 0 unless the value is unchanged.
type Document struct {
	*yaml.Node
	File   string
	Before *yaml.Node // Node as it was before the substitution of variables, or nil
}

// Error is the reason that a folder cannot be rendered.
type Error struct {
	lab.Problem
	Remote  string // unavailable address or chart; empty if the folder itself is invalid
	Missing string // file that does not exist
	Limit   bool   // the files are not wrong, but too much
}

func (e *Error) Error() string { return e.String() }

func invalid(at lab.Position, message, cure string) error {
	return ruled(finding.CannotRender, at, message, cure)
}

// ruled is invalid by another rule.
func ruled(code string, at lab.Position, message, cure string) error {
	return &Error{Problem: lab.Problem{Code: code, Position: at, Message: message, Cure: cure}}
}

func remote(at lab.Position, what, message string) error {
	return &Error{Problem: lab.Problem{Code: finding.NotHere, Position: at, Message: message}, Remote: what}
}

func oneLine(s string) string { return lab.Clip(strings.Join(strings.Fields(s), " "), 400) }

// Kustomizations are the names of a kustomization.
var Kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// TypeOf returns the type of a source: the Application's, or else detected from the folder.
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
	found := Plain
	entries, _ := fs.ReadDir(fsys, path.Clean(s.Path))
	for _, e := range entries { // the last decides: a kustomization.yaml comes after a Chart.yaml
		switch {
		case e.IsDir():
		case strings.HasSuffix(e.Name(), "Chart.yaml"):
			found = Helm
		case slices.Contains(Kustomizations, e.Name()):
			found = Kustomize
		}
	}
	return found
}

// Render renders a chart or a kustomization, or reads a folder of manifests. Its errors are *Error.
func Render(s Source) ([]Document, error) {
	dir := path.Clean(s.Path)
	if !fs.ValidPath(dir) {
		return nil, ruled(finding.LeavesRepository, lab.Position{File: s.Path}, "leaves the repository", "")
	}
	if s.Path = dir; !isFolder(s.FS, dir) {
		return nil, &Error{Problem: lab.Problem{Code: finding.PathMissing, Position: lab.Position{File: dir}, Message: "does not exist"}, Missing: dir}
	}
	if err := s.override(); err != nil {
		return nil, err
	}
	if types := s.Types(); len(types) > 1 {
		return nil, failed(dir, errors.New("its source has options of several types: "+strings.Join(types, ", ")))
	}
	var docs []Document
	var err error
	switch TypeOf(s.FS, s.Source) {
	case Plain:
		docs, err = s.directory()
	case Helm:
		docs, err = s.helm()
	case Kustomize:
		docs, err = s.kustomize()
	default:
		err = ruled(finding.UnknownOutput, lab.Position{File: dir}, "is rendered by a plugin, which lab does not run", "")
	}
	docs, invalid := listed(docs)
	return docs, cmp.Or(err, invalid)
}

// listed replaces lists by their objects. To Argo CD, everything with a list of items is one.
func listed(docs []Document) (objects []Document, err error) {
	for _, d := range docs {
		list := []*yaml.Node{d.Node}
		switch items := strict.Get(d.Node, "items"); {
		case items == nil:
		case items.Kind == yaml.SequenceNode:
			list = items.Content
		case strict.IsNull(items) && strict.Get(d.Node, "spec") == nil && strict.Get(d.Node, "status") == nil:
			list = nil
		}
		for _, n := range list {
			if untyped(n) {
				err = cmp.Or(err, invalid(strict.Position(d.File, n), "an item without kind", ""))
				continue
			}
			err = cmp.Or(err, trackable(d.File, n), finite(d.File, n))
			objects = append(objects, Document{Node: n, File: d.File})
		}
	}
	return objects, err
}

// untyped reports whether a document has no kind.
func untyped(n *yaml.Node) bool {
	kind := strict.Get(n, "kind")
	return kind == nil || kind.Tag != "!!str" || kind.Value == ""
}

// finite returns the error of a number that JSON does not have.
func finite(file string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!float" && strings.ContainsAny(n.Value, "iIaA") {
		return invalid(strict.Position(file, n), n.Value+" is not a number in JSON, which Kubernetes reads", "quote it if it is text")
	}
	for _, c := range n.Content {
		if err := finite(file, c); err != nil {
			return err
		}
	}
	return nil
}

// trackable returns the error of an object to which Argo CD cannot add its annotation.
func trackable(file string, n *yaml.Node) error {
	at := strict.Get(n, "metadata", "annotations")
	if at == nil || strict.IsNull(at) || strict.Text(n, "kind") == "CustomResourceDefinition" {
		return nil
	}
	if at.Kind != yaml.MappingNode {
		return invalid(strict.Position(file, at), "metadata.annotations must be a mapping", "")
	}
	for key, value := range strict.Pairs(at) {
		if value.Tag == "!!str" && (value.Style != 0 || len(value.Value) > len("off")) {
			continue
		}
		var text any
		if data, err := yaml.Marshal(value); err != nil || sigsyaml.Unmarshal(data, &text) != nil { // in YAML 1.1, off is false
			continue
		}
		if _, ok := text.(string); !ok {
			return invalid(strict.Position(file, value), fmt.Sprintf("annotation %s is not text: %s", key.Value, oneLine(fmt.Sprint(text))), "quote it")
		}
	}
	return nil
}

func isFolder(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// commit stands for the commit, which is not known yet.
const commit = "0000000000000000000000000000000000000000"

// substitute expands Argo CD's build environment.
func (s Source) substitute(text string) string {
	environment := map[string]string{
		"$": "$", "ARGOCD_APP_NAME": s.Application, "ARGOCD_APP_NAMESPACE": s.Namespace, "ARGOCD_APP_PROJECT_NAME": s.Project,
		"ARGOCD_APP_REVISION": commit, "ARGOCD_APP_REVISION_SHORT": commit[:7], "ARGOCD_APP_REVISION_SHORT_8": commit[:8],
		"ARGOCD_APP_SOURCE_REPO_URL": s.RepoURL, "ARGOCD_APP_SOURCE_PATH": s.Source.Path, "ARGOCD_APP_SOURCE_TARGET_REVISION": s.TargetRevision,
	}
	return os.Expand(text, func(name string) string { return environment[name] })
}

// documents parses a tool's output. lines maps the lines of text to those of the file; nil if identical. With an error, it returns the documents before.
func documents(file, text string, lines []int) ([]Document, error) {
	var docs []Document
	line := 0 // lines before the chunk
	if err := values([]byte(text)); err != nil {
		return nil, failed(file, err)
	}
	chunks := split(text)
	if len(chunks) > maxDocuments {
		return nil, failed(file, over("more than %d documents in one file", maxDocuments))
	}
	for _, chunk := range chunks {
		if rest, separated := strings.CutPrefix(chunk, "---"); separated && rest != "" && !strings.ContainsRune("\r\n", rune(rest[0])) {
			chunk = rest // a comment, or what Helm separates in spite of a template that trims the end of the line
		}
		nodes, problems := strict.Parse(file, []byte(chunk))
		if len(nodes) == 0 && len(problems) > 0 {
			if n := large(chunk); n != nil {
				nodes, problems = []*yaml.Node{n}, nil
			}
		}
		problems = slices.DeleteFunc(problems, func(p lab.Problem) bool { return len(nodes) > 0 && strings.HasPrefix(p.Message, "duplicate key") }) // Argo CD tolerates them
		if len(problems) > 0 {
			p := problems[0]
			if p.Line += line; lines != nil {
				p.Line, p.Column, p.Message = lineOf(lines, p.Line), 0, "rendered output: "+p.Message
			}
			return docs, &Error{Problem: p}
		}
		for _, n := range nodes {
			move(n, line, lines)
			docs = append(docs, Document{Node: n, File: file})
		}
		line += strings.Count(chunk, "\n")
	}
	return docs, nil
}

// lineOf maps a line of output to the file; 0 if unknown.
func lineOf(lines []int, line int) int {
	if line < 1 || line > len(lines) {
		return 0
	}
	return lines[line-1]
}

// move maps a node of a chunk that begins after line to the file.
func move(n *yaml.Node, line int, lines []int) {
	if n.Line += line; lines != nil {
		n.Line, n.Column = lineOf(lines, n.Line), 0
	}
	for _, c := range n.Content {
		move(c, line, lines)
	}
}

// large parses a document beyond the limits for handwritten files, such as a CRD; nil for invalid ones and aliases.
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

// split splits a stream before lines that begin with three dashes.
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
