package forgetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/forge"
)

// Fake is a forge in memory, without a container and without Git. Its mirrors are repositories in a folder.
type Fake struct {
	Dir string // of the mirrors

	inputs     string // empty before the first Start
	port       string
	up         bool
	unprepared bool
	paused     bool
	silent     bool
	held       commits
	charts     map[string]string // name and version -> digest
	hook       string            // URL and secret
	hooks      map[string]string // same, by mirror

	requests     []forge.PullRequest
	items        []forge.Item
	repositories []string // of others
}

var _ Forge = (*Fake)(nil)

// empty deletes the repositories.
func (f *Fake) empty() error {
	f.held = commits{}
	return os.RemoveAll(f.Dir)
}

// Observe returns the state of the forge.
func (f *Fake) Observe(context.Context) (forge.State, error) {
	if f.inputs == "" {
		return forge.State{}, nil
	}
	s := forge.State{Exists: true, Volume: true, Inputs: f.inputs, ImageID: f.inputs}
	if !f.up || f.paused {
		return s, nil
	}
	s.Running, s.Answers, s.Prepared, s.HostURL = true, !f.silent, !f.silent && !f.unprepared, "http://127.0.0.1:"+f.port
	s.Guarded = s.Prepared
	if !s.Prepared {
		s.Empty = f.unprepared && !f.silent
		return s, nil
	}
	s.Revision = f.held.head()
	s.Empty = s.Revision == ""
	return s, nil
}

// Inputs returns a digest of the images.
func (f *Fake) Inputs(spec forge.Spec) string {
	text := fmt.Sprintf("%s@%s, %s, writer %t", spec.Image.Ref, spec.Image.Digest, spec.Gate.Ref, spec.Writer)
	if spec.Runner != (forge.Guest{}) {
		text += fmt.Sprintf(", runner %q", spec.Runner)
	}
	return text
}

// Account returns an account whose token is its name's.
func (f *Fake) Account(writes bool) forge.Account {
	if writes {
		return forge.Account{User: "lab-writer", Token: "token of lab-writer"}
	}
	return forge.Account{User: "lab-reader", Token: "token of lab-reader"}
}

