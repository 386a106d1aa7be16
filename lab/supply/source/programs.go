package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"

	"homelab/lab/supply/gosum"
	"homelab/lab/supply/store"
)

// run runs a program and returns its stdout; stderr becomes part of the error. When ctx ends, the program and its
// children are interrupted.
func run(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, error) {
	out, _, err := measured(ctx, dir, env, program, args...)
	return out, err
}

// measured is like run, and also returns the CPU time of the program and its children.
func measured(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second
	group(cmd)
	err := cmd.Run()
	var cpu time.Duration
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, cpu, ctx.Err()
		}
		return stdout.Bytes(), cpu, fmt.Errorf("%s %s: %w: %s", path.Base(program), args[0], err, tail(stderr.String()))
	}
	return stdout.Bytes(), cpu, nil
}

// tail returns the last lines of a failed program's output, without the go command's download messages.
func tail(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// programs compiles the component's programs into dir.
func (b *Builder) programs(ctx context.Context, c *Component, dir string, say func(string)) (store.Meta, error) {
	work, err := store.WorkDir(dir)
	if err != nil {
		return store.Meta{}, err
	}
	defer func() { _ = os.RemoveAll(work) }()

	env, err := b.sums.Env(ctx)
	if err != nil {
		return store.Meta{}, err
	}
	src := work
	prepare := func() error {
		say("downloading " + c.Name)
		if src, err = b.sums.Download(ctx, c.at()); err != nil {
			return err
		}
		return b.prepare(ctx, c, src, work, env)
	}
	if c.Own {
		err = copyOwn(c.Module, work)
	} else {
		err = b.downloads.do(ctx, b.recipes.index(c.Name), prepare)
	}
	if err != nil {
		return store.Meta{}, err
	}
	var took, cpu time.Duration
	compile := func() (err error) {
		say("compiling " + c.Name)
		start := time.Now()
		defer func() { took = time.Since(start) }()
		cpu, err = b.compile(ctx, c, src, work, dir, env)
		return err
	}
	if err := b.builds.do(ctx, b.recipes.index(c.Name), compile); err != nil {
		return store.Meta{}, err
	}
	return store.Meta{Version: c.Version, Seconds: took.Seconds(), CPU: cpu.Seconds()}, nil
}

// prepare writes the wrapper module and downloads its dependencies, so that the compiler does not wait for the network.
// The go command adds sums that are missing to go.sum, from the checksum database or, without one, from what it was
// served: such a module is an error.
func (b *Builder) prepare(ctx context.Context, c *Component, src, work string, env []string) error {
	if len(c.Packages) == 0 {
		return nil
	}
	sums, err := b.resolve(ctx, c, src, work, env)
	if err != nil {
		return err
	}
	now, err := readSums(work)
	if err != nil {
		return err
	}
	for _, of := range slices.Sorted(maps.Keys(now)) {
		if sums[of] == "" {
			return gosum.Differs(strings.Replace(of, " ", "@", 1), "no sum", now[of])
		}
	}
	return nil
}

// resolve writes go.mod and go.sum and returns the sums that dependencies are checked against.
func (b *Builder) resolve(ctx context.Context, c *Component, src, work string, env []string) (gosum.Sums, error) {
	env = append(env, b.goEnv(c, "mod")...)
	upstream, err := os.ReadFile(filepath.Join(src, "go.mod"))
	if err != nil {
		return nil, err
	}
	sums, err := readSums(src)
	if err != nil {
		return nil, err
	}
	versions, more, err := b.versions(ctx, c)
	if err != nil {
		return nil, err
	}
	sums = gosum.Join(b.sums, sums, more)
	if err := os.WriteFile(filepath.Join(work, sumFile), sums.Text(), 0o644); err != nil {
		return nil, err
	}
	if err := complete(c, src, filepath.Join(work, completedDir)); err != nil {
		return nil, err
	}
	var excluded []module.Version
	for {
		mod, err := goMod(c, upstream, versions, excluded)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(work, "go.mod"), mod, 0o644); err != nil {
			return nil, err
		}
		if len(versions) == 0 {
			break
		}
		graph, err := run(ctx, work, env, "go", "mod", "graph")
		if err != nil {
			return nil, err
		}
		more := slices.DeleteFunc(newer(graph, versions), func(m module.Version) bool { return slices.Contains(excluded, m) })
		if len(more) == 0 {
			break
		}
		excluded = append(excluded, more...)
	}
	args := append([]string{"list", "-deps", "-f", "{{if .DepsErrors}}{{.ImportPath}}{{end}}", "-tags", strings.Join(c.Tags, " ")}, c.packages()...)
	_, err = run(ctx, work, env, "go", args...)
	return sums, err
}

