// Package yamledit changes one value in a YAML file and preserves all else: comments, order, quotes and layout.
package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"homelab/lab/fieldpath"
	"homelab/lab/strict"
)

// Set returns data with the value at a path changed, or added to an existing mapping. The result is parsed to verify that
// nothing else differs; files where that is impossible (block scalars, aliases) are an error.
func Set(data []byte, at fieldpath.Path, value any) ([]byte, error) {
	root, before, err := read(data)
	if err != nil {
		return nil, err
	}
	want, ok := runtime.DeepCopyJSONValue(before).(map[string]any)
	if !ok {
		return nil, errors.New("the document is not a mapping")
	}
	if err := at.Set(want, normal(value)); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(before, any(want)) {
		return data, nil
	}
	e := editor{data: data, root: root}
	out, err := e.set(at, value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if err := verify(out, want); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return out, nil
}

// ReplaceScalar returns data with the scalar at line and column (from 1) replaced by text, in the same quotes. Of several documents, the others are not parsed.
func ReplaceScalar(data []byte, line, column int, text string) ([]byte, error) {
	from, to, skipped := document(data, line)
	out, err := replaceScalar(data[from:to], line-skipped, column, text)
	if err != nil {
		return nil, err
	}
	return slices.Concat(data[:from], out, data[to:]), nil
}

// document returns the extent of the document around a line, and the number of lines before it.
func document(data []byte, line int) (from, to, skipped int) {
	at := 0
	for i := 1; at < len(data); i++ {
		end := len(data)
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		if bytes.Equal(bytes.TrimRight(data[at:end], " \r\n"), []byte("---")) {
			if i > line {
				return from, at, skipped
			}
			from, skipped = end, i
		}
		at = end
	}
	return from, len(data), skipped
}

func replaceScalar(data []byte, line, column int, text string) ([]byte, error) {
	root, before, err := read(data)
	if err != nil {
		return nil, err
	}
	n := find(root, line, column)
	if n == nil {
		return nil, fmt.Errorf("no value starts at %d:%d", line, column)
	}
	e := editor{data: data, root: root}
	out, err := e.scalar(n, text)
	if err != nil {
		return nil, err
	}
	was := n.Value
	n.Value, n.Tag, n.Style = text, "!!str", yaml.DoubleQuotedStyle
	want, ok := plain(root)
	if !ok {
		return nil, fmt.Errorf("%q cannot be edited in place", was)
	}
	if reflect.DeepEqual(before, want) {
		return data, nil
	}
	return out, verify(out, want)
}

// Line returns the line of the value at a path, from 1, or 0 if there is none.
func Line(data []byte, at fieldpath.Path) int {
	root, _, err := read(data)
	if err != nil {
		return 0
	}
	if n, _, ok := at.Node(root); ok {
		return n.Line
	}
	return 0
}

var errShape = errors.New("cannot be edited in place")

// read parses a file of one document. Aliases are an error: an edit would change several values.
func read(data []byte) (*yaml.Node, any, error) {
	expanded, problems := strict.ParseOne("", data) // bounds, duplicate keys
	if len(problems) > 0 {
		return nil, nil, errors.New(strings.TrimPrefix(problems[0].String(), ": "))
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, nil, err
	}
	v, ok := plain(expanded)
	if !ok {
		return nil, nil, errShape
	}
	return root.Content[0], v, nil
}

func plain(n *yaml.Node) (any, bool) { return strict.NewReader("").Plain(n, "") }

func verify(out []byte, want any) error {
	_, got, err := read(out)
	if err != nil || !reflect.DeepEqual(got, want) {
		return errShape
	}
	return nil
}

type editor struct {
	data []byte
	root *yaml.Node
}

func (e *editor) set(at fieldpath.Path, value any) ([]byte, error) {
	n, missing, found := at.Node(e.root)
	switch {
	case found && n.Kind == yaml.AliasNode:
		return nil, errShape
	case found && n.Kind == yaml.ScalarNode && !strict.IsNull(n):
		if !isScalar(value) {
			return e.replace(n, flow(value))
		}
		return e.scalar(n, value)
	case found:
		return e.replace(n, flow(value))
	case len(missing) == 0:
		return nil, errShape
	}
	return e.insert(n, missing, value)
}

// scalar replaces a scalar, keeping the quotes of a string.
func (e *editor) scalar(n *yaml.Node, value any) ([]byte, error) {
	from, to, err := e.extent(n)
	if err != nil {
		return nil, err
	}
	text := flow(value)
	if s, ok := value.(string); ok {
		switch {
		case n.Style&yaml.DoubleQuotedStyle != 0:
			text = quoted(s)
		case n.Style&yaml.SingleQuotedStyle != 0 && !strings.ContainsAny(s, "\n\r\t\\") && utf8.ValidString(s):
			text = "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
	}
	return e.splice(from, to, text), nil
}

// replace replaces a collection or a missing value.
func (e *editor) replace(n *yaml.Node, text string) ([]byte, error) {
	key := keyOf(e.root, n)
	if n.Style&yaml.FlowStyle != 0 || n.Kind == yaml.ScalarNode && !strict.IsNull(n) {
		from, to, err := e.extent(n)
		if err != nil {
			return nil, err
		}
		return e.splice(from, to, text), nil
	}
	if key == nil {
		return nil, errShape
	}
	_, colon, err := e.extent(key)
	if err != nil || colon >= len(e.data) || e.data[colon] != ':' {
		return nil, errShape
	}
	if n.Kind == yaml.ScalarNode { // a key without a value
		to := colon + 1 + len(strings.TrimLeft(n.Value, " "))
		if n.Value != "" {
			return nil, errShape // null, ~
		}
		return e.splice(colon+1, to, " "+text), nil
	}
	// A block: the value goes on the key's line, and the block's lines are removed.
	first := n.Line
	if first == key.Line {
		return nil, errShape
	}
	out := e.splice(e.offset(first, 1), e.offset(e.blockEnd(first, n.Column)+1, 1), "")
	return append(out[:colon+1:colon+1], append([]byte(" "+text), out[colon+1:]...)...), nil
}

func (e *editor) insert(n *yaml.Node, keys []string, value any) ([]byte, error) {
	if n.Style&yaml.FlowStyle != 0 {
		from, _, err := e.extent(n)
		if err != nil {
			return nil, err
		}
		text := flow(value)
		for i := len(keys) - 1; i > 0; i-- {
			text = "{" + flow(keys[i]) + ": " + text + "}"
		}
		text = flow(keys[0]) + ": " + text
		if len(n.Content) > 0 {
			text += ", "
		}
		return e.splice(from+1, from+1, text), nil
	}
	if len(n.Content) == 0 {
		return nil, errShape
	}
	column := n.Content[0].Column
	var b strings.Builder
	last := e.blockEnd(n.Content[0].Line, column)
	at := e.offset(last+1, 1)
	if at > 0 && e.data[at-1] != '\n' {
		b.WriteByte('\n')
	}
	for i, key := range keys {
		b.WriteString(strings.Repeat(" ", column-1+2*i) + flow(key) + ":")
		if i < len(keys)-1 {
			b.WriteByte('\n')
		}
	}
	b.WriteString(" " + flow(value) + "\n")
	return e.splice(at, at, b.String()), nil
}

// blockEnd returns the last line of a block with its keys or dashes in column, without trailing blank lines and comments.
func (e *editor) blockEnd(first, column int) int {
	lines := bytes.Split(e.data, []byte("\n"))
	last := first
	for i := first; i < len(lines); i++ { // lines[i] is line i+1
		text := bytes.TrimLeft(lines[i], " ")
		if len(bytes.TrimSpace(text)) == 0 || text[0] == '#' {
			continue
		}
		if len(lines[i])-len(text) < column-1 {
			break
		}
		last = i + 1
	}
	return last
}

// extent returns the start and end of a node's text.
func (e *editor) extent(n *yaml.Node) (from, to int, err error) {
	from = e.offset(n.Line, n.Column)
	rest := e.data[from:]
	switch {
	case n.Anchor != "" || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0 || len(rest) == 0:
		return 0, 0, errShape
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		to = closing(rest)
	case n.Kind == yaml.ScalarNode:
		if !bytes.HasPrefix(rest, []byte(n.Value)) {
			return 0, 0, errShape // multi-line
		}
		return from, from + len(n.Value), nil
	default:
		to = closing(rest)
	}
	if to == 0 {
		return 0, 0, errShape
	}
	return from, from + to, nil
}

// closing returns the length of the quoted string or flow collection at the start of s, or 0 if it does not end.
func closing(s []byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\'' && (depth == 0 || !wordByte(s[i-1])):
			end := quote(s[i:])
			if end == 0 {
				return 0
			}
			i += end - 1
			if depth == 0 {
				return i + 1
			}
		case c == '#' && i > 0 && (s[i-1] == ' ' || s[i-1] == '\n'):
			for i+1 < len(s) && s[i+1] != '\n' {
				i++
			}
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		if depth <= 0 {
			return 0
		}
	}
	return 0
}

func wordByte(c byte) bool {
	return c != ' ' && c != '\n' && c != ',' && c != '[' && c != '{' && c != ':'
}

func quote(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[i] == s[0] && s[0] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return 0
}

// offset returns the byte offset of a column, which counts characters.
func (e *editor) offset(line, column int) int {
	at := 0
	for range line - 1 {
		i := bytes.IndexByte(e.data[at:], '\n')
		if i < 0 {
			return len(e.data)
		}
		at += i + 1
	}
	for range column - 1 {
		if at >= len(e.data) {
			break
		}
		_, size := utf8.DecodeRune(e.data[at:])
		at += size
	}
	return at
}

func (e *editor) splice(from, to int, text string) []byte {
	out := make([]byte, 0, len(e.data)+len(text))
	out = append(out, e.data[:from]...)
	out = append(out, text...)
	return append(out, e.data[to:]...)
}

func find(n *yaml.Node, line, column int) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.Line == line && n.Column == column {
		return n
	}
	for _, c := range n.Content {
		if hit := find(c, line, column); hit != nil {
			return hit
		}
	}
	return nil
}

func keyOf(in, value *yaml.Node) *yaml.Node {
	for i, c := range in.Content {
		if c == value && in.Kind == yaml.MappingNode && i%2 == 1 {
			return in.Content[i-1]
		}
		if key := keyOf(c, value); key != nil {
			return key
		}
	}
	return nil
}
