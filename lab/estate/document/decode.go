package document

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// reader decodes a document strictly: unknown keys and wrong types are problems.
type reader struct{ *strict.Reader }

// entry is a valid key of a mapping.
type entry struct {
	key  string
	read func(n *yaml.Node, path string)
}

func (r *reader) failAt(p lab.Position, message, cure string) {
	r.Problems = append(r.Problems, lab.Problem{Code: finding.InvalidField, Position: p, Message: message, Cure: cure})
}

// mapping reads the known keys of n and reports others. A key without a value counts as missing.
func (r *reader) mapping(n *yaml.Node, path string, entries ...entry) {
	if !r.isMapping(n, path) {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(entries, func(e entry) bool { return e.key == key.Value })
		if at < 0 {
			known := make([]string, len(entries))
			for i, e := range entries {
				known[i] = e.key
			}
			r.unknown(key, path, known)
			continue
		}
		r.read(value, strict.Join(path, key.Value), entries[at].read)
	}
}

func (r *reader) each(n *yaml.Node, path string, read func(key string, n *yaml.Node, path string)) {
	if !r.isMapping(n, path) {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		r.read(n.Content[i+1], strict.Join(path, key), func(n *yaml.Node, path string) { read(key, n, path) })
	}
}

func (r *reader) items(n *yaml.Node, path string, read func(n *yaml.Node, path string)) {
	if n.Kind != yaml.SequenceNode {
		r.Wrong(n, path, "a list")
		return
	}
	for i, c := range n.Content {
		read(c, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (r *reader) read(n *yaml.Node, path string, read func(*yaml.Node, string)) {
	if strict.IsNull(n) {
		return
	}
	r.At[path] = strict.Position(r.File, n)
	read(n, path)
}

func (r *reader) isMapping(n *yaml.Node, path string) bool {
	if n.Kind != yaml.MappingNode {
		r.Wrong(n, path, "a mapping")
		return false
	}
	return true
}

func (r *reader) unknown(key *yaml.Node, path string, known []string) {
	cure := "known: " + strings.Join(known, ", ")
	if len(known) == 0 {
		cure = "there are none, write {}"
	}
	if best := strict.Closest(key.Value, known); best != "" {
		cure = fmt.Sprintf("did you mean %q?", best)
		if _, ok := r.At[strict.Join(path, best)]; !ok {
			r.At[strict.Join(path, best)] = strict.Position(r.File, key) // present but misspelled: report it only once
		}
	}
	r.Fail(key, fmt.Sprintf("unknown key %q", key.Value), cure)
}

// into decodes a value, like the fields of other documents.
func (r *reader) into(to any) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) { r.Decode(n, to, path) }
}

// word reads an enum value.
func (r *reader) word(to *string, words ...string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		before := len(r.Problems)
		r.into(to)(n, path)
		if len(r.Problems) > before || slices.Contains(words, *to) {
			return
		}
		r.Fail(n, fmt.Sprintf("%s cannot be %q", path, *to), strict.Choose(*to, words))
		*to = ""
	}
}

// version reads a version, with or without quotes: 3.5 is a number in YAML.
func (r *reader) version(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, ok := lab.WantedVersion(n.Value)
		if n.Kind != yaml.ScalarNode || !ok {
			r.Fail(n, path+" must be a version", "a minor such as 3.5, or an exact one such as 3.5.7")
			return
		}
		*to = v
	}
}

// words reads a list of enum values, each once, in the order of the enum; none if one is wrong.
func (r *reader) words(to *[]string, words ...string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		named, before := map[string]bool{}, len(r.Problems)
		r.items(n, path, func(n *yaml.Node, path string) {
			var v string
			r.word(&v, words...)(n, path)
			named[v] = true
		})
		if len(r.Problems) > before {
			return
		}
		*to = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !named[w] })
	}
}

// registryHost is the host of a registry, with the scheme of its URL.
var registryHost = regexp.MustCompile(`^(?:(https?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?)$`)

func (r *reader) upstreams(to *[]lab.Upstream) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		r.items(n, path, func(n *yaml.Node, path string) {
			var text string
			before := len(r.Problems)
			if r.into(&text)(n, path); len(r.Problems) > before {
				return
			}
			m := registryHost.FindStringSubmatch(text)
			if m == nil {
				r.Fail(n, fmt.Sprintf("%s cannot be %q", path, lab.Brief(text)), "the host of a registry, as in ghcr.io, or its URL without a path")
				return
			}
			u := lab.Upstream{Host: m[2], URL: cmp.Or(m[1], "https") + "://" + m[2]}
			switch u.Host {
			case "docker.io", "index.docker.io", "registry-1.docker.io":
				u = lab.Upstream{Host: "docker.io", URL: "https://registry-1.docker.io"}
			}
			name, _, _ := strings.Cut(u.Host, ":")
			switch {
			case name == "registry" || name == "localhost" || strings.HasPrefix(name, "127."):
				r.Fail(n, fmt.Sprintf("%s cannot be %s: in the lab's network, that is the lab's own", path, u.Host), "the host of a registry that containers reach")
			case slices.ContainsFunc(*to, func(o lab.Upstream) bool { return o.Cache() == u.Cache() }):
				r.Fail(n, path+": a second "+u.Host, "remove it")
			default:
				*to = append(*to, u)
			}
		})
	}
}

func (r *reader) texts(to *map[string]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = map[string]string{}
		r.each(n, path, func(key string, n *yaml.Node, path string) {
			var v string
			r.into(&v)(n, path)
			(*to)[key] = v
		})
	}
}

func (r *reader) truths(to *map[string]bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*to = map[string]bool{}
		r.each(n, path, func(key string, n *yaml.Node, path string) {
			v := true // an unreadable switch counts as on, so that its dependants are checked too
			r.Decode(n, &v, path)
			(*to)[key] = v
		})
	}
}

// need reports missing paths at the mappings that should contain them.
func (r *reader) need(root *yaml.Node, paths ...string) {
	for _, p := range paths {
		if _, ok := r.At[p]; ok {
			continue
		}
		holder, keys := root, strings.Split(p, ".")
		if inner := strict.Get(root, steps(keys[:len(keys)-1])...); inner != nil && inner.Line > 0 {
			holder = inner
		}
		if inner := strict.Get(root, steps(keys)...); inner != nil && inner.Line > 0 {
			holder = inner // the key has no value
		}
		r.Fail(holder, p+" is missing", "")
	}
}

func steps(keys []string) []any {
	path := make([]any, len(keys))
	for i, k := range keys {
		path[i] = k
	}
	return path
}
