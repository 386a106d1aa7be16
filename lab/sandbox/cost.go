package sandbox

import (
	"reflect"
	"regexp/syntax"
	"strings"
	"text/template/parse"
)

const (
	maxPattern = 4 << 10   // bytes of a regular expression
	keySteps   = 2_000_000 // to make a key
	certSteps  = 500_000   // to make a certificate and its key
	hashSteps  = 200_000   // to hash a password
)

// cost returns the steps of a function apart from its result: its arguments, or more if it takes longer.
func (s *Sandbox) cost(name string, args []reflect.Value) (int, error) {
	n := 1
	for _, a := range args {
		n += width(a) / perStep
	}
	switch name {
	case "genPrivateKey":
		return n + keySteps, nil
	case "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "derivePassword":
		return n + certSteps, nil
	case "bcrypt", "htpasswd":
		return n + hashSteps, nil
	case "deepEqual", "has", "mustHas", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite":
		return n + s.deep(args), nil
	case "uniq", "mustUniq", "without", "mustWithout": // compare each with each
		size := s.deep(args)
		return n + size*size/perStep, nil
	}
	if !strings.Contains(strings.ToLower(name), "regex") || name == "regexQuoteMeta" {
		return n, nil
	}
	pattern := text(args[0])
	if len(pattern) > maxPattern {
		return 0, Over("a regular expression of more than %d bytes", maxPattern)
	}
	size, known := s.programs[pattern]
	if !known {
		size = program(pattern)
		s.programs[pattern] = size
		n += size
	}
	for _, a := range args[1:] {
		n += len(text(a)) * size / perStep
	}
	return n, nil
}

// program returns the number of instructions of a regular expression; 0 if it is invalid.
func program(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(compiled.Inst)
}

// width is the length of a text or list.
func width(v reflect.Value) int {
	switch v = concrete(v); v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len()
	}
	return 0
}

// deep returns the size of values, written out, up to the limit.
func (s *Sandbox) deep(args []reflect.Value) int {
	left := MaxValue
	for _, a := range args {
		if !fits(a, &left, 0) {
			return MaxValue
		}
	}
	return MaxValue - left
}

// nodes counts what executing a template, or the body of a range once, evaluates.
func nodes(n parse.Node) int {
	branch := func(b *parse.BranchNode) int { return 1 + len(b.Pipe.Cmds) + nodes(b.List) + nodes(b.ElseList) }
	switch n := n.(type) {
	case *parse.ListNode:
		total := 0
		if n != nil {
			for _, c := range n.Nodes {
				total += nodes(c)
			}
		}
		return total
	case *parse.IfNode:
		return branch(&n.BranchNode)
	case *parse.WithNode:
		return branch(&n.BranchNode)
	case *parse.ActionNode:
		return 1 + len(n.Pipe.Cmds)
	}
	return 1
}

// evaluate spends the steps of n nodes, any of which may compare the longest texts.
func (s *Sandbox) evaluate(n int) error { return s.Step(n * (1 + s.Longest/compared)) }

// compared is how many bytes are compared in a step.
const compared = 16 << 10

// Longest returns the length of the longest text in values.
func Longest(v reflect.Value) int {
	switch v = concrete(v); v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Map:
		most := 0
		for it := v.MapRange(); it.Next(); {
			most = max(most, Longest(it.Value()))
		}
		return most
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		most := 0
		for i := range v.Len() {
			most = max(most, Longest(v.Index(i)))
		}
		return most
	}
	return 0
}
