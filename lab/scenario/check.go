package scenario

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"homelab/lab/fieldpath"
)

// Checker takes what an action finds wrong with itself.
type Checker struct {
	loader *loader
	path   string
	total  int // bytes of files
}

// Fail notes a problem at a field of the action; "" is the action itself.
func (c *Checker) Fail(field, message, cure string) {
	c.loader.reader.FailAt(c.at(field), message, cure)
}

func (c *Checker) at(field string) string {
	if field == "" {
		return c.path
	}
	return c.path + "." + field
}

// Has reports whether a field was written.
func (c *Checker) Has(field string) bool {
	_, ok := c.loader.reader.At[c.at(field)]
	return ok
}

// Step checks that an earlier step has an id.
func (c *Checker) Step(field, id string) {
	if id != "" && !c.loader.ids[id] {
		c.Fail(field, fmt.Sprintf("no earlier step has the id %q", id), "")
	}
}

// FieldPath checks a path into an object.
func (c *Checker) FieldPath(field, text string) {
	if strings.Contains(text, "${") {
		return // known when it is played
	}
	if _, err := fieldpath.Parse(text); err != nil {
		c.Fail(field, err.Error(), "")
	}
}

const maxFiles = 8 << 20 // bytes of all files that a step brings

// Local checks that a file lies beside the scenario.
func (c *Checker) Local(field, name string) {
	data, err := Local(c.loader.files, name)
	if err != nil {
		c.Fail(field, err.Error(), "a file beside the scenario, named from its folder")
		return
	}
	if c.total += len(data); c.total > maxFiles {
		c.Fail(field, fmt.Sprintf("the files of this step are larger than %d bytes together", maxFiles), "")
	}
}

// InEstate checks that a path names a file within the estate.
func (c *Checker) InEstate(field, name string) {
	if err := InEstate(name); err != nil {
		c.Fail(field, err.Error(), "a path from the root of the estate")
	}
}

// Local reads a file that lies beside a scenario.
func Local(files fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
		return nil, fmt.Errorf("%q leaves the scenario's folder", name)
	}
	data, err := readRegular(files, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// InEstate says why a path is none of a file in the estate.
func InEstate(name string) error {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00"):
		return fmt.Errorf("%q leaves the estate", name)
	case len(name) > 512:
		return fmt.Errorf("a path of %d characters", len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return fmt.Errorf("%q is Git's own", path.Clean(name))
		}
	}
	return nil
}
