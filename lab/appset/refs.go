package appset

import (
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/strict"
)

// Ref is a reference to a parameter in a template.
type Ref struct {
	Path    []string // metadata, annotations, addons_repo_url
	Guarded bool     // the template handles its absence
	Branch  bool     // guarded only by a condition that requires other parameters
	Silent  bool     // guarded only by index, which returns nothing for its absence
	lab.Position
}

// guard is how a template handles the absence of a parameter.
type guard int

const (
	unguarded guard = iota
	silent
	inBranch
	handled
)

// Refs returns the references in the templates of a set and its generators, in the order of the file, once per
// position.
func (s *Set) Refs() []Ref {
	return s.refs(strict.Get(s.node, "spec"))
}

func (s *Set) refs(node *yaml.Node) []Ref {
	var refs []Ref
	eachScalar(node, func(n *yaml.Node) {
		for _, r := range s.compiled.refs(n.Value) {
			r.Position = s.at(n)
			refs = append(refs, r)
		}
	})
	return refs
}

func eachScalar(n *yaml.Node, visit func(*yaml.Node)) {
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		visit(n)
	}
	for _, c := range n.Content {
		eachScalar(c, visit)
	}
}

// refs returns the references in a text. A parameter is guarded if all its references are.
func (t *templates) refs(text string) []Ref {
	if !strings.Contains(text, "{{") {
		return nil
	}
	found := map[string]Ref{}
	guards := map[string]guard{}
	add := func(path []string, g guard) {
		if len(path) == 0 {
			return
		}
		key := strings.Join(path, "\x00")
		if before, ok := guards[key]; ok {
			g = min(g, before)
		}
		guards[key], found[key] = g, Ref{Path: slices.Clone(path), Guarded: g != unguarded, Branch: g == inBranch, Silent: g == silent}
	}
	if !t.goTemplate {
		for _, tag := range tagged.FindAllString(text, -1) {
			for part := range strings.SplitSeq(tag, "{{") {
				if name, _, ok := strings.Cut(part, "}}"); ok {
					add(splitTag(strings.TrimSpace(name)), unguarded)
				}
			}
		}
	} else if r := t.parse(text); r.tree != nil {
		w := refWalker{add: add, vars: map[string][]string{"$": {}}, strict: slices.Contains(t.options, "missingkey=error")}
		w.list(r.tree.Root, []string{}, unguarded)
	}
	refs := make([]Ref, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		refs = append(refs, found[key])
	}
	return refs
}

// splitTag splits a plain tag; what follows metadata.labels is a single key, dots included.
func splitTag(tag string) []string {
	for _, prefix := range []string{"metadata.labels.", "metadata.annotations."} {
		if key, ok := strings.CutPrefix(tag, prefix); ok {
			return append(strings.Split(strings.TrimSuffix(prefix, "."), "."), key)
		}
	}
	if key, ok := strings.CutPrefix(tag, "values."); ok {
		return []string{"values", key}
	}
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ".")
}

// guards are functions that handle missing values.
var guards = []string{"default", "coalesce", "hasKey", "dig", "get", "ternary", "or", "and", "not", "empty", "len"}

// refWalker tracks a template's dot. A nil path is unknown.
type refWalker struct {
	add    func(path []string, g guard)
	vars   map[string][]string
	strict bool // a missing field is an error even where it is handled; only functions that take its name handle that
	asked  bool // the value is only tested, or has a default
}

func (w *refWalker) list(l *parse.ListNode, dot []string, g guard) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			w.pipe(n.Pipe, dot, g)
		case *parse.IfNode:
			_, inside := w.condition(n.Pipe, dot, g)
			w.list(n.List, dot, inside)
			w.list(n.ElseList, dot, g)
		case *parse.WithNode:
			inner, inside := w.condition(n.Pipe, dot, g)
			w.list(n.List, inner, inside)
			w.list(n.ElseList, dot, g)
		case *parse.RangeNode:
			_, inside := w.condition(n.Pipe, dot, g)
			w.list(n.List, nil, inside)
			w.list(n.ElseList, dot, g)
		case *parse.TemplateNode:
			if n.Pipe != nil {
				w.pipe(n.Pipe, dot, g)
			}
		}
	}
}

// condition is pipe for a condition, and returns how what depends on it is guarded.
func (w *refWalker) condition(p *parse.PipeNode, dot []string, g guard) (path []string, inside guard) {
	inside = handled
	inner := *w
	inner.asked = true
	inner.add = func(path []string, g guard) {
		if g == unguarded {
			inside = inBranch
		}
		w.add(path, g)
	}
	if !w.strict {
		g = handled
	}
	return inner.pipe(p, dot, g), max(g, inside)
}

