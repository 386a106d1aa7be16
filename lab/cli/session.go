package cli

import (
	"cmp"
	"context"
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
}

// estateFiles is where the files of an estate are.
type estateFiles struct {
	dir  string // empty for the embedded estate
	fsys fs.FS
	name string
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
		return nil, err
	}
	// away from any estate, a lab that is up is about the estate that it came from
	if src.dir == "" && s.record.Estate != "" {
		if _, err := os.Stat(s.record.Estate); err == nil {
			if s.estate, err = onDisk(s.record.Estate); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// command is a command line about this lab, as a person would type it here.
func (s *session) command(line string) string {
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

// toEdit is a file of the estate as a person would name it here.
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

// source finds the estate: the folder asked for, else the nearest one around the working folder, else the embedded one.
func (p *program) source(dir string) (estateFiles, error) {
	if dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return estateFiles{}, err
		}
		if fi, err := os.Stat(abs); err != nil || !fi.IsDir() {
			return estateFiles{}, &lab.Error{
				Exit: lab.ExitInvalid, Code: "invalid_estate", Message: "the estate " + dir + " is no folder that can be read",
				Cure: "lab init " + dir + " makes one", Err: err,
			}
		}
		return onDisk(abs)
	}
	wd, err := os.Getwd()
	if err != nil {
		return estateFiles{}, fmt.Errorf("working folder: %w", err)
	}
	for at := wd; ; at = filepath.Dir(at) {
		if fi, err := os.Stat(filepath.Join(at, lab.ClustersDir)); err == nil && fi.IsDir() {
			return onDisk(at)
		}
		// a repository's root is as far as an estate reaches
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil || filepath.Dir(at) == at {
			return estateFiles{fsys: p.Estate, name: "homelab"}, nil
		}
	}
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
	// as a person reads them: the hub, then the spokes in the order of promotion
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
