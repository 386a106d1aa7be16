package render

import (
	"sync"

	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"homelab/lab/strict"
)

// Kustomize cannot be stopped, and has no limits of its own: what it would do is estimated from its inputs, before it starts.

// limitCopies sets the limit of the library that applies patches, which is a variable of it: a patch may copy what it copied.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = maxOutput })

// maxReplaced limits the bytes that replacements may write.
const maxReplaced = 1 << 30

// load is what a kustomization handles: its own files and those of its bases, each as often as it is included.
type load struct {
	weight
	changes int // patches, images, labels and so on
	paths   int // of replacements
}

func (l load) plus(w weight) load {
	l.bytes, l.objects, l.longest = l.bytes+w.bytes, l.objects+w.objects, max(l.longest, w.longest)
	return l
}

// include adds a file to the open kustomization.
func (s *scanner) include(name string) error {
	if s.enter != nil {
		return nil
	}
	if s.known == nil {
		s.known = map[string]weight{}
	}
	w, known := s.known[name]
	if !known {
		if name = within(name); !isFile(s.FS, name) {
			return nil // kustomize reports it
		}
		data, err := s.ReadFile(name)
		if err == nil {
			w, err = weigh(data)
		}
		if err != nil {
			return failed(name, err)
		}
		s.known[name] = w
	}
	s.load = s.load.plus(w)
	return nil
}

// spend spends the steps of the open kustomization: each change visits each object, and each object is compared with the others for references.
func (s *scanner) spend() error {
	l := s.load
	if l.paths > 0 && l.objects > 0 && l.longest > maxReplaced/l.paths/l.objects {
		return over("replacements may write more than %d MiB", maxReplaced>>20)
	}
	const parsed, each, changed, compared = 8, 20, 20, 10
	return s.budget.step(l.bytes/parsed + l.objects*(each+changed*l.changes) + l.objects*l.objects/compared)
}

// weight is what a file adds to a kustomization.
type weight struct {
	bytes, objects int
	longest        int // bytes of a value
}

// weigh parses the manifests of a file, whose aliases kustomize expands without a limit.
func weigh(data []byte) (w weight, err error) {
	if err := values(data); err != nil {
		return w, err
	}
	w.bytes = len(data)
	docs, err := strict.Nodes(data)
	if err != nil {
		return w, nil //nolint:nilerr // kustomize reports the error
	}
	sizes := map[*yaml.Node]int{}
	expanded := 0
	for _, doc := range docs {
		w.objects += len(strict.Items(doc))
		n, err := expandedSize(doc, sizes, &w.longest, 0)
		if err != nil {
			return w, err
		}
		if expanded += n; expanded > maxOutput {
			return w, over("its aliases expand to more than %d MiB", maxOutput>>20)
		}
	}
	w.bytes = max(w.bytes, expanded)
	return w, nil
}

// expandedSize returns the bytes of a node with aliases expanded.
func expandedSize(n *yaml.Node, sizes map[*yaml.Node]int, longest *int, depth int) (int, error) {
	if n.Kind == yaml.AliasNode {
		size, known := sizes[n.Alias]
		if !known {
			return 0, over("an anchor contains itself")
		}
		return size, nil
	}
	if depth > strict.MaxDepth*maxDepth {
		return 0, over("nested deeper than %d", strict.MaxDepth*maxDepth)
	}
	*longest = max(*longest, len(n.Value))
	size := len(n.Value) + 1
	for _, c := range n.Content {
		more, err := expandedSize(c, sizes, longest, depth+1)
		if err != nil {
			return 0, err
		}
		size = min(size+more, 2*maxOutput) // does not overflow
	}
	if n.Anchor != "" {
		sizes[n] = size
	}
	return size, nil
}
