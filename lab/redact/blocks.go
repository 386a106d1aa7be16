package redact

import (
	"encoding/base64"
	"regexp"
	"strings"
)

var (
	secretKind = regexp.MustCompile(`(?m)^\s*(?:-\s+)?kind:\s*["']?Secret["']?\s*$`)
	blockStart = regexp.MustCompile(`^(\s*(?:-\s+)?)(data|stringData|env|[\w.-]+):[ \t]*(.*?)\s*$`)
	entry      = regexp.MustCompile(`^(\s*(?:-\s+)?["']?[\w./-]+["']?:[ \t]*)(.*?)\s*$`)
)

// block is a part of a YAML document whose values are secrets. A text may hold documents among other lines, and be cut off, so it is read by lines.
type block struct {
	kind   string // data, stringData, env; scalar: all lines
	indent int
	name   string // of the variable
}

// blocks redacts the values of Secrets and environments, and texts of several lines under a sensitive key.
func (r *Redactor) blocks(s string) string {
	if !strings.Contains(s, ":") || !strings.Contains(s, "\n") {
		return s
	}
	lines := strings.SplitAfter(s, "\n")
	out := make([]string, 0, len(lines))
	for start := 0; start < len(lines); {
		end := start + 1
		for end < len(lines) && strings.TrimSpace(lines[end]) != "---" {
			end++
		}
		part := lines[start:end]
		out = append(out, r.yaml(part, secretKind.MatchString(strings.Join(part, "")))...)
		start = end
	}
	return strings.Join(out, "")
}

func (r *Redactor) yaml(lines []string, secret bool) []string {
	var out []string
	var in *block
	for _, line := range lines {
		text := strings.TrimRight(line, "\r\n")
		indent := len(text) - len(strings.TrimLeft(text, " "))
		blank := strings.TrimSpace(text) == ""
		if in != nil && !blank && (indent < in.indent || indent == in.indent && (in.kind != "env" || !strings.HasPrefix(text[indent:], "-"))) {
			in = nil
		}
		switch {
		case blank:
		case in != nil:
			text = r.within(in, text)
		default:
			text, in = r.opens(text, secret)
		}
		out = append(out, text+line[len(strings.TrimRight(line, "\r\n")):])
	}
	return out
}

// opens returns the block that a line begins, and the line, whose own value may be all of it.
func (r *Redactor) opens(text string, secret bool) (string, *block) {
	if !strings.HasSuffix(strings.TrimRight(text, " "), ":") && !strings.Contains(text, ": |") && !strings.Contains(text, ": >") && !strings.Contains(text, "ata: ") && !strings.Contains(text, "env: ") {
		return text, nil
	}
	m := blockStart.FindStringSubmatch(text)
	if m == nil {
		return text, nil
	}
	kind, value, indent := m[2], m[3], len(m[1])
	switch {
	case (kind == "data" || kind == "stringData") && secret, kind == "env":
		switch {
		case value == "":
			return text, &block{kind: kind, indent: indent}
		case strings.HasPrefix(value, "{") || strings.HasPrefix(value, "["):
			if !harmless(value) {
				r.leaves(value)
				text = strings.TrimSuffix(text, value) + Mark
			}
		}
	case sensitive.MatchString(kind) && (strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">")):
		return text, &block{kind: "scalar", indent: indent}
	}
	return text, nil
}

// within redacts a line of a block.
func (r *Redactor) within(in *block, text string) string {
	m := entry.FindStringSubmatch(text)
	pad := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if m == nil || in.kind == "scalar" {
		if word := strings.TrimSpace(text); in.kind != "env" || !strings.HasPrefix(word, "-") {
			if random(word) {
				r.know(word)
			}
			return pad + Mark
		}
		return text
	}
	key := strings.Trim(strings.TrimLeft(strings.TrimSpace(m[1]), "- "), `"':`)
	value := strings.Trim(m[2], `"'`)
	if in.kind == "env" {
		switch key {
		case "name":
			in.name = value
			return text
		case "value":
			if value == "" {
				return text
			}
			r.variable(in.name, value)
			return m[1] + Mark
		case "valueFrom", "secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef", "key", "optional", "fieldPath", "apiVersion", "resource", "divisor", "containerName":
			return text
		}
		if value == "" {
			return text
		}
		r.variable(key, value) // a map, or a further line of a value
		return m[1] + Mark
	}
	if harmless(value) {
		return text
	}
	if plain, err := base64.StdEncoding.DecodeString(value); in.kind == "data" && err == nil {
		value = string(plain)
	}
	r.Secret(key, value)
	return m[1] + Mark
}
