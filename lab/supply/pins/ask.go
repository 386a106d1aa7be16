package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab/supply/gosum"
	"homelab/lab/supply/registry"
)

// asker asks proxies, registries and repositories which versions they serve.
type asker struct {
	patience time.Duration // for each source
	github   string        // where actions are: URL + OWNER/NAME
}

// answer are the versions that a source serves, or why they are unknown.
type answer struct {
	versions []string
	unknown  string
}

// all asks every source of pins once, some at a time.
func (a asker) all(ctx context.Context, pins []*Pin) map[Source]answer {
	answers := map[Source]answer{}
	asked := map[Source][]*Pin{}
	for _, p := range pins {
		asked[p.Source] = append(asked[p.Source], p)
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(4)
	for source, pins := range asked {
		group.Go(func() error {
			got := a.ask(ctx, source, pins)
			mu.Lock()
			defer mu.Unlock()
			answers[source] = got
			return nil
		})
	}
	_ = group.Wait() // what does not answer is unknown, and no error
	return answers
}

func (a asker) ask(ctx context.Context, s Source, pins []*Pin) answer {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	var versions []string
	err := errors.New("no source lists its versions")
	switch s.Of {
	case Module:
		versions, err = moduleVersions(ctx, s.Name, pins)
	case Image:
		versions, err = registry.Tags(ctx, s.Name)
	case Chart:
		versions, err = registry.ChartVersions(ctx, s.From, s.Name)
	case Action:
		var commits map[string]string
		commits, err = a.tags(ctx, s.Name)
		versions = slices.Collect(maps.Keys(commits))
	}
	if err != nil {
		return answer{unknown: a.reason(ctx, err)}
	}
	return answer{versions: versions}
}

// reading is what go and git add to an answer.
var reading = regexp.MustCompile(`^(?:exit status [0-9]+: )?(?:go: )?(?:module )?(?:\S+: )?(?:reading \S+: |unable to access \S+ )?`)

// reason returns an error in a few words.
func (a asker) reason(ctx context.Context, err error) string {
	var dns *net.DNSError
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("no answer within %s", a.patience)
	case errors.As(err, &dns):
		return dns.Name + ": " + dns.Err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return reading.ReplaceAllString(line, "")
}

// moduleVersions returns the versions that the proxy lists, and newer ones that it serves unlisted: of recipes, and where the pinned one is unlisted.
func moduleVersions(ctx context.Context, module string, pins []*Pin) ([]string, error) {
	var m struct {
		Version  string
		Versions []string
	}
	err := goList(ctx, &m, "-versions", module)
	versions := m.Versions
	if len(versions) == 0 && slices.ContainsFunc(pins, func(p *Pin) bool { return isPseudo(p.Version) }) { // no release: the newest commit
		err = goList(ctx, &m, module+"@latest")
		versions = []string{m.Version}
	}
	for _, p := range pins {
		listed := slices.ContainsFunc(versions, func(v string) bool { return same(v, p.Version) })
		if module == "go" || isPseudo(p.Version) || listed && p.What != Recipe {
			continue
		}
		all, minor := newest(p.Version, versions)
		versions = append(versions, unlisted(ctx, module, cmp.Or(minor, p.Version), !listed)...)
		if all != minor {
			versions = append(versions, unlisted(ctx, module, all, false)...)
		}
	}
	if len(versions) == 0 && err != nil {
		return nil, fmt.Errorf("no list (%s), and no newer patch is served", asker{}.reason(ctx, err))
	}
	return versions, nil
}

// unlisted asks for the next exact versions: patches until two in a row are missing and, if minors are asked for too, those of the next one if it has any.
func unlisted(ctx context.Context, module, from string, minors bool) (found []string) {
	var major, minor, patch int
	_, _ = fmt.Sscanf(bare(from), "%d.%d.%d", &major, &minor, &patch)
	for first, more := true, true; more && ctx.Err() == nil; first, minor, patch = false, minor+1, -1 {
		more = first && minors
		for missing := 0; missing < 2 && ctx.Err() == nil; missing++ {
			patch++
			v := fmt.Sprintf("v%d.%d.%d", major, minor, patch)
			if goList(ctx, &struct{}{}, module+"@"+v) == nil {
				found, missing, more = append(found, v), -1, minors
			}
		}
	}
	return found
}

// goList runs go list -m outside of any module.
func goList(ctx context.Context, into any, args ...string) error {
	out, err := goCommand(ctx, os.TempDir(), append([]string{"list", "-m", "-json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// goCommand runs the go command; for a module that needs a newer Go than this one, with the toolchain of the recipes.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	out, err := run(ctx, dir, nil, "go", args...)
	if err != nil && strings.Contains(err.Error(), "requires go >") {
		env, err := gosum.Recorded().Env(ctx)
		if err != nil {
			return nil, err
		}
		return run(ctx, dir, env, "go", args...)
	}
	return out, err
}

// run runs a program and returns its output.
func run(ctx context.Context, dir string, env []string, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"), env...)
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		err = errors.New(text)
	}
	return out, err
}

// tags returns the tags of an action's repository with their commits.
func (a asker) tags(ctx context.Context, repository string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	out, err := run(ctx, os.TempDir(), nil, "git", "ls-remote", "--tags", a.github+repository)
	commits := map[string]string{}
	for line := range strings.Lines(string(out)) {
		commit, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		tag, peeled := strings.CutSuffix(strings.TrimPrefix(ref, "refs/tags/"), "^{}")
		if commits[tag] == "" || peeled { // of an annotated tag the commit counts, not the tag's own object
			commits[tag] = commit
		}
	}
	return commits, err
}
