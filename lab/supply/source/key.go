package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"path"
	"slices"
)

// builderVersion must be raised when a change of this package changes results of that kind.
func builderVersion(k Kind) int {
	switch k {
	case KindImage, KindNode:
		return 2
	}
	return 1
}

// Key returns the key of a component's result: a digest of its recipe, lab's own files in it, the keys of its
// dependencies, the architecture and the builder. Estimates are not part of it.
func (r *Recipes) Key(name string) (string, error) {
	key, ok := r.keys[name]
	if !ok {
		return "", fmt.Errorf("no recipe for %q", name)
	}
	return key, nil
}

func (r *Recipes) key(c *Component) (string, error) { return r.Key(c.Name) }

// addKeys computes all keys; dependencies come first.
func (r *Recipes) addKeys() error {
	r.keys = make(map[string]string, len(r.Components))
	for _, c := range r.Components {
		key, err := r.newKey(c)
		if err != nil {
			return fmt.Errorf("recipe %s: %w", c.Name, err)
		}
		r.keys[c.Name] = key
	}
	return nil
}

func (r *Recipes) newKey(c *Component) (string, error) {
	h := sha256.New()
	write(h, fmt.Sprintf("builder %d %s", builderVersion(c.Kind), r.arch))
	recipe, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	write(h, string(recipe))
	for _, content := range c.Contents {
		if content.File == "" {
			continue
		}
		data, err := embedded.ReadFile(path.Join("files", content.File))
		if err != nil {
			return "", err
		}
		write(h, string(data))
	}
	if c.Kind == KindPrograms && r.Go != "" {
		write(h, "go "+r.Go)
	}
	if c.Own {
		if err := writeOwn(h, c.Module); err != nil {
			return "", err
		}
	}
	if c.With != "" {
		write(h, "with "+r.keys[c.With])
	}
	needs := c.Needs()
	slices.Sort(needs)
	for _, need := range needs {
		write(h, need+" "+r.keys[need])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// write is length-prefixed, so that parts cannot run together.
func write(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:%s\n", len(s), s)
}
