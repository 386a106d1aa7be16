package appset

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// directories lists the folders that the git generator sees: with files, not hidden.
func directories(repository fs.FS) ([]string, error) {
	var list []string
	err := fs.WalkDir(repository, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.IsDir() || name == ".":
			return nil
		case strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		}
		list = append(list, name)
		return nil
	})
	return list, err
}

// files returns the files that match a pattern like `git ls-files PATTERN`: a star also matches slashes, and a folder
// its content.
func files(used *spent, repository fs.FS, pattern string) (map[string][]byte, error) {
	spec, err := cleanPathspec(pattern)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	begins := spec
	if i := strings.IndexAny(spec, `*?[\`); i >= 0 {
		begins = spec[:i]
	}
	err = fs.WalkDir(repository, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && name != "." && !strings.HasPrefix(begins, name+"/") && !strings.HasPrefix(name+"/", begins) {
			return fs.SkipDir // nothing in it matches
		}
		if err != nil || e.IsDir() || !matchPathspec(spec, name) {
			return err
		}
		found[name], err = used.file(repository, name)
		return err
	})
	return found, err
}

// errMagic is for patterns with magic: ":(glob)**/x.yaml".
var errMagic = errors.New("pathspec magic is not supported")

// cleanPathspec normalizes a pattern like Git; "" matches everything.
func cleanPathspec(pattern string) (string, error) {
	if strings.HasPrefix(pattern, ":") {
		return "", errMagic
	}
	if pattern == "" || pattern == "." || pattern == "./" {
		return "", nil
	}
	spec := path.Clean(pattern)
	if strings.HasPrefix(spec, "/") || spec == ".." || strings.HasPrefix(spec, "../") {
		return "", fmt.Errorf("%q is outside the repository", pattern)
	}
	if strings.HasSuffix(pattern, "/") && spec != "." {
		spec += "/"
	}
	if spec == "." {
		spec = ""
	}
	return spec, nil
}

func matchPathspec(spec, name string) bool {
	if spec == "" || spec == name {
		return true
	}
	if folder := strings.TrimSuffix(spec, "/"); strings.HasPrefix(name, folder+"/") {
		return true
	}
	return strings.ContainsAny(spec, `*?[\`) && wildmatch(spec, name)
}

// wildmatch is Git's without WM_PATHNAME: slashes are ordinary characters. Only the last star is tried again, as those before it need not take more.
func wildmatch(pattern, text string) bool {
	star, from, again := false, "", ""
	for pattern != "" || text != "" {
		if strings.HasPrefix(pattern, "*") {
			pattern = strings.TrimLeft(pattern, "*")
			star, from, again = true, pattern, text
			continue
		}
		if rest, ok := matchOne(pattern, text); ok {
			pattern, text = rest, text[1:]
			continue
		}
		if !star || again == "" {
			return false
		}
		again = again[1:]
		pattern, text = from, again
	}
	return true
}

// matchOne matches the first byte of text with the pattern's first part, and returns the rest of the pattern.
func matchOne(pattern, text string) (rest string, ok bool) {
	if pattern == "" || text == "" {
		return "", false
	}
	switch pattern[0] {
	case '?':
		return pattern[1:], true
	case '[':
		return bracket(pattern, text)
	case '\\':
		if len(pattern) > 1 {
			pattern = pattern[1:]
		}
	}
	return pattern[1:], pattern[0] == text[0]
}

var classes = map[string]func(c byte) bool{
	"alnum": func(c byte) bool { return isDigit(c) || isLower(c) || isUpper(c) },
	"alpha": func(c byte) bool { return isLower(c) || isUpper(c) },
	"digit": isDigit,
	"lower": isLower,
	"upper": isUpper,
	"space": func(c byte) bool { return strings.IndexByte(" \t\n\v\f\r", c) >= 0 },
	"punct": func(c byte) bool { return c > ' ' && c < 0x7f && !isDigit(c) && !isLower(c) && !isUpper(c) },
	"xdigit": func(c byte) bool {
		return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	},
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// bracket matches the first byte of text with a bracket expression and returns the rest of the pattern.
func bracket(pattern, text string) (rest string, ok bool) {
	if text == "" {
		return "", false
	}
	c, p := text[0], pattern[1:]
	negated := p != "" && (p[0] == '!' || p[0] == '^')
	if negated {
		p = p[1:]
	}
	matched := false
	for first := true; ; first = false {
		if p == "" {
			return "", false // an unterminated set matches nothing
		}
		if p[0] == ']' && !first {
			return p[1:], matched != negated
		}
		if name, after, found := strings.Cut(strings.TrimPrefix(p, "[:"), ":]"); strings.HasPrefix(p, "[:") && found {
			class := classes[name]
			if class == nil {
				return "", false
			}
			matched, p = matched || class(c), after
			continue
		}
		if p[0] == '\\' && len(p) > 1 {
			p = p[1:]
		}
		low := p[0]
		p = p[1:]
		high := low
		if len(p) > 1 && p[0] == '-' && p[1] != ']' {
			if p = p[1:]; p[0] == '\\' && len(p) > 1 {
				p = p[1:]
			}
			high, p = p[0], p[1:]
		}
		matched = matched || low <= c && c <= high
	}
}
