package render

import (
	"fmt"
	"strings"
	"text/template/parse"

	"homelab/lab/sandbox"
)

// trace maps lines of output to the lines of a template where they begin.
type trace struct {
	line  int
	text  bool // the current text is literal and has lines
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

// mark makes a template record the position before each write.
func mark(l *parse.ListNode, source string) {
	if l == nil {
		return
	}
	var nodes []parse.Node
	for _, n := range l.Nodes {
		branch := func(b *parse.BranchNode) { mark(b.List, source); mark(b.ElseList, source) }
		switch n := n.(type) {
		case *parse.TextNode:
			nodes = append(nodes, sandbox.Call(fmt.Sprintf("__at %d true", 1+strings.Count(source[:min(int(n.Pos), len(source))], "\n"))))
		case *parse.ActionNode:
			nodes = append(nodes, sandbox.Call(fmt.Sprintf("__at %d false", n.Line)))
		case *parse.TemplateNode:
			nodes = append(nodes, sandbox.Call(fmt.Sprintf("__at %d false", n.Line)))
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
