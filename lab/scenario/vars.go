package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of expansion. There are no loops and no functions, and expanded values are not expanded again.
const (
	maxVariable = 4 << 10  // bytes of one variable
	maxFilled   = 64 << 10 // bytes of one expanded value
	maxStepText = 256 << 10
)

// reference is ${name}; $${name} is the escaped form.
var reference = regexp.MustCompile(`\$?\$\{([^{}]*)\}`)

// engineVariable names the predefined variable that holds the cluster where a cluster's engine runs.
func engineVariable(cluster string) string { return enginePrefix + cluster }

const enginePrefix = "engine."

var variableName = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]{0,62}$`)

// references visits the variables of a tree.
func references(n *yaml.Node, visit func(name string, at *yaml.Node)) {
	if n.Kind == yaml.ScalarNode {
		for _, m := range reference.FindAllStringSubmatch(n.Value, -1) {
			if !strings.HasPrefix(m[0], "$$") {
				visit(m[1], n)
			}
		}
	}
	for _, c := range n.Content {
		references(c, visit)
	}
}

// filler expands the variables of a step.
type filler struct {
	vars    map[string]any
	lenient bool // keep unset variables
	left    int  // bytes left for the step
}

// fill copies a tree with variables expanded. A value that is only a variable, quoted or not, takes its type:
// "${replicas}" may be a number.
func (f *filler) fill(n *yaml.Node) (*yaml.Node, error) {
	out := *n
	if n.Kind == yaml.ScalarNode {
		return &out, f.scalar(&out)
	}
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		var err error
		if out.Content[i], err = f.fill(c); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

func (f *filler) scalar(n *yaml.Node) error {
	m := reference.FindStringSubmatch(n.Value)
	if m == nil {
		return nil
	}
	if v, ok := f.vars[m[1]]; ok && m[0] == n.Value && !strings.HasPrefix(m[0], "$$") {
		n.Value, n.Tag = variableText(v), variableTag(v)
	} else {
		var err error
		if n.Value, err = f.expand(n.Value); err != nil {
			return err
		}
	}
	if f.left -= len(n.Value); f.left < 0 {
		return fmt.Errorf("variables make this step longer than %d bytes", maxStepText)
	}
	return nil
}

func (f *filler) expand(s string) (string, error) {
	var b strings.Builder
	at := 0
	for _, m := range reference.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[at:m[0]])
		at = m[1]
		if strings.HasPrefix(s[m[0]:], "$$") {
			b.WriteString(s[m[0]+1 : m[1]])
			continue
		}
		v, ok := f.vars[s[m[2]:m[3]]]
		switch {
		case ok:
			b.WriteString(variableText(v))
		case f.lenient:
			b.WriteString(s[m[0]:m[1]])
		default:
			return "", fmt.Errorf("${%s} is not set", s[m[2]:m[3]])
		}
		if b.Len() > maxFilled {
			return "", fmt.Errorf("variables make this longer than %d bytes", maxFilled)
		}
	}
	b.WriteString(s[at:])
	return b.String(), nil
}

func variableText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func variableTag(v any) string {
	switch v.(type) {
	case bool:
		return "!!bool"
	case int64, int:
		return "!!int"
	case float64:
		return "!!float"
	}
	return "!!str"
}

// checkVariable returns why a value cannot be a variable, or "".
func checkVariable(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) > maxVariable {
			return fmt.Sprintf("is longer than %d bytes", maxVariable)
		}
	case bool, int, int64, float64:
	default:
		return "is neither text nor a number nor true or false"
	}
	return ""
}
