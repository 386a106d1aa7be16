package scenario

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"homelab/lab/fieldpath"
)

// Checker collects the problems of an action.
type Checker struct {
	loader *loader
	path   string
	total  int // bytes of files so far
}

// Fail reports a problem at a field; "" is the action itself.
func (c *Checker) Fail(field, message, cure string) {
	c.loader.reader.FailAt(c.at(field), message, cure)
}

func (c *Checker) at(field string) string {
	if field == "" {
		return c.path
	}
	return c.path + "." + field
}

// Has reports whether a field is set in the file.
func (c *Checker) Has(field string) bool {
	_, ok := c.loader.reader.At[c.at(field)]
	return ok
}

// Step checks that id is the id of an earlier step.
func (c *Checker) Step(field, id string) {
	if id != "" && !c.loader.ids[id] {
		c.Fail(field, fmt.Sprintf("no earlier step has id %q", id), "")
	}
}

// Creates announces a repository to later steps.
func (c *Checker) Creates(repository string) { c.loader.made[repository] = true }

// Created checks that an earlier step creates a repository.
func (c *Checker) Created(field, repository string) {
	if repository != "" && !strings.Contains(repository, "${") && !c.loader.made[repository] {
		c.Fail(field, "no earlier step creates repository "+repository, "add one, repository: {name: "+repository+", url: VARIABLE}")
	}
}

// FieldPath checks a path into an object.
func (c *Checker) FieldPath(field, text string) {
	if strings.Contains(text, "${") {
		return // known at run time
	}
	if _, err := fieldpath.Parse(text); err != nil {
		c.Fail(field, err.Error(), "")
	}
}

const maxFiles = 8 << 20 // bytes of all files of a step

// Local checks that name is a file in the scenario's folder.
func (c *Checker) Local(field, name string) {
	data, err := Local(c.loader.files, name)
	if err != nil {
		c.Fail(field, err.Error(), "a file in the scenario's folder")
		return
	}
	if c.total += len(data); c.total > maxFiles {
		c.Fail(field, fmt.Sprintf("the files of this step are larger than %d bytes together", maxFiles), "")
	}
}

// InEstate checks that name is a path within the estate.
func (c *Checker) InEstate(field, name string) {
	if err := InEstate(name); err != nil {
		c.Fail(field, err.Error(), "a path from the root of the estate")
	}
}

// Local reads a file from the scenario's folder.
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

// InEstate returns an error if name cannot be a file of the estate.
func InEstate(name string) error {
	switch {
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00"):
		return fmt.Errorf("%q leaves the estate", name)
	case len(name) > 512:
		return fmt.Errorf("path of %d characters is too long", len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return fmt.Errorf("%q is reserved by Git", path.Clean(name))
		}
	}
	return nil
}