const (
	sumFile      = "go.sum"
	completedDir = "completed"
)

// complete writes a copy of the module to dir, with the files that a component adds to it.
func complete(c *Component, src, dir string) error {
	if len(c.Adds) == 0 {
		return nil
	}
	if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
		return err
	}
	for file, text := range c.Adds {
		file = filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readSums reads the go.sum of a module, which may have none.
func readSums(dir string) (gosum.Sums, error) {
	text, err := os.ReadFile(filepath.Join(dir, sumFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return gosum.Parse(text), nil
}

// versions returns the dependency versions of the component that c is built with, if any, and their sums.
func (b *Builder) versions(ctx context.Context, c *Component) (map[string]string, gosum.Sums, error) {
	with, ok := b.recipes.Get(c.With)
	if !ok {
		return nil, nil, nil
	}
	src, err := b.sums.Download(ctx, with.at())
	if err != nil {
		return nil, nil, err
	}
	upstream, err := os.ReadFile(filepath.Join(src, "go.mod"))
	if err != nil {
		return nil, nil, err
	}
	versions, err := versionsOf(with, upstream)
	if err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(versions, func(path, _ string) bool { return c.excepts(path) })
	sums, err := readSums(src)
	return versions, sums, err
}

// at is the component's module, "PATH@VERSION".
func (c *Component) at() string { return c.Module + "@" + c.Version }

// compile returns the CPU time.
func (b *Builder) compile(ctx context.Context, c *Component, src, work, dir string, env []string) (time.Duration, error) {
	var total time.Duration
	for program, file := range c.C {
		args := []string{"-Os", "-static", "-s", "-o", filepath.Join(dir, program), filepath.Join(src, filepath.FromSlash(file))}
		_, cpu, err := measured(ctx, work, nil, "gcc", args...)
		if total += cpu; err != nil {
			return total, err
		}
	}
	if len(c.Packages) == 0 {
		return total, nil
	}
	args := []string{
		"build", "-trimpath",
		"-gcflags", "all=-dwarf=false", // -w omits it anyway
		"-ldflags", strings.Join(append([]string{"-s -w"}, c.LDFlags...), " "),
		"-tags", strings.Join(c.Tags, " "), "-o", dir + string(filepath.Separator),
	}
	_, cpu, err := measured(ctx, work, append(env, b.goEnv(c, "readonly")...), "go", append(args, c.packages()...)...)
	return total + cpu, err
}

// goEnv overrides the user's Go environment; proxies, sum databases and caches are kept. mod is the value of -mod.
func (b *Builder) goEnv(c *Component, mod string) []string {
	cgo := "0"
	if c.CGO {
		cgo = "1"
	}
	return []string{
		"GOFLAGS=-mod=" + mod + " -buildvcs=false", "GOWORK=off", "CGO_ENABLED=" + cgo,
		"GOOS=linux", "GOARCH=" + b.recipes.arch, // lab's own is built on any machine
		"CGO_CFLAGS=-O2", // without debug information, which is stripped anyway
		"GOGC=400",       // short-lived compilers and linkers: saves 6 % CPU time of a cold build
	}
}

func (c *Component) packages() []string {
	list := make([]string, len(c.Packages))
	for i, p := range c.Packages {
		list[i] = path.Join(cmp.Or(c.Path, c.Module), p)
	}
	return list
}
