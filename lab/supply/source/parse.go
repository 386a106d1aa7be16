package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// Parse reads recipes strictly. The error is lab.Problems with lines.
func Parse(file string, data []byte) (*Recipes, error) {
	r := Recipes{arch: runtime.GOARCH}
	raw := data
	data, problems := expand(file, data, versionsIn(data))
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil && !errors.Is(err, io.EOF) {
		problems = append(problems, yamlProblems(file, err)...)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, problems.Err()
	}
	lines := linesOf(&root, "components")
	r.Components = slices.DeleteFunc(r.Components, func(c *Component) bool { return c == nil })
	for i, c := range r.Components {
		at := lab.Position{File: file}
		if i < len(lines) {
			at.Line = lines[i]
		}
		for _, msg := range r.check(i, c) {
			problems = append(problems, lab.Problem{Position: at, Message: fmt.Sprintf("component %q: %s", c.Name, msg)})
		}
	}
	if len(problems) == 0 {
		problems = r.addVariants(file, raw, linesOf(&root, "variants"))
	}
	problems.Sort()
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if err := r.addKeys(); err != nil {
		return nil, err
	}
	return &r, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)

func yamlProblems(file string, err error) lab.Problems {
	msgs := []string{err.Error()}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		msgs = te.Errors
	}
	var ps lab.Problems
	for _, msg := range msgs {
		p := lab.Problem{Position: lab.Position{File: file}, Message: strings.TrimPrefix(msg, "yaml: ")}
		if m := yamlLine.FindStringSubmatch(msg); m != nil {
			p.Line, _ = strconv.Atoi(m[1])
			p.Message = m[2]
		}
		ps = append(ps, p)
	}
	return ps
}

// linesOf returns the lines of the entries of a list at the top of a document.
func linesOf(root *yaml.Node, list string) []int {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	doc := root.Content[0]
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if doc.Content[i].Value != list {
			continue
		}
		var lines []int
		for _, n := range doc.Content[i+1].Content {
			if n.Tag != "!!null" {
				lines = append(lines, n.Line)
			}
		}
		return lines
	}
	return nil
}

var componentName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// check returns the problems of component i. Dependencies must come first, so there are no cycles.
func (r *Recipes) check(i int, c *Component) []string {
	var msgs []string
	wrong := func(format string, args ...any) { msgs = append(msgs, fmt.Sprintf(format, args...)) }
	if !componentName.MatchString(c.Name) {
		wrong("a name has lower-case letters, digits, dots and dashes")
	}
	if j := r.index(c.Name); j < i {
		wrong("duplicate name")
	}
	switch c.Kind {
	case KindPrograms:
		if _, own := ownSource(c.Module); c.Own && !own {
			wrong("module %q is not one of lab's own", c.Module)
		} else if c.Module == "" || c.Version == "" && !c.Own {
			wrong("programs need module and version")
		}
		if len(c.Packages) == 0 && len(c.C) == 0 {
			wrong("programs need packages or c")
		}
		if with, ok := r.Get(c.With); c.With != "" && (!ok || r.index(c.With) >= i || with.Module == "" || with.Own) {
			wrong("with %q, which is not a compiled component above it", c.With)
		}
		if c.With == "" && len(c.Except) > 0 {
			wrong("except requires with")
		}
	case KindRootFS:
		if c.Suite == "" {
			wrong("a rootfs needs suite")
		}
	case KindImage, KindNode:
		if c.Ref == "" {
			wrong("an image needs ref")
		}
		if c.Kind == KindNode && (c.Containerd == "" || c.Kubernetes == "" || c.Base == "" || c.Version == "") {
			wrong("a node image needs base, version, containerd and kubernetes")
		}
	default:
		wrong("kind %q must be programs, rootfs, image or node", c.Kind)
	}
	for _, need := range c.Needs() {
		if j := r.index(need); j < 0 {
			wrong("needs %q, which does not exist", need)
		} else if j >= i {
			wrong("needs %q, which must be above it", need)
		}
	}
	for n, content := range c.Contents {
		for _, msg := range r.checkContent(content) {
			wrong("contents[%d]: %s", n, msg)
		}
	}
	return msgs
}

func (r *Recipes) checkContent(c Content) []string {
	var msgs []string
	wrong := func(format string, args ...any) { msgs = append(msgs, fmt.Sprintf(format, args...)) }
	sources := 0
	for _, given := range []bool{c.From != "", c.Module != "", c.File != "", c.Text != "", c.Link != "", c.Dir} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		wrong("exactly one of from, module, file, text, link and dir is required")
	}
	if c.From != "" && len(c.Paths) == 0 {
		wrong("from needs paths")
	}
	if c.From == "" && len(c.Paths) > 0 {
		wrong("paths require from")
	}
	if (c.Module != "") != (c.Path != "") {
		wrong("module and path require each other")
	}
	if _, _, ok := strings.Cut(c.Module, "@"); c.Module != "" && !ok {
		wrong("module has the form path@version")
	}
	if c.Const != "" && c.Module == "" {
		wrong("const requires module")
	}
	if len(c.With) > 0 && c.Const == "" {
		wrong("with requires const")
	}
	if c.File != "" {
		if _, err := embedded.ReadFile(path.Join("files", c.File)); err != nil {
			wrong("file %q is not one of lab's own", c.File)
		}
	}
	if from, ok := r.Get(c.From); c.To == "" && (!ok || from.Kind != KindRootFS) {
		wrong("to is missing")
	}
	if c.To != "" && !path.IsAbs(c.To) {
		wrong("to %q is not absolute", c.To)
	}
	if _, err := parseMode(c.Mode, 0); err != nil {
		wrong("mode %q is not octal", c.Mode)
	}
	if _, _, err := parseOwner(c.Owner); err != nil {
		wrong("owner %q is not uid:gid", c.Owner)
	}
	return msgs
}

func parseMode(s string, otherwise int64) (int64, error) {
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(s, 8, 12)
	return int64(n), err
}

func parseOwner(s string) (uid, gid int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	u, g, ok := strings.Cut(s, ":")
	if !ok {
		return 0, 0, fmt.Errorf("owner %q", s)
	}
	if uid, err = strconv.Atoi(u); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(g)
	return uid, gid, err
}
