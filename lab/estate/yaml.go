package estate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// Bounds on what a file may hold, so that a hostile or broken one costs nothing.
const (
	maxFile  = 1 << 20 // bytes
	maxNodes = 50_000  // after aliases are written out
	maxDepth = 100
	maxDocs  = 100
)

// parse reads every document of a YAML file, with aliases and merge keys written out and duplicate keys found. Empty documents are left out.
func parse(file string, data []byte) ([]*yaml.Node, lab.Problems) {
	p := parser{file: file, left: maxNodes, open: map[*yaml.Node]bool{}}
	if len(data) > maxFile {
		return nil, lab.Problems{{
			Position: lab.Position{File: file, Line: 1}, Message: fmt.Sprintf("%d bytes is too much for a file that is read", len(data)),
			Cure: fmt.Sprintf("at most %d", maxFile),
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
		if len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue
		}
		if len(docs) == maxDocs {
			p.fail(&doc, fmt.Sprintf("more than %d documents in one file", maxDocs), "")
			break
		}
		if root := p.expand(doc.Content[0], 0); root != nil {
			docs = append(docs, root)
		}
	}
	return docs, p.problems
}

// syntax is the problem of a file that is not YAML. The library tells the line within its message alone, and not always the same line.
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
		for i := line - 1; i < len(lines); i++ { // the line told is where the scanner began
			if bytes.Contains(lines[i][:len(lines[i])-len(bytes.TrimLeft(lines[i], " \t"))], []byte("\t")) {
				line = i + 1
				break
			}
		}
	}
	return lab.Problem{Position: lab.Position{File: file, Line: max(1, min(line, len(lines)))}, Message: "not YAML: " + message}
}

type parser struct {
	file     string
	left     int                 // nodes that may still be made
	open     map[*yaml.Node]bool // anchors that are being written out
	problems lab.Problems
}

func (p *parser) fail(n *yaml.Node, message, cure string) {
	p.problems = append(p.problems, lab.Problem{Position: position(p.file, n), Message: message, Cure: cure})
}

// expand copies a tree with aliases and merge keys written out. It returns nil, and notes why once, when that exceeds the bounds.
func (p *parser) expand(n *yaml.Node, depth int) *yaml.Node {
	if p.left--; p.left < 0 {
		if p.left == -1 {
			p.fail(n, fmt.Sprintf("more than %d values, aliases written out", maxNodes), "")
		}
		return nil
	}
	if depth > maxDepth {
		p.left = -1
		p.fail(n, fmt.Sprintf("nested deeper than %d", maxDepth), "")
		return nil
	}
	if n.Kind == yaml.AliasNode {
		if p.open[n.Alias] {
			p.left = -1
			p.fail(n, fmt.Sprintf("anchor %q holds itself", n.Value), "")
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
			p.fail(key, "a key that is not a word", "")
			continue
		}
		if key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if first := seen[key.Value]; first != nil {
			p.fail(key, fmt.Sprintf("key %q stands here twice", key.Value), fmt.Sprintf("first in line %d", first.Line))
			continue
		}
		seen[key.Value] = key
		out.Content = append(out.Content, key, value)
	}
	for _, m := range merged { // what is written beside << wins over what it brings
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

func position(file string, n *yaml.Node) lab.Position {
	return lab.Position{File: file, Line: n.Line, Column: n.Column}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// get returns the value under a path of keys (string) and indexes (int); nil where there is none.
func get(n *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		if n == nil {
			return nil
		}
		var next *yaml.Node
		switch step := step.(type) {
		case string:
			if n.Kind == yaml.MappingNode {
				for i := 0; i+1 < len(n.Content); i += 2 {
					if n.Content[i].Value == step {
						next = n.Content[i+1]
					}
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
			}
		}
		n = next
	}
	return n
}

// text is the value of a scalar under a path; empty where there is none.
func text(n *yaml.Node, path ...any) string {
	if n = get(n, path...); n == nil || n.Kind != yaml.ScalarNode || isNull(n) {
		return ""
	}
	return n.Value
}
