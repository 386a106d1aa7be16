package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// ProbeTimeout is how long mode auto waits for registries.
const ProbeTimeout = 3 * time.Second

// Answer is the result of a probe.
type Answer struct {
	OK  bool
	Why string // one line: who answered, or who did not and why
}

// Probe checks all required registries and repositories concurrently, within ProbeTimeout. It pulls nothing.
func (r *Registry) Probe(ctx context.Context) Answer {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	targets, err := r.targets()
	if err != nil {
		return Answer{Why: err.Error()}
	}
	names := make([]string, 0, len(targets))
	for host := range targets {
		names = append(names, host)
	}
	slices.Sort(names)
	problems := make([]string, len(names))
	var wait sync.WaitGroup
	for i, host := range names {
		wait.Go(func() {
			if err := r.ask(ctx, targets[host]); err != nil {
				problems[i] = host + " " + err.Error()
			}
		})
	}
	wait.Wait()
	problems = slices.DeleteFunc(problems, func(s string) bool { return s == "" })
	switch {
	case len(problems) == 0 && len(names) == 1:
		return Answer{OK: true, Why: names[0] + " answers"}
	case len(problems) == 0:
		return Answer{OK: true, Why: fmt.Sprintf("%d registries and repositories answer", len(names))}
	case len(problems) == 1:
		return Answer{Why: problems[0]}
	}
	return Answer{Why: fmt.Sprintf("%s, and %d more", problems[0], len(problems)-1)}
}

// targets returns the required hosts, each with an address that is cheap to serve.
func (r *Registry) targets() (map[string]string, error) {
	out := map[string]string{}
	addRegistry := func(repository string) error {
		repo, err := name.NewRepository(repository)
		if err != nil {
			return err
		}
		out[repo.RegistryStr()] = repo.Scheme() + "://" + repo.RegistryStr() + "/v2/"
		return nil
	}
	if r.mirror != "" {
		return out, addRegistry(r.mirror + "/x")
	}
	for _, p := range r.pins.Images {
		ref, _, _ := strings.Cut(p.Ref, "@")
		tag, err := name.NewTag(ref)
		if err == nil {
			err = addRegistry(tag.Repository.Name())
		}
		if err != nil {
			return nil, err
		}
	}
	for _, c := range r.pins.Charts {
		if from, ok := strings.CutPrefix(c.From, "oci://"); ok {
			if err := addRegistry(from + "/x"); err != nil {
				return nil, err
			}
			continue
		}
		u, err := url.Parse(c.From)
		if err != nil {
			return nil, err
		}
		out[u.Host] = strings.TrimSuffix(c.From, "/") + "/index.yaml"
	}
	return out, nil
}

// ask requires a registry's own answer, not an error page of a proxy.
func (r *Registry) ask(ctx context.Context, u string) error {
	isRegistry := strings.HasSuffix(u, "/v2/")
	method := http.MethodHead
	if isRegistry {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, u, nil)
	if err != nil {
		return err
	}
	res, err := r.client.Do(req)
	var urlErr *url.Error
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("did not answer within %s", ProbeTimeout)
	case errors.As(err, &urlErr):
		return fmt.Errorf("does not answer: %w", urlErr.Err)
	case err != nil:
		return fmt.Errorf("does not answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK || isRegistry && res.StatusCode == http.StatusUnauthorized {
		return nil
	}
	return fmt.Errorf("answers %s", res.Status)
}
