package render

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// trace follows which line of a template each line of its output begins in.
type trace struct {
	line  int
	text  bool // what is written is the template's own text, which has lines
	lines []int
}

func (t *trace) wrote(p []byte) {
	if t == nil || len(p) == 0 {
		return
	}
	if len(t.lines) == 0 {
		t.lines = append(t.lines, t.line)
	}
	for _, c := range p {
		if c != '\n' {
			continue
		}
		if t.text {
			t.line++
		}
		t.lines = append(t.lines, t.line)
	}
}

// mark has a file's template tell before all that it writes where that stands.
func mark(l *parse.ListNode, source string) {
	if l == nil {
		return
	}
	var nodes []parse.Node
	for _, n := range l.Nodes {
		branch := func(b *parse.BranchNode) { mark(b.List, source); mark(b.ElseList, source) }
		switch n := n.(type) {
		case *parse.TextNode:
			nodes = append(nodes, call(fmt.Sprintf("__at %d true", 1+strings.Count(source[:min(int(n.Pos), len(source))], "\n"))))
		case *parse.ActionNode:
			nodes = append(nodes, call(fmt.Sprintf("__at %d false", n.Line)))
		case *parse.TemplateNode:
			nodes = append(nodes, call(fmt.Sprintf("__at %d false", n.Line)))
		case *parse.IfNode:
			branch(&n.BranchNode)
		case *parse.WithNode:
			branch(&n.BranchNode)
		case *parse.RangeNode:
			branch(&n.BranchNode)
		}
		nodes = append(nodes, n)
	}
	l.Nodes = nodes
}

// call is the action that calls a function of the engine's own.
func call(text string) parse.Node {
	name, _, _ := strings.Cut(text, " ")
	trees, err := parse.Parse(name, "{{"+text+"}}", "", "", map[string]any{name: name})
	if err != nil {
		panic(err) // the text is ours
	}
	return trees[name].Root.Nodes[0]
}
