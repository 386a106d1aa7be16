package strict

import (
	"bytes"
	gojson "encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// JSON returns a node as the engines and the API server read it: `yes` is a boolean.
func JSON(n *yaml.Node) ([]byte, error) {
	if v, err := value(n); err == nil {
		return gojson.Marshal(v)
	}
	return written(n)
}

// Value is JSON, decoded as an API server does: numbers are int64 where they can be.
func Value(n *yaml.Node) (v any, err error) {
	if v, err = value(n); err == nil {
		return v, nil
	}
	text, err := written(n)
	if err != nil {
		return nil, err
	}
	return v, json.UnmarshalCaseSensitivePreserveInts(text, &v)
}

func written(n *yaml.Node) ([]byte, error) {
	text, err := YAML(n)
	if err != nil {
		return nil, err
	}
	return sigsyaml.YAMLToJSON(text)
}

// YAML writes a node. yaml.v3 alone would make empty texts of empty values within brackets.
func YAML(n *yaml.Node) ([]byte, error) { return yaml.Marshal(explicit(n)) }

// explicit returns a node whose empty values are written as null.
func explicit(n *yaml.Node) *yaml.Node {
	of := *n
	if of.Kind == yaml.ScalarNode && of.Value == "" && of.Tag == "!!null" {
		of.Value = "null"
	}
	of.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		of.Content[i] = explicit(c)
	}
	return &of
}

// errUnusual is that a node must be written out to be read: an alias, a tag, a non-string key.
var errUnusual = errors.New("unusual")

// value is Value without writing a node out, which takes ten times as long.
func value(n *yaml.Node) (any, error) {
	if n.Anchor != "" {
		return nil, errUnusual
	}
	switch n.Kind {
	case yaml.MappingNode:
		if n.Tag != "" && n.Tag != "!!map" {
			return nil, errUnusual
		}
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			of, err := value(n.Content[i])
			key, isText := of.(string)
			if _, twice := m[key]; err != nil || !isText || key == "<<" || twice {
				return nil, errUnusual
			}
			if m[key], err = value(n.Content[i+1]); err != nil {
				return nil, err
			}
		}
		return m, nil
	case yaml.SequenceNode:
		if n.Tag != "" && n.Tag != "!!seq" {
			return nil, errUnusual
		}
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			var err error
			if list[i], err = value(c); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, errUnusual
}

var (
	number  = regexp.MustCompile(`^[-+._]*[0-9][0-9A-Za-z+._-]*$`) // what may be one in YAML 1.1
	decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
)

func scalar(n *yaml.Node) (any, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	text := n.Value
	switch {
	case n.Style&yaml.TaggedStyle != 0 || !utf8.ValidString(text):
		return nil, errUnusual
	case n.Tag == "!!str" && (n.Style&quoted != 0 || !word(text) && !number.MatchString(text)):
		return text, nil
	case n.Style&quoted != 0 || n.Tag == "!!binary" || n.Tag == "!!merge":
		return nil, errUnusual
	}
	implicit := (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag()
	switch {
	case n.Tag == "!!str" && implicit != "!!str": // it would be quoted
		return text, nil
	case n.Tag != "" && n.Tag != implicit:
		return nil, errUnusual
	case text == "":
		return nil, nil
	case !word(text) && !number.MatchString(text):
		return text, nil
	case decimal.MatchString(text):
		return strconv.ParseInt(text, 10, 64)
	}
	data, err := sigsyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &v); err != nil {
		return nil, err
	}
	if again, err := gojson.Marshal(v); err != nil || !bytes.Equal(again, data) { // a number that has more digits
		return nil, errUnusual
	}
	return v, nil
}

// word reports whether a text is none in YAML 1.1 where it has no quotes: https://yaml.org/type/bool.html
func word(text string) bool {
	switch strings.ToLower(text) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "~", "null", "<<", ".nan", ".inf", "+.inf", "-.inf":
		return true
	}
	return false
}
