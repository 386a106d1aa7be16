package sandbox

import (
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

// Guard makes all templates of a set call enter and leave, and spend steps at every iteration of a range.
func Guard(set *template.Template) {
	for _, t := range set.Templates() {
		if t.Tree == nil || t.Tree.Root == nil || guarded(t.Tree.Root) {
			continue
		}
		size := nodes(t.Tree.Root)
		tick(t.Tree.Root)
		t.Tree.Root.Nodes = append(append([]parse.Node{Call(fmt.Sprintf("__enter %d", size))}, t.Tree.Root.Nodes...), Call("__leave"))
	}
}

// guarded reports whether a template already has guards: clones share their trees.
func guarded(l *parse.ListNode) bool {
	return len(l.Nodes) > 0 && strings.HasPrefix(l.Nodes[0].String(), "{{__enter ")
}

// tick makes the body of every range spend steps.
func tick(n parse.Node) {
	branch := func(b *parse.BranchNode) {
		for _, l := range []*parse.ListNode{b.List, b.ElseList} {
			if l != nil {
				tick(l)
			}
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, c := range n.Nodes {
			tick(c)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		size := 1 + nodes(n.List)
		branch(&n.BranchNode)
		n.List.Nodes = append([]parse.Node{Call(fmt.Sprintf("__step %d", size))}, n.List.Nodes...)
	}
}

// opening matches what nests in a template, and what ends it.
var opening = regexp.MustCompile(`\{\{-?\s*(if|range|with|block|define|else\s+(?:if|with)|end)\b`)

// Nesting bounds the nesting of a template's blocks: the parser is recursive.
func Nesting(text string) error {
	depth, open := 0, []int{}
	for _, m := range opening.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "end":
			if depth++; strings.HasPrefix(m[1], "else") && len(open) > 0 {
				open[len(open)-1]++
			} else {
				open = append(open, 1)
			}
		case len(open) > 0:
			depth -= open[len(open)-1]
			open = open[:len(open)-1]
		}
		if depth > MaxNested {
			return ErrNested
		}
	}
	return nil
}

// Call returns an action that calls a built-in function of the engine.
func Call(text string) parse.Node {
	name, _, _ := strings.Cut(text, " ")
	trees, err := parse.Parse(name, "{{"+text+"}}", "", "", map[string]any{name: name})
	if err != nil {
		panic(err) // a constant text
	}
	return trees[name].Root.Nodes[0]
}
