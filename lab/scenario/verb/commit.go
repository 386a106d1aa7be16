package verb

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
	"homelab/lab/scenario/seal"
	"homelab/lab/yamledit"
)

type commit struct {
	changes `yaml:",inline"`
	Message string                    `yaml:"message" need:"true" doc:"commit message"`
	Author  string                    `yaml:"author" doc:"default 'a developer'"`
	Branch  string                    `yaml:"branch" doc:"default main, which engines follow; another is created from it"`
	To      string                    `yaml:"repository" doc:"that the story has created; default the estate's; its own account commits, and paths are those in it"`
	As      string                    `yaml:"as" doc:"repository that the story has created, whose account tries it"`
	Files   map[string]string         `yaml:"files" doc:"path in the estate -> file in the scenario's folder"`
	Copy    map[string]string         `yaml:"copy" doc:"path in the estate -> path of the file that it becomes a copy of"`
	From    string                    `yaml:"from" doc:"branch that copy reads; default the one that is committed to"`
	Remove  []string                  `yaml:"remove" doc:"paths in the estate"`
	Restore []string                  `yaml:"restore" doc:"paths in the estate to restore after earlier steps"`
	Set     map[string]map[string]any `yaml:"set" doc:"path in the estate -> path in that YAML file -> value; keeps comments and layout; applied after files"`

	Encrypt map[string]string `yaml:"encrypt" doc:"path in the estate -> recipient, the public key of age-key; data and stringData are encrypted as SOPS does, after set"`

	Checked  bool `yaml:"check" doc:"lab reads the estate with the commit first, and refuses it if that is invalid"`
	Generate bool `yaml:"generate" doc:"also commit the files that lab generate writes for Flux"`
}

func (m *commit) Check(c *scenario.Checker) {
	if len(m.Files)+len(m.Copy)+len(m.Remove)+len(m.Restore)+len(m.Set) == 0 {
		c.Fail("", "empty commit", "add files, copy, set, remove or restore")
	}
	if m.To != "" && (len(m.Copy)+len(m.Restore) > 0 || m.As+m.Branch != "" || m.Checked || m.Generate) {
		c.Fail("repository", "repository takes only files, set, encrypt and remove", "remove the others")
	}
	c.Created("repository", m.To)
	c.Created("as", m.As)
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		c.InEstate("files."+name, name)
		c.Local("files."+name, m.Files[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Copy)) {
		c.InEstate("copy."+name, name)
		c.InEstate("copy."+name, m.Copy[name])
	}
	if m.From != "" && len(m.Copy) == 0 {
		c.Fail("from", "from without copy", "remove it")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Encrypt)) {
		_, set := m.Set[name]
		if _, written := m.Files[name]; !written && !set {
			c.Fail("encrypt."+name, "not a file of this commit", "add it to files or set")
		}
	}
	for i, name := range m.Remove {
		c.InEstate(fmt.Sprintf("remove[%d]", i), name)
	}
	for i, name := range m.Restore {
		c.InEstate(fmt.Sprintf("restore[%d]", i), name)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Set)) {
		c.InEstate("set."+name, name)
		for _, at := range slices.Sorted(maps.Keys(m.Set[name])) {
			c.FieldPath("set."+name+"."+at, at)
		}
	}
	for key, name := range map[string]string{"branch": m.Branch, "from": m.From} {
		if name != "" && !branchName(name) {
			c.Fail(key, fmt.Sprintf("invalid branch name %q", name), "a-z, 0-9, - and /")
		}
	}
}

// branchName is stricter than Git.
func branchName(s string) bool {
	if len(s) > 100 || strings.HasPrefix(s, "-") || !fs.ValidPath(s) || strings.HasSuffix(s, ".lock") || strings.Contains(s, "..") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./${}") == ""
}

// Alone returns why it is not played beside other stories.
func (*commit) Alone() string { return "commits to Git" }

