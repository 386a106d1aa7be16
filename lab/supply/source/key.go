package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"path"
	"runtime"
	"slices"
)

// builderVersion changes with everything in this package that changes what a recipe of that kind gives.
func builderVersion(k Kind) int {
	switch k {
	case KindImage, KindNode:
		return 2
	}
	return 1
}

// Key returns the key of a component's result: a digest of its recipe, of lab's own files and source in it, of the keys of all it is made from, of the
// processor's architecture and of the builder. Estimates are not part of it.
func (r *Recipes) Key(name string) (string, error) {
	key, ok := r.keys[name]
	if !ok {
		return "", fmt.Errorf("no recipe for %q", name)
	}
	return key, nil
}

func (r *Recipes) key(c *Component) (string, error) { return r.Key(c.Name) }

// addKeys computes the key of every component; what one needs stands above it.
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
	write(h, fmt.Sprintf("builder %d %s", builderVersion(c.Kind), runtime.GOARCH))
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

// write puts the length first, so that two parts never read as one.
func write(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:%s\n", len(s), s)
}
