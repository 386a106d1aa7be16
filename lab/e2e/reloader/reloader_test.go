package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const deployments = `{"items": [
	{"metadata": {"name": "web", "namespace": "shop", "annotations": {"reloader.stakater.com/auto": "true"}}, "spec": {"template": {"spec": {
		"containers": [{"env": [{"name": "A", "value": "a"}, {"valueFrom": {"configMapKeyRef": {"name": "banner", "key": "text"}}}]}],
		"initContainers": [{"envFrom": [{"secretRef": {"name": "token"}}]}], "volumes": [{"secret": {"secretName": "certificate"}}, {"emptyDir": {}}]}}}},
	{"metadata": {"name": "api", "namespace": "shop"}, "spec": {"template": {"metadata": {"annotations": {"reloader.stakater.com/auto": "true"}}, "spec": {
		"containers": [{"envFrom": [{"configMapRef": {"name": "api"}}]}]}}}},
	{"metadata": {"name": "other", "namespace": "shop"}, "spec": {"template": {"spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "banner"}}]}]}}}}
]}`

// cluster is an API server with three objects, one of which is missing.
type cluster struct {
	data    map[string]string // path -> object
	patched []string
	broken  string // path that fails
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch text, ok := c.data[req.URL.Path]; {
	case req.Header.Get("Authorization") != "Bearer token":
		w.WriteHeader(http.StatusUnauthorized)
	case req.URL.Path == c.broken:
		w.WriteHeader(http.StatusInternalServerError)
	case req.Method == http.MethodPatch:
		body, _ := io.ReadAll(req.Body)
		if !strings.Contains(string(body), `{"spec":{"template":{"metadata":{"annotations":{"reloader.stakater.com/last-reloaded-from":"`) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.patched = append(c.patched, req.URL.Path)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = io.WriteString(w, text)
	}
}

func TestLook(t *testing.T) {
	const banner, token, certificate = "/api/v1/namespaces/shop/configmaps/banner", "/api/v1/namespaces/shop/secrets/token", "/api/v1/namespaces/shop/secrets/certificate"
	c := &cluster{data: map[string]string{"/apis/apps/v1/deployments": deployments, banner: `{"data": {"text": "first"}}`, token: `{"data": {"t": "YQ=="}}`}}
	server := httptest.NewServer(c)
	defer server.Close()
	r := &reloader{
		api: server.URL, token: func() ([]byte, error) { return []byte("token"), nil }, client: server.Client(),
		log: slog.New(slog.DiscardHandler), seen: map[string]string{},
	}
	for _, step := range []struct {
		name   string
		change func()
		broken string
		want   []string
		fails  bool
	}{
		{name: "initial objects", change: func() {}},
		{name: "no change", change: func() {}},
		{name: "a ConfigMap", change: func() { c.data[banner] = `{"data": {"text": "second"}}` }, want: []string{"web"}},
		{name: "no further change", change: func() {}},
		{name: "a Secret", change: func() { c.data[token] = `{"data": {"t": "Yg=="}}` }, want: []string{"web"}},
		{name: "formerly missing object", change: func() { c.data[certificate] = `{"data": {"c": "Yg=="}}` }, want: []string{"web"}},
		{name: "failing patch", change: func() { c.data[banner] = `{"data": {"text": "third"}}` }, broken: "/apis/apps/v1/namespaces/shop/deployments/web", fails: true},
		{name: "retried patch", change: func() {}, want: []string{"web"}},
		{name: "unreadable object", change: func() { c.data["/api/v1/namespaces/shop/configmaps/api"] = `{"data": {"a": "b"}}` }, broken: banner, fails: true, want: []string{"api"}},
		{name: "readable again, unchanged", change: func() {}},
		{name: "failing list", change: func() {}, broken: "/apis/apps/v1/deployments", fails: true},
	} {
		step.change()
		c.patched, c.broken = nil, step.broken
		err := r.look(t.Context())
		var want []string
		for _, name := range step.want {
			want = append(want, "/apis/apps/v1/namespaces/shop/deployments/"+name)
		}
		if !slices.Equal(c.patched, want) || (err != nil) != step.fails {
			t.Errorf("%s: patched %q, want %q; %v", step.name, c.patched, want, err)
		}
	}
}
