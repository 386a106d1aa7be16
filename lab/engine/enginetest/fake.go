package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
)

// Fake is an in-memory engine. It generates an application CLUSTER-ADDON for every label enable_ADDON=true of every registration, in sync at the commit set by
// Commit, and healthy unless set by Break.
type Fake struct {
	mu           sync.Mutex
	state        engine.State
	regs         map[string]engine.Registered
	repositories map[string]engine.Repository
	root         []byte
	revision     string
	broken       map[string]string
	revoked      bool
	withdrawn    map[string]bool // clusters withdrawn and not registered since
	left         []string        // applications left by Retire
	writes       int             // number of changes
}

// NewFake returns an engine that is not installed.
func NewFake() *Fake {
	return &Fake{regs: map[string]engine.Registered{}, repositories: map[string]engine.Repository{}, broken: map[string]string{}, withdrawn: map[string]bool{}}
}

// Commit sets the commit of the estate.
func (f *Fake) Commit(revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = revision
}

// Break sets the reason why an application is unhealthy; "" makes it healthy.
func (f *Fake) Break(application, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.broken, application)
	if reason != "" {
		f.broken[application] = reason
	}
}

// Revoke makes every cluster reject the engine until registered again.
func (f *Fake) Revoke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revoked = true
}

// Writes returns the number of changes.
func (f *Fake) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Contents returns the fake's contents, one per line, without times and commits.
func (f *Fake) Contents() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := []string{fmt.Sprintf("engine %s %s, ready %t", f.state.Release, f.state.Version, f.state.Ready), fmt.Sprintf("root %s", f.root)}
	for _, r := range f.regs {
		lines = append(lines, fmt.Sprintf("registration %s at %s: %v %v", r.Cluster, r.Server, r.Labels, r.Annotations))
	}
	for _, r := range f.repositories {
		lines = append(lines, fmt.Sprintf("repository %+v", r))
	}
	slices.Sort(lines)
	return lines
}

// Observe implements Installer.
func (f *Fake) Observe(ctx context.Context) (engine.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	for _, name := range slices.Sorted(maps.Keys(f.regs)) {
		s.Registrations = append(s.Registrations, f.regs[name])
	}
	return s, ctx.Err()
}

// Install implements Installer.
func (f *Fake) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b, err := json.Marshal(values)
	if err != nil {
		return false, err
	}
	inputs := chart.Digest + string(b)
	if f.state.Installed() && f.state.Inputs == inputs {
		return false, nil
	}
	p("installing")
	f.writes++
	f.state = engine.State{Release: "deployed", Revision: f.state.Revision + 1, Version: chart.Version, Inputs: inputs, Ready: true}
	return true, nil
}

// Retire implements Retirer.
func (f *Fake) Retire(ctx context.Context, _ map[string]*rest.Config, p lab.Progress) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	p("stopping the engine")
	f.writes++
	f.left = f.applied()
	f.state, f.root, f.repositories = engine.State{}, nil, map[string]engine.Repository{}
	clear(f.regs)
	return nil
}

// Applied returns the applications in clusters, including those of a retired engine.
func (f *Fake) Applied() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied()
}

// Traces returns the engine's own objects.
func (f *Fake) Traces() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	if f.state.Installed() {
		list = append(list, "release")
	}
	for cluster := range f.regs {
		list = append(list, "access to "+cluster)
	}
	slices.Sort(list)
	return list
}

func (f *Fake) applied() []string {
	names := slices.Clone(f.left)
	for _, a := range f.applications() {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Register implements Registrar.
func (f *Fake) Register(ctx context.Context, reg lab.Registration, _ *rest.Config) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	have, known := f.regs[reg.Cluster]
	lines := engine.Diff(reg, have)
	refused := f.revoked || f.withdrawn[reg.Cluster]
	if known && refused {
		lines = append(lines, "credentials renewed")
	}
	if known && len(lines) == 0 {
		return nil, nil
	}
	f.writes++
	since := have.Since
	if !known || refused {
		since = time.Now()
	}
	f.revoked = false
	delete(f.withdrawn, reg.Cluster)
	next := engine.Registered{Cluster: reg.Cluster, Server: reg.Server, Since: since, Secrets: reg.KubeconfigSecrets, Labels: map[string]string{}, Annotations: map[string]string{}}
	for k, v := range reg.Labels {
		next.Labels[k] = v.Value
	}
	for k, v := range reg.Annotations {
		next.Annotations[k] = v.Value
	}
	f.regs[reg.Cluster] = next
	if !known {
		return []string{"registered as " + reg.Server}, nil
	}
	return lines, nil
}

// CheckCredentials implements Registrar.
func (f *Fake) CheckCredentials(ctx context.Context, cluster string, _ *rest.Config) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.regs[cluster]; known && (f.revoked || f.withdrawn[cluster]) {
		return "its token is unknown there", ctx.Err()
	}
	return "", ctx.Err()
}

// Unregister implements Registrar.
func (f *Fake) Unregister(ctx context.Context, d engine.Departure, _ lab.Progress) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.regs[d.Cluster]; !known {
		return nil, ctx.Err()
	}
	f.writes++
	delete(f.regs, d.Cluster)
	return []string{"cluster " + d.Cluster + " is no longer registered"}, ctx.Err()
}

