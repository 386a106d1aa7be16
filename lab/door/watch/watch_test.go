package watch

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"homelab/lab/door/entrance"
)

// api is an API server of Services and Ingresses, without HTTPRoutes.
type api struct {
	*httptest.Server
	mu      sync.Mutex
	events  []chan string // of open watches on Services
	lists   int           // of Services
	patches []string
	broken  bool
}

func service(name string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"app","name":%q,"resourceVersion":"7"},"spec":{"type":"LoadBalancer","clusterIP":"10.96.0.1","ports":[{"port":80}]}}`, name)
}

func newAPI(t *testing.T) *api {
	a := &api{}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	t.Cleanup(a.end)
	return a
}

func (a *api) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.events {
		close(c)
	}
	a.events = nil
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	broken := a.broken
	a.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer secret" || broken:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"not you"}`)
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.patches = append(a.patches, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		a.mu.Unlock()
		if strings.Contains(r.URL.Path, "/gone/") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "{}")
	case r.URL.Path == httpRoutes:
		http.NotFound(w, r)
	case r.URL.Query().Get("watch") != "":
		if v := r.URL.Query().Get("resourceVersion"); r.URL.Path == services && v != "5" && v != "7" && v != "9" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		events := make(chan string)
		if r.URL.Path == services {
			a.mu.Lock()
			a.events = append(a.events, events)
			a.mu.Unlock()
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case e, open := <-events:
				if !open {
					return
				}
				fmt.Fprintln(w, e)
				w.(http.Flusher).Flush()
			}
		}
	case r.URL.Path == services && r.URL.Query().Get("continue") == "":
		a.mu.Lock()
		a.lists++
		a.mu.Unlock()
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"5","continue":"more"},"items":[%s]}`, service("one"))
	case r.URL.Path == services:
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"5"},"items":[%s]}`, service("two"))
	default:
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
	}
}

func (a *api) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
}

// send sends an event on the latest watch of Services.
func (a *api) send(t *testing.T, kind, object string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Second)
	for {
		var last chan string // nil until there is a watch
		a.mu.Lock()
		if n := len(a.events); n > 0 {
			last = a.events[n-1]
		}
		a.mu.Unlock()
		select {
		case last <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object):
			return
		case <-tick.C:
		case <-deadline:
			t.Fatal("no watch")
		}
	}
}

func TestRun(t *testing.T) {
	a := newAPI(t)
	w, err := New(API{Server: a.URL, CA: a.ca(), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	w.pause = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan Seen, 100)
	ended := make(chan bool)
	go func() { w.Run(ctx, "dev", func(s Seen) { reports <- s }); close(ended) }()
	await := func(what string, ok func(Seen) bool) {
		t.Helper()
		var last Seen
		for {
			select {
			case last = <-reports:
				if ok(last) {
					return
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("not %s: %+v", what, last)
			}
		}
	}
	names := func(s Seen) string {
		var list []string
		for _, s := range s.Cluster.Services {
			list = append(list, s.Metadata.Name)
		}
		return strings.Join(list, " ")
	}
	await("listed", func(s Seen) bool { return s.Read && names(s) == "one two" && s.Error == nil && s.Cluster.Name == "dev" })
	a.send(t, "ADDED", service("three"))
	await("added", func(s Seen) bool { return names(s) == "one three two" })
	a.send(t, "BOOKMARK", `{"metadata":{"resourceVersion":"9"}}`)
	a.send(t, "DELETED", service("one"))
	await("deleted", func(s Seen) bool { return names(s) == "three two" })
	a.end() // goes on from the last version, without a new list
	a.send(t, "DELETED", service("two"))
	await("deleted after a new watch", func(s Seen) bool { return names(s) == "three" })
	if a.lists != 1 {
		t.Errorf("%d lists", a.lists)
	}
	a.send(t, "ERROR", `{"kind":"Status","code":410}`)
	await("listed again", func(s Seen) bool { return names(s) == "one two" })
	a.mu.Lock()
	a.broken = true
	a.mu.Unlock()
	a.end()
	await("failed, with what was known", func(s Seen) bool {
		return s.Error != nil && strings.Contains(s.Error.Error(), "not you") && names(s) == "one two"
	})
	a.mu.Lock()
	a.broken = false
	a.mu.Unlock()
	await("well again", func(s Seen) bool { return s.Error == nil })
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("does not end")
	}
}

func TestWrite(t *testing.T) {
	a := newAPI(t)
	w, err := New(API{Server: a.URL, CA: a.ca(), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []entrance.Address{
		{Resource: "services", Namespace: "app", Name: "podinfo", Host: "podinfo.dev.demo.localhost"},
		{Resource: "ingresses", Namespace: "app", Name: "shop", Host: "shop.dev.demo.localhost"},
		{Resource: "services", Namespace: "gone", Name: "x", Host: "x.dev.demo.localhost"},
	} {
		if err := w.Write(t.Context(), x); err != nil {
			t.Error(err)
		}
	}
	patch := func(host string) string {
		data, _ := json.Marshal(host)
		return ` application/merge-patch+json {"status":{"loadBalancer":{"ingress":[{"hostname":` + string(data) + `}]}}}`
	}
	want := []string{
		"/api/v1/namespaces/app/services/podinfo/status" + patch("podinfo.dev.demo.localhost"),
		"/apis/networking.k8s.io/v1/namespaces/app/ingresses/shop/status" + patch("shop.dev.demo.localhost"),
		"/api/v1/namespaces/gone/services/x/status" + patch("x.dev.demo.localhost"),
	}
	if strings.Join(a.patches, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", a.patches)
	}
	w.api.Token = "wrong"
	if err := w.Write(t.Context(), entrance.Address{Resource: "services", Namespace: "app", Name: "podinfo"}); err == nil || !strings.Contains(err.Error(), "not you") {
		t.Errorf("got %v", err)
	}
}

func TestNoCertificate(t *testing.T) {
	if _, err := New(API{Server: "https://x", CA: []byte("x"), Token: "secret"}); err == nil {
		t.Error("no error")
	}
}