func (m *commit) Do(ctx context.Context, c *scenario.Call) error {
	change := scenario.Change{
		Branch: cmp.Or(m.Branch, scenario.Branch), Author: cmp.Or(m.Author, "a developer"), Message: m.Message, Files: map[string]*scenario.File{},
	}
	for name, local := range m.Files {
		data, err := scenario.Local(c.Files, local)
		if err != nil {
			return err
		}
		change.Files[name] = &scenario.File{Content: data}
	}
	if err := m.copies(ctx, c, change.Files); err != nil {
		return err
	}
	for _, name := range m.Remove {
		change.Files[name] = nil
	}
	for _, name := range m.Restore {
		file, err := c.Found(change.Branch, name)
		if err != nil {
			return err
		}
		change.Files[name] = file
	}
	if len(m.Set)+len(m.Encrypt) > 0 || m.Generate || m.Checked {
		tree, err := m.tree(ctx, c, change.Branch)
		if err != nil {
			return err
		}
		if err := m.edit(tree, change.Files); err != nil {
			return err
		}
		if err := m.encrypt(change.Files); err != nil {
			return err
		}
		if m.Generate {
			if err := generate(tree.FS, c, change.Files); err != nil {
				return err
			}
		}
		if m.Checked {
			if err := checked(tree.FS, c, change.Files); err != nil {
				return err
			}
		}
	}
	hash, err := m.made(ctx, c, change)
	if err != nil {
		return err
	}
	c.Did("%s on %s: %s", hash[:min(7, len(hash))], strings.TrimPrefix(m.To+"/"+change.Branch, "/"), strings.Join(slices.Sorted(maps.Keys(change.Files)), ", "))
	return nil
}

// made makes the commit.
func (m *commit) made(ctx context.Context, c *scenario.Call, change scenario.Change) (string, error) {
	if m.To+m.As == "" {
		return c.Commit(ctx, change)
	}
	r, err := created(c, cmp.Or(m.To, m.As))
	if err != nil {
		return "", err
	}
	if m.As != "" {
		return c.CommitBy(ctx, r.Estate, change)
	}
	hash, err := r.Forge.Commit(ctx, change)
	if err == nil {
		err = c.Set("commit", hash)
	}
	return hash, err
}

// tree returns the files that the commit changes.
func (m *commit) tree(ctx context.Context, c *scenario.Call, branch string) (scenario.Tree, error) {
	if m.To == "" {
		return branchOf(ctx, c, branch)
	}
	r, err := created(c, m.To)
	if err != nil {
		return scenario.Tree{}, err
	}
	return r.Forge.Tree(ctx, branch)
}

// copies adds the copied files.
func (m *commit) copies(ctx context.Context, c *scenario.Call, files map[string]*scenario.File) error {
	if len(m.Copy) == 0 {
		return nil
	}
	tree, err := branchOf(ctx, c, cmp.Or(m.From, m.Branch, scenario.Branch))
	if err != nil {
		return err
	}
	for name, from := range m.Copy {
		data, err := fs.ReadFile(tree.FS, from)
		if err != nil {
			return fmt.Errorf("%s: not in the forge: %w", from, err)
		}
		files[name] = &scenario.File{Content: data}
	}
	return nil
}

// branchOf returns a branch, or the one that a new branch starts from.
func branchOf(ctx context.Context, c *scenario.Call, branch string) (scenario.Tree, error) {
	known, err := c.Branches.Branches(ctx)
	if err != nil {
		return scenario.Tree{}, err
	}
	if _, there := known[branch]; !there {
		branch = scenario.Branch
	}
	return c.Forge.Tree(ctx, branch)
}

// encrypt encrypts Secrets of the commit.
func (m *commit) encrypt(files map[string]*scenario.File) error {
	for name, recipient := range m.Encrypt {
		data, err := seal.File(name, files[name].Content, recipient, time.Now())
		if err != nil {
			return err
		}
		files[name] = &scenario.File{Content: data}
	}
	return nil
}

// edit sets values in files of the commit or the forge.
func (m *commit) edit(tree scenario.Tree, files map[string]*scenario.File) error {
	for name, values := range m.Set {
		if err := scenario.InEstate(name); err != nil {
			return err
		}
		var data []byte
		if file := files[name]; file != nil {
			data = file.Content
		} else if read, err := fs.ReadFile(tree.FS, name); err == nil {
			data = read
		} else {
			return fmt.Errorf("%s: not in the forge: %w", name, err)
		}
		for _, text := range slices.Sorted(maps.Keys(values)) {
			at, err := fieldpath.Parse(text)
			if err != nil {
				return err
			}
			if data, err = yamledit.Set(data, at, values[text]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files[name] = &scenario.File{Content: data}
	}
	return nil
}
