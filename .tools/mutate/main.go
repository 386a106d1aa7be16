// Command mutate does mutation testing: it makes small changes to a package, one at a time, and lists those that the package's tests do not detect.
//
// All mutants of a package are compiled into its test binary at once; an environment variable selects one.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// packages are the defaults.
var packages = []string{
	"lab/up", "lab/plan", "lab/apply", "lab/engine", "lab/engine/enginetest", "lab/engine/argocd", "lab/engine/flux", "lab/engine/flux/reconciliation", "lab/estate", "lab/estate/document", "lab/estate/leftout",
	"lab/estate/mount", "lab/estate/project", "lab/appset", "lab/fluxset", "lab/bridge", "lab/forge", "lab/promote", "lab/scenario", "lab/supply",
}

// testers maps a package to the packages with its tests, if not only its own.
var testers = map[string][]string{
	"lab/engine":                     {"lab/engine/enginetest", "lab/engine/argocd", "lab/up"},
	"lab/engine/flux/reconciliation": {"lab/engine/flux/reconciliation", "lab/engine/flux"},
	"lab/estate/document":            {"lab/estate/document", "lab/estate"},
	"lab/estate/leftout":             {"lab/estate/leftout", "lab/estate"},
	"lab/estate/mount":               {"lab/estate/mount", "lab/estate"},
	"lab/estate/project":             {"lab/estate/project", "lab/estate"},
	"lab/scenario/verb":              {"lab/scenario/verb", "lab/scenario"},
}

func main() {
	least := flag.Int("min", 85, "fail if less than this `PERCENT` of a package's covered mutants are detected")
	only := flag.String("only", "", "only the mutants of this `FILE:LINE`")
	sample := flag.Int("sample", 0, "at most `N` covered mutants of each package, evenly spread; 0 means all")
	workers := flag.Int("p", runtime.NumCPU(), "number of tests that run in parallel")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	names := flag.Args()
	if len(names) == 0 {
		names = packages
	}
	low := false
	for _, name := range names {
		name = strings.TrimPrefix(filepath.Clean(name), "./")
		r, err := mutate(ctx, name, *only, *sample, *workers)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutate %s: %v\n", name, err)
			os.Exit(1)
		}
		low = low || r.score() < *least
		fmt.Printf("%-24s %4d mutants, %4d tried, %4d seen: %d%% in %s\n", name, r.all, r.covered, r.killed, r.score(), r.took.Round(time.Second))
	}
	if low {
		os.Exit(1)
	}
}

type result struct {
	all, covered, killed int
	took                 time.Duration
}

func (r result) score() int {
	if r.covered == 0 {
		return 100
	}
	return 100 * r.killed / r.covered
}

// binary is a compiled test.
type binary struct {
	path, dir, files string
	took             time.Duration // without a mutant
}

func mutate(ctx context.Context, name, only string, sample, workers int) (r result, err error) {
	began := time.Now()
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(work)
	// A killed test leaves its files behind: they are removed with this folder, which is in memory if possible.
	files, err := os.MkdirTemp("/dev/shm", "mutate")
	if err != nil {
		files, err = os.MkdirTemp(work, "files")
	}
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(files)
	mutants, overlay, err := instrument(ctx, name, work)
	if err != nil {
		return r, err
	}
	tests := testers[name]
	if tests == nil {
		tests = []string{name}
	}
	seen := filepath.Join(work, "seen")
	var binaries []binary
	for i, test := range tests {
		b := binary{path: filepath.Join(work, fmt.Sprintf("%d.test", i)), dir: test, files: files}
		if out, err := run(ctx, "", nil, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.path, "./"+test); err != nil {
			return r, fmt.Errorf("%w\n%s", err, out)
		}
		start := time.Now()
		if out, err := b.run(ctx, 10*time.Minute, "MUTANTS_SEEN="+seen); err != nil {
			return r, fmt.Errorf("%s fails without a mutant: %w\n%s", test, err, out)
		}
		b.took = time.Since(start)
		binaries = append(binaries, b)
	}
	covered, err := numbers(seen)
	if err != nil {
		return r, err
	}
	if only != "" {
		covered = slices.DeleteFunc(covered, func(n int) bool { return fmt.Sprintf("%s:%d", filepath.Base(mutants[n].file), mutants[n].line) != only })
	}
	covered = spread(covered, sample)
	killed := tryAll(ctx, binaries, covered, workers, func(n int) {
		m := mutants[n]
		fmt.Printf("%s/%s:%d: %s: %s\n", name, m.file, m.line, m.what, m.text)
	})
	return result{len(mutants) - 1, len(covered), killed, time.Since(began)}, ctx.Err()
}