// Withdraw implements Registrar.
func (f *Fake) Withdraw(ctx context.Context, spokes map[string]*rest.Config, _ lab.Progress) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	f.root = nil
	for name := range spokes {
		f.withdrawn[name] = true
	}
	return nil, ctx.Err()
}

// Holds returns what the engine installed in a cluster, its access first.
func (f *Fake) Holds(cluster string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.regs[cluster]; !known || f.withdrawn[cluster] {
		return nil
	}
	held := []string{"access"}
	for _, a := range f.applications() {
		if a.Cluster == cluster {
			held = append(held, a.Name)
		}
	}
	return held
}

// ApplyRepositories implements Receiver.
func (f *Fake) ApplyRepositories(ctx context.Context, repos []engine.Repository) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, lines := map[string]engine.Repository{}, []string(nil)
	for _, r := range repos {
		next[r.Name] = r
		if f.repositories[r.Name] != r {
			lines = append(lines, fmt.Sprintf("repository %s: %s", r.Name, r.URL))
		}
	}
	for name := range f.repositories {
		if _, wanted := next[name]; !wanted {
			lines = append(lines, fmt.Sprintf("repository %s: removed", name))
		}
	}
	if len(lines) > 0 {
		f.writes++
	}
	f.repositories = next
	slices.Sort(lines)
	return lines, ctx.Err()
}

// ApplyRoot implements Receiver.
func (f *Fake) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bytes.Equal(f.root, root.Manifest) {
		return false, ctx.Err()
	}
	f.writes++
	f.root = bytes.Clone(root.Manifest)
	return true, ctx.Err()
}

// Drift implements Receiver.
func (f *Fake) Drift(ctx context.Context, root engine.Root, repos []engine.Repository) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, r := range repos {
		switch have, ok := f.repositories[r.Name]; {
		case !ok:
			lines = append(lines, "repository "+r.Name+" is gone")
		case have != r:
			lines = append(lines, "repository "+r.Name+" was changed")
		}
	}
	if f.root == nil && root.Manifest != nil {
		lines = append(lines, "the root application is gone")
	}
	return lines, ctx.Err()
}

// Applications implements Watcher.
func (f *Fake) Applications(ctx context.Context) ([]lab.Application, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applications(), ctx.Err()
}

// Snapshot implements Reporter.
func (f *Fake) Snapshot(ctx context.Context) (engine.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := engine.Snapshot{Applications: f.applications(), Root: f.root != nil, Revision: f.revision, Settled: f.root != nil}
	at := f.revision
	s.Behind = func(want engine.Want, _ []engine.Registered) []string {
		if !s.Root || want.Revision == "" || want.Revision == at {
			return nil
		}
		return []string{"root"}
	}
	return s, ctx.Err()
}

func (f *Fake) applications() []lab.Application {
	apps := []lab.Application{}
	if !f.state.Installed() || f.root == nil {
		return apps
	}
	for cluster, reg := range f.regs {
		for label, value := range reg.Labels {
			addon, enables := strings.CutPrefix(label, "enable_")
			if !enables || value != "true" {
				continue
			}
			a := lab.Application{
				Name: lab.ApplicationName(cluster, addon), Addon: addon, Cluster: cluster, Version: "1.0.0",
				Sync: "Synced", Health: "Healthy", Revision: f.revision, Namespace: addon,
			}
			if reason := f.broken[a.Name]; reason != "" {
				a.Health, a.Message = "Degraded", reason
			}
			apps = append(apps, a)
		}
	}
	slices.SortFunc(apps, func(a, b lab.Application) int { return cmp.Compare(a.Name, b.Name) })
	return apps
}

// WaitConverged implements Reporter. A fake does not change by itself, so an unconverged state times out immediately.
func (f *Fake) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	apps := f.applications()
	if err := ctx.Err(); err != nil {
		return apps, err
	}
	e := &lab.Error{Exit: lab.ExitTimeout, Code: "not_converged"}
	for _, a := range apps {
		if !a.Converged() && !slices.Contains(want.LeftOut, a.Name) {
			e.Details = append(e.Details, fmt.Sprintf("%s   %s   %s", a.Name, a.Health, a.Message))
		}
	}
	exists := func(name string) bool {
		return slices.ContainsFunc(apps, func(a lab.Application) bool { return a.Name == name })
	}
	for _, name := range want.Expected {
		if !exists(name) {
			e.Details = append(e.Details, name+"   Missing   is not generated yet")
		}
	}
	for _, name := range want.Gone {
		if exists(name) {
			e.Details = append(e.Details, name+"   Waiting   is no longer wanted but still exists")
		}
	}
	if want.Revision != "" && want.Revision != f.revision {
		e.Details = append(e.Details, "addons   Waiting   is at "+f.revision+", wanted "+want.Revision)
	}
	if len(e.Details) == 0 {
		return apps, nil
	}
	p(e.Details[0])
	verb := "are"
	if len(e.Details) == 1 {
		verb = "is"
	}
	e.Message = fmt.Sprintf("%d of %d applications %s not healthy after %s", len(e.Details), len(apps), verb, time.Duration(0))
	return apps, e
}
