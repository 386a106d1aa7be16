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

// builderVersion changes with everything in this package that changes what a recipe gives.
const builderVersion = 1

// Key returns the key of a component's result: a digest of its recipe, of lab's own files in it, of the keys of all it is made from, of the
// processor's architecture and of the builder. Estimates are not part of it.
func (r *Recipes) Key(name string) (string, error) {
	i := r.index(name)
	if i < 0 {
		return "", fmt.Errorf("no recipe for %q", name)
	}
	return r.key(r.Components[i])
}

func (r *Recipes) key(c *Component) (string, error) {
	h := sha256.New()
	write(h, fmt.Sprintf("builder %d %s", builderVersion, runtime.GOARCH))
	recipe, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("recipe %s: %w", c.Name, err)
	}
	write(h, string(recipe))
	for _, content := range c.Contents {
		if content.File == "" {
			continue
		}
		data, err := embedded.ReadFile(path.Join("files", content.File))
		if err != nil {
			return "", fmt.Errorf("recipe %s: %w", c.Name, err)
		}
		write(h, string(data))
	}
	needs := c.Needs()
	slices.Sort(needs)
	for _, need := range needs {
		key, err := r.Key(need)
		if err != nil {
			return "", err
		}
		write(h, need+" "+key)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// write puts the length first, so that two parts never read as one.
func write(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:%s\n", len(s), s)
}
