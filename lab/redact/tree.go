package redact

import (
	"encoding/base64"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// tree redacts a decoded document whose place is the key of its parent, and reports whether that changed it.
func (r *Redactor) tree(v any, key string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return r.object(v)
	case []any:
		changed := false
		for i, item := range v {
			var c bool
			if v[i], c = r.item(item, key); c {
				changed = true
			}
		}
		return v, changed
	case string:
		if sensitive.MatchString(key) && !harmless(v) {
			r.keyed(key, v)
			return Mark, v != Mark
		}
		text := r.text(v, 0)
		return text, text != v
	}
	return v, false
}

// item redacts an element of a list: a variable of an environment is redacted whatever its name.
func (r *Redactor) item(item any, list string) (any, bool) {
	environment := strings.EqualFold(list, "env")
	switch item := item.(type) {
	case string:
		if name, value, ok := strings.Cut(item, "="); ok && environment { // as docker has them
			r.variable(name, value)
			return name + "=" + masked(value), masked(value) != value
		}
	case map[string]any:
		name, _ := item["name"].(string)
		value, ok := item["value"].(string)
		if ok && (environment || sensitive.MatchString(name) && !harmless(value)) {
			r.variable(name, value)
			changed := masked(value) != value
			item["value"] = masked(value)
			_, c := r.object(item)
			return item, changed || c
		}
	}
	return r.tree(item, list)
}

// masked replaces the value of a variable.
func masked(value string) string {
	if value == "" {
		return ""
	}
	return Mark
}

func (r *Redactor) object(v map[string]any) (any, bool) {
	changed := false
	secret := v["kind"] == "Secret"
	for key, child := range v {
		values, ok := child.(map[string]any)
		switch {
		case ok && secret && (key == "data" || key == "stringData"):
			for name, value := range values {
				text, _ := value.(string)
				if plain, err := base64.StdEncoding.DecodeString(text); key == "data" && err == nil {
					text = string(plain)
				}
				r.Secret(name, text)
				values[name] = Mark
				changed = changed || value != Mark
			}
			continue
		case ok && strings.EqualFold(key, "env"): // a map of variables
			for name, value := range values {
				if text, ok := value.(string); ok {
					r.variable(name, text)
					values[name] = masked(text)
					changed = changed || masked(text) != text
				}
			}
		case ok && key == "auths": // docker's own configuration
			for _, entry := range values {
				if login, ok := entry.(map[string]any); ok {
					if text, ok := login["auth"].(string); ok && text != Mark {
						r.value(text)
						login["auth"], changed = Mark, true
					}
				}
			}
		}
		clean, c := r.tree(child, key)
		v[key], changed = clean, changed || c
	}
	return v, changed
}

// variable remembers the value of an environment variable, unless the value is of a kind that fills every log.
func (r *Redactor) variable(name, value string) {
	if sensitive.MatchString(name) {
		r.keyed(name, value)
	} else if len(value) >= 8 && !ordinary.MatchString(value) {
		r.value(value)
	}
}

// keyed remembers the value of a sensitive key. One called a secret or a token may only be the name of it.
func (r *Redactor) keyed(key, value string) {
	if !harmless(value) && len(value) >= 6 && (password.MatchString(key) || dense(value) || !ordinary.MatchString(value)) {
		r.value(value)
	}
}

var (
	// ordinary matches paths, URLs without a password, lower-case names with an optional port, lists of them, words, numbers and durations.
	ordinary = regexp.MustCompile(`^(?:/|[a-z]+://[^@]*$|[a-z0-9 ,._:/=-]*$|[A-Z]+$|[A-Z]?[a-z]+$|[0-9.]+[a-zA-Z%]*$)`)
	password = regexp.MustCompile(`(?i)passw|passphrase|pwd`)
	run      = regexp.MustCompile(`[a-z0-9]{16,}`)
)

// dense reports whether letters and digits are mixed in a long word, as in hexadecimal tokens.
func dense(v string) bool {
	word := run.FindString(v)
	return strings.ContainsAny(word, "0123456789") && strings.ContainsAny(word, "abcdefghijklmnopqrstuvwxyz")
}

// value remembers a secret by its value, and what it is in plain: a key of a kubeconfig, or docker's user and password.
func (r *Redactor) value(v string) {
	r.know(v)
	plain, err := base64.StdEncoding.DecodeString(v)
	if err != nil || !printable(plain) {
		return
	}
	r.know(string(plain))
	if _, password, ok := strings.Cut(string(plain), ":"); ok && len(password) >= 6 {
		r.know(password)
	}
}

// document redacts a text that is a JSON or YAML document, by its structure.
func (r *Redactor) document(s string) (string, bool) {
	trimmed := strings.TrimSpace(s)
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		v, ok := parse([]byte(trimmed))
		if !ok {
			return s, false
		}
		v, changed := r.tree(v, "")
		if !changed {
			return s, true
		}
		return strings.TrimSuffix(string(encode(v, "")), "\n"), true
	}
	return s, false
}

// leaves remembers the values of a document that may be secrets: whole words that look random.
func (r *Redactor) leaves(text string) {
	var v any
	if yaml.Unmarshal([]byte(text), &v) == nil {
		r.leavesOf(v)
		return
	}
	for line := range strings.Lines(text) {
		if _, value, ok := strings.Cut(line, "="); ok && random(strings.TrimSpace(value)) {
			r.know(value)
		}
	}
}

func (r *Redactor) leavesOf(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			r.leavesOf(child)
		}
	case []any:
		for _, child := range v {
			r.leavesOf(child)
		}
	case string:
		if random(v) && !strings.HasPrefix(v, "LS0tLS1CRUdJTiBDRVJU") { // a certificate in base64
			r.know(v)
		}
	}
}

// random reports whether a word looks like a secret: long enough, with letters and digits, and no ordinary value.
func random(v string) bool {
	return len(v) >= 10 && !strings.ContainsAny(v, " \n") && strings.ContainsAny(v, "0123456789") && !ordinary.MatchString(v)
}
