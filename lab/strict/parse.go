// Package strict reads handwritten YAML within bounds, and decodes it with every mistake reported at its position.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
)

// Limits of a file, which may be hostile or broken.
const (
	MaxFile  = 1 << 20 // bytes
	MaxNodes = 50_000  // with aliases expanded
	MaxDepth = 100
	MaxDocs  = 100
)

// Parse reads the documents of a YAML file, expands aliases and merge keys, and reports duplicate keys. It omits empty
// documents.
func Parse(file string, data []byte) ([]*yaml.Node, lab.Problems) {
	p := parser{file: file, left: MaxNodes, open: map[*yaml.Node]bool{}}
	if len(data) > MaxFile {
		return nil, lab.Problems{{
			Code: finding.NotYAML, Position: lab.Position{File: file, Line: 1}, Message: fmt.Sprintf("%d bytes is too large", len(data)),
			Cure: fmt.Sprintf("at most %d", MaxFile),
		}}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var docs []*yaml.Node
	for len(p.problems) == 0 {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.problems = append(p.problems, syntax(file, data, err))
			break
		}
		if len(doc.Content) == 0 || IsNull(doc.Content[0]) {
			continue
		}
		if len(docs) == MaxDocs {
			p.fail(&doc, fmt.Sprintf("more than %d documents in one file", MaxDocs), "")
			break
		}
		if root := p.expand(doc.Content[0], 0); root != nil {
			docs = append(docs, root)
		}
	}
	return docs, p.problems
}

// ParseOne reads a file with one document.
func ParseOne(file string, data []byte) (*yaml.Node, lab.Problems) {
	docs, problems := Parse(file, data)
	switch {
	case len(problems) > 0:
		return nil, problems
	case len(docs) == 0:
		return nil, lab.Problems{{Code: finding.NotYAML, Position: lab.Position{File: file}, Message: "is empty"}}
	case len(docs) > 1:
		return nil, lab.Problems{{Code: finding.NotYAML, Position: Position(file, docs[1]), Message: "a second document", Cure: "one per file"}}
	}
	return docs[0], nil
}

// syntax returns the problem of invalid YAML. The library's message has the line, in various forms.
func syntax(file string, data []byte, err error) lab.Problem {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		line, _ = strconv.Atoi(m[1])
	} else if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced`).FindStringSubmatch(message); m != nil {
		line = bytes.Count(data[:max(0, bytes.Index(data, []byte("*"+m[1])))], []byte("\n")) + 1
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	switch {
	case regexp.MustCompile(`expected (<stream-start>|<document start>|node content|key|'-' indicator|',' or)`).MatchString(message):
		line++ // errors of the parser, unlike the scanner's, count from 0 (parser.fail in the library's decode.go)
	case strings.Contains(message, "tab character"):
		for i := line - 1; i < len(lines); i++ { // the scanner's start
			if bytes.Contains(lines[i][:len(lines[i])-len(bytes.TrimLeft(lines[i], " \t"))], []byte("\t")) {
				line = i + 1
				break
			}
		}
	}
	return lab.Problem{Code: finding.NotYAML, Position: lab.Position{File: file, Line: max(1, min(line, len(lines)))}, Message: "not YAML: " + message}
}

type parser struct {
	file     string
	left     int                 // remaining nodes
	open     map[*yaml.Node]bool // anchors being expanded
	problems lab.Problems
}

func (p *parser) fail(n *yaml.Node, message, cure string) {
	p.problems = append(p.problems, lab.Problem{Code: finding.NotYAML, Position: Position(p.file, n), Message: message, Cure: cure})
}

// expand copies a tree with aliases and merge keys expanded. Beyond the limits it returns nil and reports it once.
func (p *parser) expand(n *yaml.Node, depth int) *yaml.Node {
	if p.left--; p.left < 0 {
		if p.left == -1 {
			p.fail(n, fmt.Sprintf("more than %d values, with aliases expanded", MaxNodes), "")
		}
		return nil
	}
	if depth > MaxDepth {
		p.left = -1
		p.fail(n, fmt.Sprintf("nested deeper than %d", MaxDepth), "")
		return nil
	}
	if n.Kind == yaml.AliasNode {
		if p.open[n.Alias] {
			p.left = -1
			p.fail(n, fmt.Sprintf("anchor %q contains itself", n.Value), "")
			return nil
		}
		return p.expand(n.Alias, depth+1)
	}
	p.open[n] = true
	defer delete(p.open, n)
	out := *n
	out.Anchor, out.Content = "", nil
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			if c = p.expand(c, depth+1); c == nil {
				return nil
			}
			out.Content = append(out.Content, c)
		}
		return &out
	}
	return p.expandMapping(n, &out, depth)
}

func (p *parser) expandMapping(n, out *yaml.Node, depth int) *yaml.Node {
	seen := map[string]*yaml.Node{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], p.expand(n.Content[i+1], depth+1)
		if value == nil {
			return nil
		}
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			p.fail(key, "a key that is not a scalar", "")
			continue
		}
		if key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if first := seen[key.Value]; first != nil {
			p.fail(key, fmt.Sprintf("duplicate key %q", key.Value), fmt.Sprintf("first in line %d", first.Line))
			at := slices.Index(out.Content, first) // tolerant readers take the last
			out.Content[at], out.Content[at+1], seen[key.Value] = key, value, key
			continue
		}
		seen[key.Value] = key
		out.Content = append(out.Content, key, value)
	}
	for _, m := range merged { // other keys override those of <<
		maps := []*yaml.Node{m}
		if m.Kind == yaml.SequenceNode {
			maps = m.Content
		}
		for _, m := range maps {
			if m.Kind != yaml.MappingNode {
				p.fail(m, "<< takes a mapping", "")
				continue
			}
			for i := 0; i+1 < len(m.Content); i += 2 {
				if key := m.Content[i]; seen[key.Value] == nil {
					seen[key.Value] = key
					out.Content = append(out.Content, key, m.Content[i+1])
				}
			}
		}
	}
	return out
}

// Position returns the position of a node.
func Position(file string, n *yaml.Node) lab.Position {
	return lab.Position{File: file, Line: n.Line, Column: n.Column}
}

// IsNull reports whether a node is a key without a value, or an empty document.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Nodes reads the documents of a YAML text as they are, with aliases.
func Nodes(data []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var docs []*yaml.Node
	for {
		var doc yaml.Node
		switch err := decoder.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		case len(doc.Content) > 0:
			docs = append(docs, doc.Content[0])
		}
	}
}
