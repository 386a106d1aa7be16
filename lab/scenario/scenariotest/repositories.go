package scenariotest

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/flux"
	"homelab/lab/scenario"
)

// Repositories are private repositories beside the estate's.
type Repositories struct {
	mu     sync.Mutex
	made   map[string]scenario.Repository // by URL
	pushed func()
}

func urlOf(name string) string { return "http://forge/lab/" + name + ".git" }

// Exists implements scenario.Repositories.
func (r *Repositories) Exists(_ context.Context, name string) (bool, error) {
	_, there := r.at(urlOf(name))
	return there, nil
}

// Create implements scenario.Repositories.
func (r *Repositories) Create(_ context.Context, name string) (scenario.Repository, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := scenario.Repository{
		URL: urlOf(name), User: "repo-" + name, Password: "token of " + name,
		Forge: &Forge{branches: map[string][]Commit{}, pushed: r.pushed}, Estate: outsider{},
	}
	r.made[one.URL] = one
	return one, nil
}

// Remove implements scenario.Repositories.
func (r *Repositories) Remove(_ context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, urlOf(name))
	return nil
}

// URLs returns the repositories.
func (r *Repositories) URLs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.made))
}

func (r *Repositories) at(url string) (scenario.Repository, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, there := r.made[url]
	return one, there
}

// outsider is the estate's repository for an account that does not see it.
type outsider struct{}

func (outsider) Tree(context.Context, string) (scenario.Tree, error) {
	return scenario.Tree{}, refusal("refused", "the forge refuses it: repository not found")
}

func (o outsider) Commit(ctx context.Context, _ scenario.Change) (string, error) {
	_, err := o.Tree(ctx, "")
	return "", err
}

// other returns a repository beside the estate's, or why the engine may not read it. It returns neither if there is no such repository.
func (e *Engine) other(ctx context.Context, url string) (scenario.Tree, string, error) {
	r, there := e.others.at(url)
	if !there {
		return scenario.Tree{}, "", nil
	}
	namespace, why := "argocd", "failed to list refs: authentication required: Unauthorized"
	if e.on == lab.EngineFlux {
		namespace, why = flux.Namespace, fmt.Sprintf("failed to get the Secret with the credentials of %s", url)
	}
	for _, s := range e.clusters.list(e.hub, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
		data, _, _ := unstructured.NestedStringMap(s.Object, "data")
		is := func(key, value string) bool { return data[key] == base64.StdEncoding.EncodeToString([]byte(value)) }
		if s.GetNamespace() == namespace && (e.on == lab.EngineFlux || s.GetLabels()[argo.SecretType] == "repository") && is("url", url) && is("password", r.Password) {
			tree, err := r.Forge.Tree(ctx, scenario.Branch)
			return tree, "", err
		}
	}
	return scenario.Tree{}, why, nil
}

// sources publishes the GitRepositories of such repositories, as Flux sees them.
func (e *Engine) sources(ctx context.Context, found map[string]string) error {
	now := map[string]object{}
	for source, url := range found {
		if _, there := e.others.at(url); !there {
			continue
		}
		_, why, err := e.other(ctx, url)
		if err != nil {
			return err
		}
		_, place, _ := strings.Cut(source, " ")
		namespace, name, _ := strings.Cut(place, "/")
		ready := map[string]any{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[why == ""], "message": why}
		status := map[string]any{"status": map[string]any{"conditions": []any{ready}}}
		now[source] = manifest(e.hub, "source.toolkit.fluxcd.io/v1", "GitRepository", namespace, name, nil, nil, status)
	}
	for source, o := range e.published {
		if _, there := now[source]; !there {
			if err := e.prune(ctx, e.hub, []object{o}); err != nil {
				return err
			}
		}
	}
	e.published = now
	for _, o := range now {
		differs, err := e.differ(ctx, e.hub, []object{o})
		if err != nil {
			return err
		}
		if !differs {
			continue
		}
		if err := e.apply(ctx, e.hub, []object{o}); err != nil {
			return err
		}
	}
	return nil
}