// pipe records the references of a pipeline and returns its path, if it is one.
func (w *refWalker) pipe(p *parse.PipeNode, dot []string, g guard) []string {
	inner := *w
	for _, cmd := range p.Cmds {
		if isGuard(cmd) {
			inner.asked = true
			if !w.strict {
				g = handled
			}
		}
	}
	var path []string
	for _, cmd := range p.Cmds {
		path = inner.command(cmd, dot, g)
	}
	if len(p.Cmds) != 1 {
		path = nil
	}
	for _, v := range p.Decl {
		w.vars[v.Ident[0]] = path
	}
	return path
}

func isGuard(cmd *parse.CommandNode) bool {
	id, ok := cmd.Args[0].(*parse.IdentifierNode)
	return ok && slices.Contains(guards, id.Ident)
}

func (w *refWalker) command(cmd *parse.CommandNode, dot []string, g guard) []string {
	if id, ok := cmd.Args[0].(*parse.IdentifierNode); ok && (id.Ident == "index" || id.Ident == "get" || id.Ident == "hasKey") && len(cmd.Args) > 2 {
		path := w.path(cmd.Args[1], dot)
		keys := cmd.Args[2:]
		for _, k := range keys {
			s, ok := k.(*parse.StringNode)
			if !ok || path == nil {
				path = nil
				break
			}
			path = append(slices.Clone(path), s.Text)
		}
		if path != nil {
			missing := handled // a missing key is an empty string
			if id.Ident == "index" && g == unguarded && !w.asked {
				missing = silent
			}
			w.add(path, missing)
			return path
		}
	}
	if len(cmd.Args) == 1 {
		return w.arg(cmd.Args[0], dot, g)
	}
	for _, a := range cmd.Args {
		w.arg(a, dot, g)
	}
	return nil
}

// arg records the references of an argument and returns its path.
func (w *refWalker) arg(n parse.Node, dot []string, g guard) []string {
	switch n := n.(type) {
	case *parse.PipeNode:
		return w.pipe(n, dot, g)
	case *parse.ChainNode:
		if path := w.arg(n.Node, dot, g); path != nil {
			path = slices.Concat(path, n.Field)
			w.add(path, g)
			return path
		}
		return nil
	case *parse.DotNode:
		return dot
	}
	path := w.path(n, dot)
	if path != nil {
		w.add(path, g)
	}
	return path
}

// path returns the parameter of a field or variable, or nil.
func (w *refWalker) path(n parse.Node, dot []string) []string {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		if dot != nil {
			return slices.Concat(dot, n.Ident)
		}
	case *parse.VariableNode:
		if base, ok := w.vars[n.Ident[0]]; ok && base != nil {
			return slices.Concat(base, n.Ident[1:])
		}
	case *parse.PipeNode:
		if len(n.Cmds) == 1 && len(n.Cmds[0].Args) == 1 {
			return w.path(n.Cmds[0].Args[0], dot)
		}
	}
	return nil
}

// nondeterministic finds a nondeterministic function in the set's templates.
func (s *Set) nondeterministic() (at *yaml.Node, what string) {
	if !s.Spec.GoTemplate {
		return nil, ""
	}
	eachScalar(strict.Get(s.node, "spec"), func(n *yaml.Node) {
		if what != "" || !strings.Contains(n.Value, "{{") {
			return
		}
		if r := s.compiled.parse(n.Value); r.tree != nil {
			if name := calls(r.tree.Root, nondeterministic); name != "" {
				at, what = n, "template function "+name
			}
		}
	})
	return at, what
}

// calls returns the first of the functions that a template calls.
func calls(n parse.Node, names []string) (found string) {
	look := func(children ...parse.Node) {
		for _, c := range children {
			if found == "" && c != nil {
				found = calls(c, names)
			}
		}
	}
	branch := func(b *parse.BranchNode) {
		look(b.Pipe, b.List)
		if b.ElseList != nil {
			look(b.ElseList)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, c := range n.Nodes {
			look(c)
		}
	case *parse.ActionNode:
		look(n.Pipe)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			look(c)
		}
	case *parse.CommandNode:
		look(n.Args...)
	case *parse.ChainNode:
		look(n.Node)
	case *parse.IdentifierNode:
		if slices.Contains(names, n.Ident) {
			return n.Ident
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	}
	return found
}
