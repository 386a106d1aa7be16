package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/supply/gosum"
	"homelab/lab/supply/registry"
)

// change is a new version of a pin, in memory until all of it is known to be possible.
type change struct {
	command
	fs.FS
	version string
	chosen  []*Pin
	files   map[string]string // changed
	lines   []string          // for users
}

// ReadFile returns a file as it will be.
func (c *change) ReadFile(name string) ([]byte, error) {
	if text, ok := c.files[name]; ok {
		return []byte(text), nil
	}
	return fs.ReadFile(c.FS, name)
}

func (c *change) tell(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// set changes a pin in all places, or nothing.
func (c command) set(ctx context.Context, name, version string) error {
	root := os.DirFS(c.root)
	pins, err := find(root)
	if err != nil {
		return err
	}
	chosen, err := choose(pins, name)
	if err != nil {
		return err
	}
	if first := chosen[0]; first.What != Debian && !versionForm.MatchString(version) {
		problem := lab.Problem{Position: first.At[0].Position, Message: name + " is at " + first.Version, Cure: "write one like it"}
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q is not a version", version), Problems: lab.Problems{problem}}
	}
	all := &change{command: c, FS: root, version: version, chosen: chosen, files: map[string]string{}}
	for _, step := range []func(context.Context) error{all.versions, all.goMods, all.digests, all.mentions} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if _, err := find(all); err != nil {
		return err
	}
	if len(all.files) == 0 {
		all.tell("%s is at %s already", name, version)
	}
	if err := all.write(); err != nil {
		return err
	}
	all.next()
	_, err = fmt.Fprintln(c.out, strings.Join(all.lines, "\n"))
	return err
}

// choose returns the pins of NAME or NAME@VERSION, and those of the same modules at the same version. Pseudo-versions must be named.
func choose(pins []*Pin, arg string) ([]*Pin, error) {
	name, old, named := strings.Cut(arg, "@")
	var chosen, elsewhere []*Pin
	for _, p := range pins {
		switch {
		case p.Name != name:
		case named && same(p.Version, old) || !named && !isPseudo(p.Version):
			chosen = append(chosen, p)
		default:
			elsewhere = append(elsewhere, p)
		}
	}
	differ := slices.ContainsFunc(chosen, func(p *Pin) bool { return !same(p.Version, chosen[0].Version) })
	if len(chosen) == 0 || differ {
		e := &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no pin is called " + arg, Cure: "`task outdated` lists them"}
		if differ {
			e.Message, e.Cure = arg+" has several versions", "name one of them"
		}
		for _, p := range append(chosen, elsewhere...) {
			e.Problems = append(e.Problems, lab.Problem{
				Position: p.At[0].Position, Message: fmt.Sprintf("%s %s is at %s", p.What, name, p.Version), Cure: fmt.Sprintf("task pin -- %s@%s VERSION", name, p.Version),
			})
		}
		return nil, e
	}
	for _, p := range pins {
		if p.Source.Of == Module && p.Source.Name != "go" && !slices.Contains(chosen, p) &&
			slices.ContainsFunc(chosen, func(o *Pin) bool { return p.Source == o.Source && same(p.Version, o.Version) }) {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

func isGoMod(file string) bool { return path.Base(file) == "go.mod" }

func unserved(message string, err error) error {
	return &lab.Error{Exit: lab.ExitFailed, Code: "no_version", Message: message, Cure: "nothing was changed; `task outdated` lists what is served", Err: err}
}

// versions changes the versions where they stand, but for those of go.mod files.
func (c *change) versions(ctx context.Context) error {
	type edit struct {
		at   Place
		text string
	}
	var edits []edit
	for _, p := range c.chosen {
		commit := ""
		if p.What == Action && !same(p.Version, c.version) {
			commits, err := c.asker.tags(ctx, p.Name)
			if commit = commits[like(p.Version, c.version)]; err != nil || commit == "" {
				return unserved(p.Name+" has no tag "+like(p.Version, c.version), err)
			}
		}
		for _, at := range p.At {
			text := like(at.Text, c.version)
			if p.What == Action {
				text = commit + " # " + like(p.Version, c.version)
			}
			if !isGoMod(at.File) && !same(p.Version, c.version) {
				edits = append(edits, edit{at, text})
			}
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Or(strings.Compare(a.at.File, b.at.File), b.at.Offset-a.at.Offset) }) // from below
	for _, e := range slices.CompactFunc(edits, func(a, b edit) bool { return a.at == b.at }) {
		data, err := c.ReadFile(e.at.File)
		if err != nil {
			return err
		}
		c.files[e.at.File] = string(data[:e.at.Offset]) + e.text + string(data[e.at.Offset+len(e.at.Text):])
		c.tell("%s: %s -> %s", e.at.Position, e.at.Text, e.text)
	}
	return nil
}

// goMods lets the go command change go.mod files, in copies.
func (c *change) goMods(ctx context.Context) error {
	for _, p := range c.chosen {
		for _, at := range p.At {
			if isGoMod(at.File) && !same(at.Text, c.version) {
				if err := c.goGet(ctx, path.Dir(at.File), p.Name+"@"+like(at.Text, c.version)); err != nil {
					return err
				}
				c.tell("%s: %s -> %s", at.Position, at.Text, like(at.Text, c.version))
			}
		}
	}
	if c.files[frontMod] == "" {
		return nil
	}
	// The module that lab carries as source has the sums of lab's own go.sum.
	all, err := c.ReadFile("go.sum")
	own, err2 := c.ReadFile(frontSum)
	sums, now := gosum.Parse(all), gosum.Sums{}
	for of, sum := range gosum.Parse(own) {
		for _, p := range c.chosen {
			if rest, ok := strings.CutPrefix(of, p.Name+" "+p.Version); ok {
				of = p.Name + " " + like(p.Version, c.version) + rest
				sum = sums[of]
			}
		}
		now[of] = sum
	}
	c.files[frontSum] = string(now.Text())
	return errors.Join(err, err2)
}

func (c *change) goGet(ctx context.Context, dir, what string) error {
	copied, err := os.MkdirTemp("", "pins")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	names := []string{"go.mod", "go.sum"}
	for _, name := range names {
		data, err := c.ReadFile(path.Join(dir, name))
		if err = cmp.Or(err, os.WriteFile(filepath.Join(copied, name), data, 0o600)); err != nil {
			return err
		}
	}
	if _, err := goCommand(ctx, filepath.Join(c.root, dir), "get", "-modfile="+filepath.Join(copied, "go.mod"), what); err != nil {
		return unserved("go get "+what+" failed", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(copied, name))
		if err != nil {
			return err
		}
		c.files[path.Join(dir, name)] = string(data)
	}
	return nil
}

// digests replaces what pins of registries say of their content: the digest that the registry names, or that nobody looked. It also says which modules the proxy
// does not serve, as their recipes cannot be built.
func (c *change) digests(ctx context.Context) error {
	after, err := find(c)
	if err != nil {
		return err
	}
	for _, p := range after {
		was := slices.ContainsFunc(c.chosen, func(o *Pin) bool { return o.What == p.What && o.Name == p.Name && !same(o.Version, p.Version) })
		if !was || !same(bare(p.Version), like(p.Version, c.version)) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, c.asker.patience)
		defer cancel()
		var digest string
		switch {
		case p.Source.Of == Module && p.What == Recipe:
			if err := goList(ctx, &struct{}{}, p.Source.Name+"@"+like("v", p.Version)); err != nil {
				c.tell("the proxy does not serve %s %s: %s", p.Source.Name, p.Version, c.asker.reason(ctx, err))
			}
			continue
		case p.At[0].File != imagesFile:
			continue
		case p.What == Image:
			digest, err = registry.Digest(ctx, p.Source.Name+":"+p.Version)
		default:
			digest, err = registry.ChartDigest(ctx, registry.ChartPin{Name: p.Name, Version: p.Version, From: p.Source.From})
		}
		text := "digest: " + digest
		if err != nil {
			c.tell("%s %s: digest unknown: %s", p.What, p.Name, c.asker.reason(ctx, err))
			text = "unknown: not looked up"
		}
		c.files[imagesFile] = content(c.files[imagesFile], p.Name, p.Version, contentLines, text)
		if p.What == Chart {
			c.app(ctx, p)
		}
	}
	return nil
}

// app replaces what a chart installs, if its pin says so, by what its repository names.
func (c *change) app(ctx context.Context, p *Pin) {
	app, err := registry.ChartApp(ctx, registry.ChartPin{Name: p.Name, Version: p.Version, From: p.Source.From})
	line := "app: " + app
	if err != nil {
		line = ""
	}
	if text := content(c.files[imagesFile], p.Name, p.Version, appLine, line); text != c.files[imagesFile] {
		c.files[imagesFile] = text
		c.tell("%s %s: app: %s", p.What, p.Name, cmp.Or(app, "unknown"))
	}
}

var (
	contentLines = regexp.MustCompile(`(?m)^    (?:digest|unknown|platforms):.*\n(?:      .*\n)*`)
	appLine      = regexp.MustCompile(`(?m)^    app:.*\n`)
)

// content replaces some lines of the pin of a name and version by one, or by none.
func content(text, name, version string, lines *regexp.Regexp, line string) string {
	entries := regexp.MustCompile(`(?m)^  - `).Split(text, -1)
	for i, entry := range entries {
		if regexp.MustCompile(`^name: `+regexp.QuoteMeta(name)+`(-[0-9.]+)?\s`).MatchString(entry) && regexp.MustCompile(`[: ]`+regexp.QuoteMeta(version)+`\s`).MatchString(entry) {
			at := lines.FindStringIndex(entry)
			if at == nil {
				continue
			}
			if line != "" {
				line = "    " + line + "\n"
			}
			entries[i] = entry[:at[0]] + line + lines.ReplaceAllString(entry[at[0]:], "")
		}
	}
	return strings.Join(entries, "  - ")
}

// write writes all files, or restores those that it has written.
func (c *change) write() error {
	before := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		was, err := fs.ReadFile(c.FS, name)
		if err == nil {
			err = replaceFile(filepath.Join(c.root, name), c.files[name])
		}
		if err != nil {
			for name, was := range before {
				err = errors.Join(err, replaceFile(filepath.Join(c.root, name), was))
			}
			return err
		}
		before[name] = string(was)
	}
	return nil
}

// replaceFile replaces a file at once, with its permissions.
func replaceFile(file, text string) error {
	info, err := os.Stat(file)
	if err == nil {
		err = os.WriteFile(file+".new", []byte(text), info.Mode().Perm())
	}
	if err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// next tells what to run after a change.
func (c *change) next() {
	changed := func(files ...string) bool {
		return slices.ContainsFunc(files, func(f string) bool { return c.files[f] != "" })
	}
	built := changed(recipesFile, chartsFile)
	for _, step := range []struct {
		due       bool
		task, why string
	}{
		{changed("go.mod"), "go mod tidy", "go.mod names what is used"},
		{changed(".tools/go.mod"), "go mod tidy -C .tools", "likewise"},
		{built, "task sums", "sums of the modules that recipes name, from the checksum database"},
		{built && slices.ContainsFunc(c.chosen, func(p *Pin) bool { return p.Name == "argocd" }), "task record record-render", "the recordings of the real engine; .recorder and lab/render/corpus_test.go name its version"},
		{built || changed(imagesFile), "task e2e contracts", "real clusters; then docs/support.md says what was tested"},
		{len(c.files) > 0, "task lint test", "golden files: -update, then read the difference"},
	} {
		if step.due {
			c.tell("next: %-24s %s", step.task, step.why)
		}
	}
}