// spread returns n elements of a list at equal distances, or all.
func spread(list []int, n int) []int {
	if n <= 0 || n >= len(list) {
		return list
	}
	some := make([]int, n)
	for i := range some {
		some[i] = list[i*len(list)/n]
	}
	return some
}

// tryAll counts the mutants that make a test fail, and reports the others as they are found.
func tryAll(ctx context.Context, binaries []binary, mutants []int, workers int, unseen func(n int)) (killed int) {
	var mu sync.Mutex
	work := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := range work {
				seen := slices.ContainsFunc(binaries, func(b binary) bool {
					_, err := b.run(ctx, 4*b.took+5*time.Second, "MUTANT="+strconv.Itoa(n))
					return err != nil
				})
				mu.Lock()
				if seen {
					killed++
				} else {
					unseen(n)
				}
				mu.Unlock()
			}
		})
	}
	for _, n := range mutants {
		if ctx.Err() == nil {
			work <- n
		}
	}
	close(work)
	group.Wait()
	return killed
}

// run runs a test binary, with limits on time and memory.
func (b binary) run(ctx context.Context, limit time.Duration, env ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Second)
	defer cancel()
	return run(ctx, b.dir, append(env, "TMPDIR="+b.files), "sh", "-c", `ulimit -v 16000000; exec "$0" "$@"`, b.path, "-test.failfast", "-test.timeout="+limit.String())
}

func run(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), time.Second
	return cmd.CombinedOutput()
}

// numbers reads which mutants were reached.
func numbers(file string) ([]int, error) {
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var list []int
	for _, line := range strings.Fields(string(data)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// listed is the output of go list for a package.
type listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string
	DepOnly                       bool
}

// instrument writes a copy of a package with all of its mutants, and the overlay that replaces the package. Mutant 0 is none.
func instrument(ctx context.Context, name, work string) ([]mutant, string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Name,Dir,Export,GoFiles,DepOnly", "./"+name).Output()
	if err != nil {
		return nil, "", fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var p listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return nil, "", err
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			p = l
		}
	}
	fset := token.NewFileSet()
	files, err := parse(fset, p)
	if err != nil {
		return nil, "", err
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	var trees []*ast.File
	for _, f := range files {
		trees = append(trees, f.tree)
	}
	if _, err := config.Check(p.ImportPath, fset, trees, info); err != nil {
		return nil, "", err
	}
	mutants := []mutant{{}}
	replace := map[string]string{}
	write := func(at string, text []byte) error {
		replace[at] = filepath.Join(work, filepath.Base(at))
		return os.WriteFile(replace[at], text, 0o600)
	}
	for _, f := range files {
		f.info = info
		f.add = func(m mutant) int { mutants = append(mutants, m); return len(mutants) - 1 }
		if err := write(filepath.Join(p.Dir, filepath.Base(f.name)), f.mutated()); err != nil {
			return nil, "", err
		}
	}
	if err := write(filepath.Join(p.Dir, "mutants_on.go"), fmt.Appendf(nil, support, p.Name, len(mutants))); err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay := filepath.Join(work, "overlay.json")
	return mutants, overlay, os.WriteFile(overlay, text, 0o600)
}

func parse(fset *token.FileSet, p listed) ([]*file, error) {
	var files []*file
	for _, base := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, base))
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(fset, base, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, &file{name: base, source: source, tree: tree, fset: fset})
	}
	return files, nil
}
