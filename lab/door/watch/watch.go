// Package watch keeps what a cluster offers to a door up to date, by listing and watching through the cluster's API. It uses only the standard library, as the door is
// compiled as a separate module.
package watch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"homelab/lab/door/entrance"
)

// API is an API server and an account there.
type API struct {
	Server string
	CA     []byte // PEM
	Token  string
}

const (
	requestLimit = 30 * time.Second
	listLimit    = 64 << 20 // bytes of a page
	pause        = 2 * time.Second
	missing      = 15 * time.Second // between looks for a resource that the API lacks
	watchSeconds = 300
)

// Watcher watches one cluster.
type Watcher struct {
	api    API
	client *http.Client
	pause  time.Duration
}

// New returns a watcher.
func New(api API) (*Watcher, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(api.CA) {
		return nil, errors.New("no certificate of the API server")
	}
	return &Watcher{api: api, pause: pause, client: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: requestLimit, IdleConnTimeout: time.Minute,
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}, // a paused node sends nothing
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// The resources that are watched
const (
	services   = "/api/v1/services"
	ingresses  = "/apis/networking.k8s.io/v1/ingresses"
	httpRoutes = "/apis/gateway.networking.k8s.io/v1/httproutes"
)

// Seen is what a watcher knows. Error says why it may be outdated.
type Seen struct {
	Cluster entrance.Cluster
	Read    bool // all resources have been listed
	Error   error
}

// Run reports what a cluster has after each change until ctx is done. report is not called concurrently.
func (w *Watcher) Run(ctx context.Context, name string, report func(Seen)) {
	var mu sync.Mutex
	seen := Seen{Cluster: entrance.Cluster{Name: name}}
	read, failures := map[string]bool{}, map[string]error{}
	update := func(path string, err error, set func(*entrance.Cluster)) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		before := seen
		failures[path] = err
		if err == nil {
			read[path] = true
			set(&seen.Cluster)
		}
		seen.Read, seen.Error = len(read) == 3, errors.Join(slices.Collect(maps.Values(failures))...)
		if err == nil || before.Error == nil || before.Error.Error() != seen.Error.Error() {
			report(seen)
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		follow(ctx, w, services, func(o entrance.Service) entrance.Meta { return o.Metadata }, func(list []entrance.Service, err error) {
			update(services, err, func(c *entrance.Cluster) { c.Services = list })
		})
	})
	group.Go(func() {
		follow(ctx, w, ingresses, func(o entrance.Ingress) entrance.Meta { return o.Metadata }, func(list []entrance.Ingress, err error) {
			update(ingresses, err, func(c *entrance.Cluster) { c.Ingresses = list })
		})
	})
	group.Go(func() {
		follow(ctx, w, httpRoutes, func(o entrance.HTTPRoute) entrance.Meta { return o.Metadata }, func(list []entrance.HTTPRoute, err error) {
			update(httpRoutes, err, func(c *entrance.Cluster) { c.HTTPRoutes = list })
		})
	})
	group.Wait()
}

// follow lists and watches a resource until ctx is done.
func follow[T any](ctx context.Context, w *Watcher, path string, meta func(T) entrance.Meta, report func([]T, error)) {
	for ctx.Err() == nil {
		wait := w.pause
		switch err := followOnce(ctx, w, path, meta, report); {
		case errors.Is(err, errMissing):
			report(nil, nil)
			wait = missing
		case err == nil, errors.Is(err, errOld):
		default:
			report(nil, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

var (
	errMissing = errors.New("the API has no such resource")
	errOld     = errors.New("the watch is too old")
)

type list[T any] struct {
	Metadata struct {
		Version  string `json:"resourceVersion"`
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// followOnce lists, and watches until the connection ends.
func followOnce[T any](ctx context.Context, w *Watcher, path string, meta func(T) entrance.Meta, report func([]T, error)) error {
	key := func(o T) string { m := meta(o); return m.Namespace + "/" + m.Name }
	have := map[string]T{}
	query := url.Values{"limit": {"500"}}
	var page list[T]
	for {
		page = list[T]{}
		if err := w.get(ctx, path, query, &page); err != nil {
			return err
		}
		for _, o := range page.Items {
			have[key(o)] = o
		}
		if page.Metadata.Continue == "" {
			break
		}
		query.Set("continue", page.Metadata.Continue)
	}
	version := page.Metadata.Version
	all := func() []T {
		result := make([]T, 0, len(have))
		for _, k := range slices.Sorted(maps.Keys(have)) {
			result = append(result, have[k])
		}
		return result
	}
	report(all(), nil)
	for ctx.Err() == nil {
		next, err := w.watch(ctx, path, version, func(kind string, raw json.RawMessage) error {
			var o T
			if err := json.Unmarshal(raw, &o); err != nil {
				return err
			}
			switch kind {
			case "ADDED", "MODIFIED":
				have[key(o)] = o
			case "DELETED":
				delete(have, key(o))
			}
			report(all(), nil)
			return nil
		})
		if err != nil {
			return err
		}
		version = next
	}
	return nil
}

func (w *Watcher) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.api.Server+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.api.Token)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound:
		err = errMissing
	case http.StatusGone:
		err = errOld
	default:
		var status struct{ Message string }
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&status) // the status line suffices
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, status.Message)
	}
	return nil, errors.Join(err, resp.Body.Close())
}

func (w *Watcher) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	resp, err := w.request(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(io.LimitReader(resp.Body, listLimit)).Decode(into)
}

// watch calls each for every event after a version, and returns the last one's version when the server ends the watch.
func (w *Watcher) watch(ctx context.Context, path, version string, each func(kind string, o json.RawMessage) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, (watchSeconds+60)*time.Second)
	defer cancel()
	resp, err := w.request(ctx, http.MethodGet, path, url.Values{
		"watch": {"1"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {fmt.Sprint(watchSeconds)},
	}, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return version, nil
		} else if err != nil {
			return "", err
		}
		if e.Type == "ERROR" {
			return "", errOld
		}
		var o struct {
			Metadata struct {
				Version string `json:"resourceVersion"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(e.Object, &o); err != nil {
			return "", err
		}
		version = o.Metadata.Version
		if e.Type == "BOOKMARK" {
			continue
		}
		if err := each(e.Type, e.Object); err != nil {
			return "", err
		}
	}
}

// Write writes a host name into an object's status. An object that is gone is not an error.
func (w *Watcher) Write(ctx context.Context, a entrance.Address) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	group := "/api/v1"
	if a.Resource == "ingresses" {
		group = "/apis/networking.k8s.io/v1"
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"hostname": a.Host}}}}})
	if err != nil {
		return err
	}
	path := group + "/namespaces/" + url.PathEscape(a.Namespace) + "/" + a.Resource + "/" + url.PathEscape(a.Name) + "/status"
	resp, err := w.request(ctx, http.MethodPatch, path, url.Values{"fieldManager": {"lab-door"}}, bytes.NewReader(patch))
	if errors.Is(err, errMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, listLimit))
	return errors.Join(err, resp.Body.Close())
}
