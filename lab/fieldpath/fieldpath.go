// Package fieldpath names a place in a JSON-like value, as a user writes it: spec.template.spec.containers[name=podinfo].image, data["a.b"], items[0].
package fieldpath

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds on what is parsed.
const (
	maxText  = 1024
	maxSteps = 64
)

// Path leads from a value to one within it.
type Path struct {
	text  string
	steps []step
}

// step is one of: a key of a mapping, an index into a list, or a choice among a list's elements by what they hold.
type step struct {
	key    string
	index  int // where isIndex
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
			err = fmt.Errorf("%q is not expected here", rest[:1])
		}
		if err != nil {
			return Path{}, fmt.Errorf("path %s: %w", clip(text), err)
		}
		if p.steps = append(p.steps, s); len(p.steps) > maxSteps {
			return Path{}, fmt.Errorf("path %s: more than %d steps", clip(text), maxSteps)
		}
	}
	return p, nil
}

func (p Path) String() string { return p.text }

// word is a key up to the next dot or bracket.
func word(s string) (key, rest string, err error) {
	i := strings.IndexAny(s, ".[]")
	if i < 0 {
		i = len(s)
	}
	if i == 0 {
		return "", "", fmt.Errorf("a key is missing")
	}
	return s[:i], s[i:], nil
}

// bracket is ["key"], [0] or [path=value].
func bracket(s string) (step, string, error) {
	if strings.HasPrefix(s, `["`) {
		key, err := strconv.QuotedPrefix(s[1:])
		if err != nil || !strings.HasPrefix(s[1+len(key):], "]") {
			return step{}, "", fmt.Errorf(`a quoted key ends in "]`)
		}
		name, err := strconv.Unquote(key)
		return step{key: name}, s[len(key)+2:], err
	}
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return step{}, "", fmt.Errorf("] is missing")
	}
	inner, rest := s[1:end], s[end+1:]
	if where, value, ok := strings.Cut(inner, "="); ok {
		if strings.Contains(where, "[") {
			return step{}, "", fmt.Errorf("a choice names plain keys")
		}
		p, err := Parse(where)
		return step{where: &p, equals: value}, rest, err
	}
	n, err := strconv.Atoi(inner)
	if err != nil || n < 0 {
		return step{}, "", fmt.Errorf("[%s] is neither an index nor a choice such as [name=podinfo]", clip(inner))
	}
	return step{index: n, isIndex: true}, rest, nil
}

// Get returns the value that the path leads to, and false where there is none.
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

// element is the index of a list's element that the step means.
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

// Set changes the value in place: mappings on the way are made, elements of lists must be there.
func (p Path) Set(in map[string]any, value any) error {
	return p.change(in, func(m map[string]any, key string) { m[key] = value }, func(list []any, i int) { list[i] = value }, true)
}

// Missing is the shortest beginning of the path that leads nowhere: what Set would make. false where the whole path leads to a value.
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

// Remove takes the value out; what is not there is no error. An element of a list cannot be taken out.
func (p Path) Remove(from map[string]any) error {
	if _, ok := p.Get(from); !ok {
		return nil
	}
	if last := p.steps[len(p.steps)-1]; last.isIndex || last.where != nil {
		return fmt.Errorf("%s: an element of a list cannot be removed", p.text)
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
				return fmt.Errorf("%s: there is a mapping, not a list", p.text)
			}
			if last {
				onKey(v, s.key)
				return nil
			}
			next, ok := v[s.key]
			if !ok || next == nil {
				if !grow || p.steps[i+1].isIndex || p.steps[i+1].where != nil {
					return fmt.Errorf("%s: there is no %s", p.text, s.key)
				}
				next = map[string]any{}
				v[s.key] = next
			}
			at = next
		case []any:
			n, ok := s.element(v)
			if !ok {
				return fmt.Errorf("%s: the list has no such element", p.text)
			}
			if last {
				onElement(v, n)
				return nil
			}
			at = v[n]
		default:
			return fmt.Errorf("%s: there is neither a mapping nor a list", p.text)
		}
	}
	return nil
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
