// Package dryrun compares what an engine will have with what runs: API servers say what applying each object would change. Nothing is changed.
package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/render"
)

// parallel requests are enough to keep the API servers of a lab busy.
const parallel = 16

// Clusters are the clusters of a lab.
type Clusters struct {
	// Connect returns a cluster by its name; it is called once for each.
	Connect func(name string) (*Cluster, error)
	// Home returns the cluster that has the manifest of an application.
	Home func(desired.App) string

	mu        sync.Mutex
	connected map[string]func() (*Cluster, error)
}

func (c *Clusters) get(name string) (*Cluster, error) {
	c.mu.Lock()
	if c.connected == nil {
		c.connected = map[string]func() (*Cluster, error){}
	}
	connect := c.connected[name]
	if connect == nil {
		connect = sync.OnceValues(func() (*Cluster, error) { return c.Connect(name) })
		c.connected[name] = connect
	}
	c.mu.Unlock()
	return connect()
}

// Compare returns applications as they run, and as they would run once their engine has applied them; done is called after each. What is unknown, such as the objects of a
// silent cluster, cannot be rendered in either. Hooks are left out.
func (c *Clusters) Compare(ctx context.Context, apps []desired.App, done func(app string)) (is, would []desired.App, err error) {
	is, would = make([]desired.App, len(apps)), make([]desired.App, len(apps))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, app := range apps {
		group.Go(func() error {
			is[i], would[i] = c.app(ctx, app)
			done(app.Name)
			return context.Cause(ctx)
		})
	}
	err = group.Wait()
	return is, would, err
}

// Object is an object of an application.
type Object struct{ App, Cluster, ID string }

// Refused returns why API servers refuse objects: a field cannot be changed, or admission forbids it. asks selects the objects. What is not known is not refused.
func (c *Clusters) Refused(ctx context.Context, apps []desired.App, asks map[Object]bool) map[Object]string {
	refused := map[Object]string{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, app := range apps {
		group.Go(func() error {
			objects, _ := app.Rendered()
			for _, o := range objects {
				key := Object{app.Name, o.Cluster, o.ID()}
				cluster, err := c.get(o.Cluster)
				of := &unstructured.Unstructured{}
				if text, failed := o.JSON(); !asks[key] || o.Hook != "" || err != nil || failed != nil || of.UnmarshalJSON(text) != nil {
					continue
				}
				_, _, err = cluster.compare(ctx, of)
				ending := apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) // which the engine waits for
				if (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) && !ending {
					mu.Lock()
					refused[key] = err.Error()
					mu.Unlock()
				}
			}
			return nil
		})
	}
	_ = group.Wait() // no error
	return refused
}

// app returns an application as it runs, and as it would.
func (c *Clusters) app(ctx context.Context, app desired.App) (is, would desired.App) {
	is, would = app, app
	is.Parts, would.Parts, is.Last, would.Last = nil, nil, false, false
	objects, failed := app.Rendered()
	for _, f := range failed {
		p := app.Parts[f.Source]
		add(&is, &would, desired.Part{Name: p.Name, Cluster: p.Cluster}, nil, nil, problem(f.Problem))
	}
	type key struct{ release, cluster string }
	var order []key
	has, gets := map[key][]render.Document{}, map[key][]render.Document{}
	put := func(in map[key][]render.Document, k key, o map[string]any, file string) {
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
		if o != nil {
			in[k] = append(in[k], render.Document{Node: node(o), File: file})
		}
	}
	known := map[string]bool{}
	for _, o := range objects {
		if o.Hook != "" {
			continue
		}
		of := &unstructured.Unstructured{}
		live, next, err := func() (live, next map[string]any, err error) {
			text, err := o.JSON()
			if err == nil {
				err = of.UnmarshalJSON(text)
			}
			if err != nil {
				return nil, nil, err
			}
			known[idOf(of)] = true
			cluster, err := c.get(o.Cluster)
			if err != nil {
				return nil, nil, err
			}
			return cluster.compare(ctx, of)
		}()
		if err != nil {
			add(&is, &would, desired.Part{Name: o.ID(), Cluster: o.Cluster}, nil, nil, problem(lab.Problem{Position: lab.Position{File: o.File, Line: o.Node.Line}, Message: err.Error()}))
			continue
		}
		k := key{o.Part, o.Cluster}
		put(has, k, live, o.File)
		put(gets, k, next, o.File)
	}
	if app.Manifest != nil {
		left := func(cluster string, o map[string]any) { put(has, key{"", cluster}, o, "") }
		var err error
		if is.Manifest, would.Manifest, err = c.manifest(ctx, app, left, known, len(failed) == 0); err != nil {
			add(&is, &would, desired.Part{Name: "itself", Cluster: app.Cluster}, nil, nil, problem(lab.Problem{Position: app.At, Message: err.Error()}))
		}
	}
	for _, k := range order {
		add(&is, &would, desired.Part{Name: k.release, Cluster: k.cluster}, has[k], gets[k], nil)
	}
	return is, would
}

// manifest returns the manifest of an application as it is, and as it would be. Objects that the engine has applied for it and that are not known any more are passed to
// left, if all are known. With an error, both are the same.
func (c *Clusters) manifest(ctx context.Context, app desired.App, left func(cluster string, o map[string]any), known map[string]bool, all bool) (is, would any, err error) {
	want := &unstructured.Unstructured{}
	encoded, err := json.Marshal(app.Manifest)
	if err == nil {
		err = want.UnmarshalJSON(encoded)
	}
	var home *Cluster
	if err == nil {
		home, err = c.get(c.Home(app))
	}
	if err != nil {
		return app.Manifest, app.Manifest, err
	}
	live, next, err := home.compare(ctx, want)
	switch {
	case err != nil:
		return app.Manifest, app.Manifest, err
	case live == nil:
		return nil, next, nil
	case !all || len(app.Parts) == 0:
		return live, next, nil
	}
	of, err := home.read(ctx, want)
	if err != nil || of == nil {
		return live, next, err
	}
	name := app.Parts[0].Cluster // the others are releases, or of the same cluster
	cluster, err := c.get(name)
	for _, o := range applied(of) {
		if err != nil || known[idOf(o)] {
			continue
		}
		var found *unstructured.Unstructured
		if found, err = cluster.read(ctx, o); found != nil {
			left(name, clean(found))
		}
	}
	return live, next, err
}

// add adds a part to both states, or the reason why it is unknown in both.
func add(is, would *desired.App, p desired.Part, has, gets []render.Document, unknown error) {
	part := func(docs []render.Document) desired.Part {
		of := p
		of.Render = func() ([]render.Document, error) { return docs, unknown }
		return of
	}
	is.Parts, would.Parts = append(is.Parts, part(has)), append(would.Parts, part(gets))
}

func problem(p lab.Problem) error { return &render.Error{Problem: p} }

// node converts an object of JSON.
func node(o map[string]any) *yaml.Node {
	n := &yaml.Node{}
	if err := n.Encode(o); err != nil {
		panic(fmt.Sprintf("an object of an API server is not YAML: %v", err))
	}
	return n
}

func idOf(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	return gk.String() + " " + o.GetNamespace() + "/" + o.GetName()
}