// Start creates the repository, if missing.
func (f *Fake) Start(_ context.Context, spec forge.Spec, _ int, _ lab.Progress) error {
	if f.inputs == "" || f.unprepared {
		f.charts, f.port = map[string]string{}, "3000"
	}
	if f.silent {
		return &lab.Error{Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server does not answer"}
	}
	f.inputs, f.up, f.paused, f.unprepared = f.Inputs(spec), true, false, false
	return nil
}

// Stop stops the forge.
func (f *Fake) Stop() { f.up = false }

// Pause freezes the forge until Start.
func (f *Fake) Pause() { f.paused = true }

// Take copies the content, the mirrors into a folder. The returned function restores it, with the forge stopped.
func (f *Fake) Take(folder string) (func() error, error) {
	taken := *f
	taken.charts, taken.held = maps.Clone(f.charts), f.held.take()
	mirrors := false
	if _, err := os.Stat(f.Dir); err == nil {
		mirrors = true
		if err := os.CopyFS(folder, os.DirFS(f.Dir)); err != nil {
			return nil, err
		}
	}
	return func() error {
		if err := f.empty(); err != nil {
			return err
		}
		f.inputs, f.port, f.hook, f.hooks, f.up = taken.inputs, taken.port, taken.hook, taken.hooks, false
		f.requests, f.items, f.repositories = taken.requests, taken.items, taken.repositories
		f.paused, f.silent, f.unprepared, f.charts, f.held = false, false, taken.unprepared, maps.Clone(taken.charts), taken.held.take()
		if !mirrors {
			return nil
		}
		return os.CopyFS(f.Dir, os.DirFS(folder))
	}, nil
}

// Commit commits files as another user: name, text, name, text, ...
func (f *Fake) Commit(author, message string, pairs ...string) {
	f.held.add(author, message, f.held.with(pairs))
}

// Branch is like Commit for another branch, which begins at the head.
func (f *Fake) Branch(author, branch, message string, pairs ...string) {
	f.held.branch(author, branch, message, f.held.with(pairs))
}

// Estate returns the files of the head, or nil without commits.
func (f *Fake) Estate(context.Context) (fs.FS, error) {
	if err := f.running(); err != nil || f.held.head() == "" {
		return nil, err
	}
	files := fstest.MapFS{}
	for name, text := range f.held.files() {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return files, nil
}

// Silence makes a running forge stop answering, or answer again.
func (f *Fake) Silence(silent bool) { f.silent = silent }

// Unprepare deletes the repository, as if Start had been interrupted.
func (f *Fake) Unprepare() error {
	f.unprepared, f.charts, f.hook, f.hooks = true, map[string]string{}, "", nil
	f.requests, f.items, f.repositories = nil, nil, nil
	return f.empty()
}

// Contents lists the content, one item per line, without what differs between runs.
func (f *Fake) Contents(context.Context) ([]string, error) {
	if f.inputs == "" {
		return nil, nil
	}
	lines := []string{fmt.Sprintf("forge %s: up %t, prepared %t, hook %s", f.inputs, f.up, !f.unprepared, f.hook)}
	for _, chart := range slices.Sorted(maps.Keys(f.charts)) {
		lines = append(lines, "chart "+chart+" "+f.charts[chart])
	}
	if f.held.head() == "" {
		return append(lines, "no commit"), nil
	}
	for _, c := range slices.Backward(f.held.list) {
		lines = append(lines, "commit of "+c.Author+": "+c.Message)
	}
	files := f.held.files()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256([]byte(files[name]))
		lines = append(lines, fmt.Sprintf("file %s: %x", name, sum[:6]))
	}
	return lines, nil
}

// Tree returns a digest of the head's files, or "".
func (f *Fake) Tree() string {
	if f.held.head() == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", f.held.files()))
	return hex.EncodeToString(sum[:])
}

// running returns an error unless the forge can be used.
func (f *Fake) running() error {
	s, err := f.Observe(context.Background())
	switch {
	case err != nil:
		return err
	case !s.Running:
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server does not run"}
	case f.silent:
		return &lab.Error{Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server did not answer for 30s", Cure: "lab up"}
	case !s.Prepared:
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the lab's Git server is not prepared yet"}
	}
	return nil
}

// Push commits the working tree.
func (f *Fake) Push(_ context.Context, tree forge.Tree, message string) (forge.PushResult, error) {
	ours, err := f.ours(tree)
	if err != nil {
		return forge.PushResult{}, err
	}
	res := forge.PushResult{Commit: f.held.head(), Changed: differs(f.held.files(), ours)}
	if res.Commit != "" && len(res.Changed) == 0 {
		return res, nil
	}
	if err := f.held.diverged(ours); err != nil {
		return forge.PushResult{}, err
	}
	f.held.add("lab", message, ours)
	f.held.last = len(f.held.list)
	res.Commit, res.Pushed = f.held.head(), true
	return res, nil
}

// ours returns the files of a working tree, or an error if the forge does not run.
func (f *Fake) ours(tree forge.Tree) (map[string]string, error) {
	if err := f.running(); err != nil {
		return nil, err
	}
	return read(tree)
}

// Diff returns the paths that a push would change.
func (f *Fake) Diff(_ context.Context, tree forge.Tree) ([]string, error) {
	ours, err := f.ours(tree)
	if err != nil {
		return nil, err
	}
	return differs(f.held.files(), ours), nil
}

// Pull takes changes of others into the working tree.
func (f *Fake) Pull(_ context.Context, tree forge.Tree, dry bool) (forge.PullResult, error) {
	ours, err := f.ours(tree)
	if err != nil {
		return forge.PullResult{}, err
	}
	paths, by := f.held.ahead(ours)
	res := forge.PullResult{Commit: f.held.head(), Commits: by}
	for _, path := range paths {
		res.Files = append(res.Files, forge.PulledFile{Path: path, Did: forge.Took})
	}
	if dry {
		return res, nil
	}
	f.held.last = len(f.held.list)
	return res, f.held.write(tree.Dir, paths)
}

// Ahead returns the commits of others that the working tree lacks.
func (f *Fake) Ahead(_ context.Context, tree forge.Tree) ([]forge.Commit, error) {
	ours, err := f.ours(tree)
	if err != nil {
		return nil, err
	}
	_, by := f.held.ahead(ours)
	return by, nil
}

// Log returns the last n commits.
func (f *Fake) Log(_ context.Context, n int) ([]forge.Commit, error) {
	if err := f.running(); err != nil {
		return nil, err
	}
	var list []forge.Commit
	for _, c := range slices.Backward(f.held.list) {
		if len(list) < n {
			list = append(list, c.Commit)
		}
	}
	return list, nil
}

// MissingCharts returns the charts that are not published with the same content.
func (f *Fake) MissingCharts(_ context.Context, charts []lab.Chart) ([]string, error) {
	if err := f.running(); err != nil {
		return nil, err
	}
	var missing []string
	for _, c := range charts {
		if f.charts[c.Name+" "+c.Version] != c.Digest {
			missing = append(missing, c.Name+" "+c.Version)
		}
	}
	return missing, nil
}

// PublishCharts records charts.
func (f *Fake) PublishCharts(ctx context.Context, charts []lab.Chart) ([]string, error) {
	changed, err := f.MissingCharts(ctx, charts)
	if err != nil {
		return nil, err
	}
	for _, c := range charts {
		f.charts[c.Name+" "+c.Version] = c.Digest
	}
	return changed, nil
}

// HasWebhook reports whether the webhook is recorded.
func (f *Fake) HasWebhook(_ context.Context, url, secret string, also ...string) (bool, error) {
	if err := f.running(); err != nil {
		return false, err
	}
	return f.hook == hookOf(url, secret, also), nil
}

func hookOf(url, secret string, also []string) string {
	return strings.Join(append([]string{url}, also...), " ") + " " + secret
}

// EnsureWebhook records a webhook.
func (f *Fake) EnsureWebhook(ctx context.Context, url, secret string, also ...string) (bool, error) {
	has, err := f.HasWebhook(ctx, url, secret, also...)
	if err != nil {
		return false, err
	}
	f.hook = hookOf(url, secret, also)
	return !has, nil
}

// Remove deletes the repository.
func (f *Fake) Remove(context.Context) error {
	*f = Fake{Dir: f.Dir}
	return f.empty()
}
