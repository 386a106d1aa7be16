package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/bundle"
	"homelab/lab/estate"
	"homelab/lab/state"
)

// Flags that many commands share.
var (
	nameFlag   = &cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the lab (default: the estate's folder)", EnvVars: []string{"LAB_NAME"}}
	estateFlag = &cli.StringFlag{Name: "estate", Aliases: []string{"C"}, Usage: "`DIR` of the estate (default: the folder that this is in, else the one built in)", EnvVars: []string{"LAB_ESTATE"}}
	outputFlag = &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT` of the output: text or json", Value: "text"}
)

// session is one lab, as a command sees it.
type session struct {
	*program
	name   string
	dir    *state.Dir
	record state.Record
	estate estateFiles
	supply *bundle.Supply // where a command needs images
	here   string         // lab that a command is about here when nothing names another
	named  string         // folder of the estate, where the command line names it

	doubt   string       // why the estate is not taken for what the working folder is about; empty where there is no doubt
	builtin bool         // the built-in estate was asked for where it would not be taken by itself
	garbled error        // the lab's record is there and cannot be read
	leftOut lab.Problems // what the estate needs and cannot be had here
}

// estateFiles is where the files of an estate are.
type estateFiles struct {
	dir    string // empty for the embedded estate
	fsys   fs.FS
	name   string
	nobody string // why the embedded estate may not be taken without --builtin; empty where it may, or is not what this is
}

// open finds the lab and the estate that a command is about. It reads, and makes nothing.
func (p *program) open(c *cli.Context) (*session, error) {
	if err := p.output(c); err != nil {
		return nil, err
	}
	src, err := p.source(c.String("estate"))
	if err != nil {
		return nil, err
	}
	s := &session{program: p, name: c.String("name"), estate: src, here: cmp.Or(p.Getenv("LAB_NAME"), src.name)}
	if dir := c.String("estate"); dir != p.Getenv("LAB_ESTATE") {
		s.named = dir
		if around, err := p.source(p.Getenv("LAB_ESTATE")); err == nil {
			s.here = cmp.Or(p.Getenv("LAB_NAME"), around.name)
		}
	}
	if s.name == "" {
		s.name = src.name
	}
	if err := validName(s.name); err != nil {
		return nil, err
	}
	if s.dir, err = state.Open(s.name); err != nil {
		return nil, err
	}
	if s.record, err = s.dir.Load(); err != nil {
		if !garbled(err) {
			return nil, err
		}
		s.garbled = err
	}
	return s, s.origin(c)
}

// origin settles which estate a lab is about where the working folder has none: one that is up is about the estate that it came from.
func (s *session) origin(c *cli.Context) error {
	s.doubt = s.estate.nobody
	if c.Bool("builtin") {
		if c.String("estate") != "" {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "both --builtin and an estate's folder", Cure: "one of them"}
		}
		s.estate, s.builtin, s.doubt = estateFiles{fsys: s.Estate, name: builtinName}, s.doubt != "", ""
		return nil
	}
	if s.estate.dir != "" || !s.dir.Exists() {
		return nil
	}
	switch from := s.record.Estate; {
	case from == "":
	case !isEstate(from):
		s.doubt = fmt.Sprintf("lab %s was made from %s, which has no folder %s", s.name, from, lab.ClustersDir)
		return nil
	default:
		var err error
		if s.estate, err = onDisk(from); err != nil {
			return err
		}
	}
	if c.String("name") != "" {
		s.doubt = ""
	}
	return nil
}

// garbled reports whether a state file is there and is no valid document.
func garbled(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == state.CodeGarbled
}

// hasEstate refuses to take another estate for that of a folder which has none.
func (s *session) hasEstate() error {
	if s.doubt == "" {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "no_estate", Message: s.doubt, Details: []string{"nothing was touched"},
		Cure: "lab init DIR writes one to a folder, -C DIR names one, lab up --builtin takes the built-in one",
	}
}

// ours refuses to let a lab follow another estate than the one that it was made from. The built-in estate may go on in a folder, as lab init writes it.
func (s *session) ours() error {
	if err := s.hasEstate(); err != nil {
		return err
	}
	if !s.dir.Exists() || s.record.Estate == "" || sameFolder(s.record.Estate, s.estate.dir) {
		return nil
	}
	here := s.estate.dir
	if here == "" {
		here = "the built-in estate"
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "other_estate", Message: "lab " + s.name + " was made from another estate, nothing was touched",
		Details: []string{"it was made from  " + s.record.Estate, "this is           " + here},
		Cure:    "another lab: --name NAME; or, where the estate has moved: " + s.onEstate("lab up --adopt"),
	}
}

func sameFolder(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// command is a command line about this lab, as a user would type it here.
func (s *session) command(line string) string {
	if s.builtin && strings.HasPrefix(line, "lab up") {
		line += " --builtin"
	}
	if s.name == s.here {
		return line
	}
	return line + " --name " + s.name
}

// onEstate is one that also is about the estate.
func (s *session) onEstate(line string) string {
	if s.named == "" {
		return s.command(line)
	}
	line += " -C " + s.named
	if s.name != cmp.Or(s.Getenv("LAB_NAME"), s.estate.name) {
		line += " --name " + s.name
	}
	return line
}

// toEdit is a file of the estate as a user would name it here.
func (s *session) toEdit(file string) string {
	file = filepath.Join(s.estate.dir, filepath.FromSlash(file))
	wd, err := os.Getwd()
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(wd, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

// existing is open for a command that needs a lab that was brought up.
func (p *program) existing(c *cli.Context) (*session, error) {
	s, err := p.open(c)
	if err != nil {
		return nil, err
	}
	if s.garbled != nil {
		return nil, s.garbled
	}
	if s.dir.Exists() {
		return s, nil
	}
	e := &lab.Error{Exit: lab.ExitFailed, Code: "no_lab", Message: fmt.Sprintf("there is no lab %q", s.name), Cure: "lab up makes it"}
	if others, err := state.List(); err == nil && len(others) > 0 {
		e.Cure += "; there are: " + strings.Join(others, ", ") + " (--name)"
	}
	return nil, e
}

// output sets how results are written.
func (p *program) output(c *cli.Context) error {
	if err := oneOf(c, "output", "text", "json"); err != nil {
		return err
	}
	p.screen(c.String("output") == "json")
	return nil
}

// builtinName is the name of a lab of the built-in estate.
const builtinName = "homelab"

// source finds the estate: the folder asked for, else the nearest one around the working folder, else the embedded one. Within a Git repository, or in a folder
// that holds something else, the embedded one is not what anyone meant: that is noted, for commands that would build it.
func (p *program) source(dir string) (estateFiles, error) {
	if dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return estateFiles{}, err
		}
		none := estateFiles{fsys: p.Estate, name: estate.DefaultName(abs)}
		switch fi, err := os.Stat(abs); {
		case err != nil || !fi.IsDir():
			none.nobody = "the estate " + dir + " is no folder that can be read"
			return none, nil
		case !isEstate(abs):
			none.nobody = "no estate in " + dir + ": it has no folder " + lab.ClustersDir
			return none, nil
		}
		return onDisk(abs)
	}
	wd, err := os.Getwd()
	if err != nil {
		return estateFiles{}, fmt.Errorf("working folder: %w", err)
	}
	for at := wd; ; at = filepath.Dir(at) {
		if isEstate(at) {
			return onDisk(at)
		}
		builtin := estateFiles{fsys: p.Estate, name: builtinName}
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil { // a repository's root is as far as an estate reaches
			builtin.nobody = "no estate in " + at + ": it has no folder " + lab.ClustersDir
			return builtin, nil
		}
		if filepath.Dir(at) == at {
			if !vacant(wd) {
				builtin.nobody = "no estate in " + wd + ": it has no folder " + lab.ClustersDir
			}
			return builtin, nil
		}
	}
}

func isEstate(dir string) bool {
	fi, err := os.Stat(filepath.Join(dir, lab.ClustersDir))
	return err == nil && fi.IsDir()
}

// vacant reports whether nobody would look for an estate in a folder: it is empty, or somebody's home.
func vacant(dir string) bool {
	if home, err := os.UserHomeDir(); err == nil && sameFolder(dir, home) {
		return true
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// onDisk is an estate in a folder; links that lead out of it are not followed.
func onDisk(dir string) (estateFiles, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return estateFiles{}, fmt.Errorf("estate: %w", err)
	}
	return estateFiles{dir: dir, fsys: root.FS(), name: estate.DefaultName(dir)}, nil
}

// load reads and checks the estate.
func (s *session) load(options ...estate.Option) (*lab.Estate, error) {
	if s.estate.dir == "" && !s.dir.Exists() || s.record.Estate != "" && s.estate.dir == "" && !s.builtin {
		if err := s.hasEstate(); err != nil {
			return nil, err
		}
	}
	est, err := estate.Load(s.estate.fsys, s.estate.dir, s.name, options...)
	if err != nil {
		return nil, err
	}
	order := func(c lab.Cluster) int {
		if c.Role == lab.RoleHub {
			return -1
		}
		env, _ := est.Environment(c.Environment)
		return env.Order
	}
	// as a user reads them: the hub, then the spokes in the order of promotion
	slices.SortStableFunc(est.Clusters, func(a, b lab.Cluster) int { return cmp.Compare(order(a), order(b)) })
	return est, nil
}

const maxName = 30 // a node's container name is <lab>-<cluster>-control-plane, and a host name has 63 characters

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func validName(name string) error {
	if len(name) <= maxName && nameForm.MatchString(name) {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be the name of a lab", name),
		Cure: fmt.Sprintf("use at most %d of a-z, 0-9 and -, starting and ending with a letter or digit (--name)", maxName),
	}
}

// locked runs do while no other command changes this lab.
func (s *session) locked(ctx context.Context, do func(context.Context) error) error {
	unlock, err := s.dir.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return do(ctx)
}

// cacheDir is where images are kept; empty where there is no home for them.
func (s *session) cacheDir() string {
	dir, err := state.CacheRoot()
	if err != nil {
		return ""
	}
	return dir
}
