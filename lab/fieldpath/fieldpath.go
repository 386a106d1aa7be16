// Package fieldpath implements paths into JSON-like values: spec.template.spec.containers[name=podinfo].image,
// data["a.b"], items[0].
package fieldpath

import (
	"fmt"
	"strconv"
	"strings"

	"homelab/lab"
)

// Limits of a path.
const (
	maxText  = 1024
	maxSteps = 64
)

// Path is a path into a value.
type Path struct {
	text  string
	steps []step
}

// step is a key of a mapping, an index of a list, or a match of a list's elements.
type step struct {
	key    string
	index  int // if isIndex
	where  *Path
	equals string

	isIndex bool
}

// Parse reads a path.
func Parse(text string) (Path, error) {
	p := Path{text: text}
	if text == "" || len(text) > maxText {
		return Path{}, fmt.Errorf("a path has 1 to %d characters", maxText)
	}
	rest := text
	for first := true; rest != ""; first = false {
		var s step
		var err error
		switch {
		case rest[0] == '[':
			s, rest, err = bracket(rest)
		case rest[0] == '.' && !first:
			s.key, rest, err = word(rest[1:])
		case first:
			s.key, rest, err = word(rest)
		default:
			err = fmt.Errorf("unexpected %q", rest[:1])
		}
		if err != nil {
			return Path{}, fmt.Errorf("path %s: %w", lab.Brief(text), err)
		}
		if p.steps = append(p.steps, s); len(p.steps) > maxSteps {
			return Path{}, fmt.Errorf("path %s: more than %d steps", lab.Brief(text), maxSteps)
		}
	}
	return p, nil
}

func (p Path) String() string { return p.text }

// Of returns the path of nested keys.
func Of(keys ...string) Path {
	var p Path
	for i, key := range keys {
		p.steps = append(p.steps, step{key: key})
		switch {
		case key == "" || strings.ContainsAny(key, ".[]"):
			p.text += "[" + strconv.Quote(key) + "]"
		case i > 0:
			p.text += "." + key
		default:
			p.text = key
		}
	}
	return p
}

// word reads a key up to the next dot or bracket.
func word(s string) (key, rest string, err error) {
	i := strings.IndexAny(s, ".[]")
	if i < 0 {
		i = len(s)
	}
	if i == 0 {
		return "", "", fmt.Errorf("missing key")
	}
	return s[:i], s[i:], nil
}

// bracket reads ["key"], [0] or [path=value].
func bracket(s string) (step, string, error) {
	if strings.HasPrefix(s, `["`) {
		key, err := strconv.QuotedPrefix(s[1:])
		if err != nil || !strings.HasPrefix(s[1+len(key):], "]") {
			return step{}, "", fmt.Errorf(`quoted key without "]`)
		}
		name, err := strconv.Unquote(key)
		return step{key: name}, s[len(key)+2:], err
	}
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return step{}, "", fmt.Errorf("missing ]")
	}
	inner, rest := s[1:end], s[end+1:]
	if where, value, ok := strings.Cut(inner, "="); ok {
		if strings.Contains(where, "[") {
			return step{}, "", fmt.Errorf("a match has plain keys")
		}
		p, err := Parse(where)
		return step{where: &p, equals: value}, rest, err
	}
	n, err := strconv.Atoi(inner)
	if err != nil || n < 0 {
		return step{}, "", fmt.Errorf("[%s] is neither an index nor a match such as [name=podinfo]", lab.Brief(inner))
	}
	return step{index: n, isIndex: true}, rest, nil
}

// Get returns the value at the path, and whether it exists.
func (p Path) Get(from any) (any, bool) {
	at := from
	for _, s := range p.steps {
		var ok bool
		if at, ok = s.get(at); !ok {
			return nil, false
		}
	}
	return at, true
}

func (s step) get(from any) (any, bool) {
	if m, ok := from.(map[string]any); ok && !s.isIndex && s.where == nil {
		v, ok := m[s.key]
		return v, ok
	}
	list, ok := from.([]any)
	if !ok {
		return nil, false
	}
	i, ok := s.element(list)
	if !ok {
		return nil, false
	}
	return list[i], true
}

// element returns the index of the step's element in a list.
func (s step) element(list []any) (int, bool) {
	if s.isIndex {
		return s.index, s.index < len(list)
	}
	if s.where == nil {
		return 0, false
	}
	for i, e := range list {
		if v, ok := s.where.Get(e); ok && fmt.Sprint(v) == s.equals {
			return i, true
		}
	}
	return 0, false
}

// Set sets the value in place. It creates missing mappings, but not elements of lists.
func (p Path) Set(in map[string]any, value any) error {
	return p.change(in, func(m map[string]any, key string) { m[key] = value }, func(list []any, i int) { list[i] = value }, true)
}

// Missing returns the shortest missing prefix of the path, which Set would create, and whether there is one.
func (p Path) Missing(from any) (Path, bool) {
	at := from
	for i, s := range p.steps {
		next, ok := s.get(at)
		if !ok {
			return Path{text: p.text, steps: p.steps[:i+1]}, true
		}
		at = next
	}
	return Path{}, false
}

// Remove removes the value, if any. It cannot remove an element of a list.
func (p Path) Remove(from map[string]any) error {
	if _, ok := p.Get(from); !ok {
		return nil
	}
	if last := p.steps[len(p.steps)-1]; last.isIndex || last.where != nil {
		return fmt.Errorf("%s: cannot remove an element of a list", p.text)
	}
	return p.change(from, func(m map[string]any, key string) { delete(m, key) }, nil, false)
}

func (p Path) change(in any, onKey func(map[string]any, string), onElement func([]any, int), grow bool) error {
	at := in
	for i, s := range p.steps {
		last := i == len(p.steps)-1
		switch v := at.(type) {
		case map[string]any:
			if s.isIndex || s.where != nil {
				return fmt.Errorf("%s: a mapping, not a list", p.text)
			}
			if last {
				onKey(v, s.key)
				return nil
			}
			next, ok := v[s.key]
			if !ok || next == nil {
				if !grow || p.steps[i+1].isIndex || p.steps[i+1].where != nil {
					return fmt.Errorf("%s: no %s", p.text, s.key)
				}
				next = map[string]any{}
				v[s.key] = next
			}
			at = next
		case []any:
			n, ok := s.element(v)
			if !ok {
				return fmt.Errorf("%s: no such element", p.text)
			}
			if last {
				onElement(v, n)
				return nil
			}
			at = v[n]
		default:
			return fmt.Errorf("%s: neither a mapping nor a list", p.text)
		}
	}
	return nil
}
