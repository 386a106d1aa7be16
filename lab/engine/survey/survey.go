// Package survey compares a lab before and after the upgrade of its engine: the applications, the objects that the engine tracks, and all pods.
package survey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"homelab/lab"
)

// Cluster is a cluster to survey.
type Cluster struct {
	Name     string
	Typed    kubernetes.Interface
	Metadata metadata.Interface
	Only     []string // namespaces of a cluster that is not the lab's; empty for all, and for objects without one
	Engine   string   // the engine's namespace, whose pods are replaced; empty where none runs
	Runs     bool     // it is asked again until it answers or the survey's time is over
}

// Connect returns a cluster reached by a configuration.
func Connect(name string, cfg *rest.Config) (Cluster, error) {
	c := rest.CopyConfig(cfg)
	c.QPS = -1
	typed, err := kubernetes.NewForConfig(c)
	if err != nil {
		return Cluster{}, err
	}
	meta, err := metadata.NewForConfig(c)
	return Cluster{Name: name, Typed: typed, Metadata: meta}, err
}

// Survey is what was found.
type Survey struct {
	Applications []lab.Application
	objects      map[key]object
	names        map[string]bool // of Namers
	pods         map[types.UID]pod
	unknown      map[string]error // clusters that did not answer
}

func empty() Survey {
	return Survey{objects: map[key]object{}, names: map[string]bool{}, pods: map[types.UID]pod{}, unknown: map[string]error{}}
}

type key struct{ cluster, group, kind, namespace, name string }

func (k key) String() string {
	return k.cluster + ": " + k.kind + " " + strings.TrimPrefix(k.namespace+"/"+k.name, "/")
}

type object struct {
	uid      types.UID
	tracking string // the engine's labels and annotations; empty if it does not track the object
	label    string // value of Tracking.Label
}

type pod struct {
	cluster  string
	name     string // "dev: podinfo/podinfo-6c9d"
	restarts int32
}

// Tracking is how an engine tracks objects.
type Tracking struct {
	Own   []string         // its own labels and annotations
	Mark  string           // "KEY=VALUE" of an annotation without which Own does not count, or ""
	Label string           // a label that others set, too: it tracks if its value is the name of an object of kind Namer
	Namer schema.GroupKind // of Label
}

// Take surveys clusters concurrently. Those that do not answer are unknown.
func Take(ctx context.Context, clusters []Cluster, applications []lab.Application, keys Tracking) Survey {
	s := empty()
	s.Applications = applications
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range clusters {
		wg.Go(func() {
			one, err := take(ctx, c, keys)
			for err != nil && c.Runs && lab.Sleep(ctx, time.Second) == nil {
				one, err = take(ctx, c, keys)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.unknown[c.Name] = err
				return
			}
			maps.Copy(s.objects, one.objects)
			maps.Copy(s.names, one.names)
			maps.Copy(s.pods, one.pods)
		})
	}
	wg.Wait()
	for k, o := range s.objects {
		if s.names[o.label] {
			o.tracking = strings.TrimSpace(keys.Label + "=" + o.label + " " + o.tracking)
			s.objects[k] = o
		}
	}
	return s
}

func take(ctx context.Context, c Cluster, keys Tracking) (Survey, error) {
	s := empty()
	lists, err := discovery.ServerPreferredResources(c.Typed.Discovery())
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // an API service that does not answer
		return s, err
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return s, err
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" || len(c.Only) > 0 && !r.Namespaced {
				continue
			}
			for _, ns := range c.namespaces() {
				if err := s.list(ctx, c, gv.WithResource(r.Name), key{c.Name, gv.Group, r.Kind, ns, ""}, keys); err != nil {
					return s, err
				}
			}
		}
	}
	for _, ns := range c.namespaces() {
		if err := s.listPods(ctx, c, ns); err != nil {
			return s, err
		}
	}
	return s, nil
}

// namespaces returns the namespaces to list, "" for all.
func (c Cluster) namespaces() []string {
	if len(c.Only) > 0 {
		return c.Only
	}
	return []string{metav1.NamespaceAll}
}

// list adds the objects of a kind, in the namespace of k.
func (s Survey) list(ctx context.Context, c Cluster, kind schema.GroupVersionResource, k key, keys Tracking) error {
	list, err := c.Metadata.Resource(kind).Namespace(k.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) { // a definition that was just removed
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind.GroupResource(), err)
	}
	for _, o := range list.Items {
		if (schema.GroupKind{Group: k.group, Kind: k.kind}) == keys.Namer {
			s.names[o.Name] = true
		}
		if metav1.GetControllerOf(&o) != nil { // it may copy its owner's labels
			continue
		}
		k.namespace, k.name = o.Namespace, o.Name
		found := object{uid: o.UID, tracking: keys.of(&o)}
		if kind.Resource != "endpoints" { // Kubernetes copies their Services' labels
			found.label = o.Labels[keys.Label]
		}
		s.objects[k] = found
	}
	return nil
}

// of returns the engine's own labels and annotations of an object, or "".
func (t Tracking) of(o metav1.Object) string {
	if key, value, marked := strings.Cut(t.Mark, "="); marked && o.GetAnnotations()[key] != value {
		return ""
	}
	var parts []string
	for _, key := range t.Own {
		for _, in := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
			if v := in[key]; v != "" {
				parts = append(parts, key+"="+v)
			}
		}
	}
	return strings.Join(parts, " ")
}

func (s Survey) listPods(ctx context.Context, c Cluster, ns string) error {
	list, err := c.Typed.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	for _, p := range list.Items {
		if c.Engine != "" && p.Namespace == c.Engine || p.Status.Phase == corev1.PodSucceeded || ownedBy(&p, "Job") {
			continue
		}
		at := pod{cluster: c.Name, name: c.Name + ": " + p.Namespace + "/" + p.Name}
		for _, st := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			at.restarts += st.RestartCount
		}
		s.pods[p.UID] = at
	}
	return nil
}

func ownedBy(o metav1.Object, kind string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == kind
}

// Report is what the upgrade of an engine changed. All lists are sorted.
type Report struct {
	OutOfSync []string // applications that were in sync and healthy: "dev-podinfo: OutOfSync, Healthy"
	Gone      []string // applications that no longer exist
	New       []string // applications that did not exist
	Replaced  []string // objects that were deleted and created again
	Deleted   []string // objects that no longer exist
	Orphaned  []string // objects that no application tracks any more
	Retracked []string // objects that are tracked in another way: "dev: Service web/web, KEY=OLD to KEY=NEW"
	Restarted []string // pods outside of the engine that were replaced or whose containers restarted
	Unknown   []string // clusters that did not answer before or after: "dev: its error"
	Objects   int      // tracked objects before
	Pods      int      // pods outside of the engine before
}

// Compare returns what changed between two surveys.
func Compare(before, after Survey) Report {
	var r Report
	unknown := map[string]error{}
	maps.Copy(unknown, before.unknown)
	maps.Copy(unknown, after.unknown)
	for name, err := range unknown {
		r.Unknown = append(r.Unknown, name+": "+err.Error())
	}
	was := map[string]lab.Application{}
	for _, a := range before.Applications {
		was[a.Name] = a
	}
	for _, a := range after.Applications {
		b, known := was[a.Name]
		switch delete(was, a.Name); {
		case !known:
			r.New = append(r.New, a.Name)
		case b.Converged() && !a.Converged():
			r.OutOfSync = append(r.OutOfSync, a.Name+": "+a.Sync+", "+a.Health)
		}
	}
	r.Gone = slices.AppendSeq(r.Gone, maps.Keys(was))
	for k, b := range before.objects {
		if b.tracking == "" || unknown[k.cluster] != nil {
			continue
		}
		r.Objects++
		switch a, there := after.objects[k]; {
		case !there:
			r.Deleted = append(r.Deleted, k.String())
		case a.uid != b.uid:
			r.Replaced = append(r.Replaced, k.String())
		case a.tracking == "":
			r.Orphaned = append(r.Orphaned, k.String())
		case a.tracking != b.tracking:
			r.Retracked = append(r.Retracked, k.String()+", "+b.tracking+" to "+a.tracking)
		}
	}
	for uid, b := range before.pods {
		if unknown[b.cluster] != nil {
			continue
		}
		r.Pods++
		switch a, there := after.pods[uid]; {
		case !there:
			r.Restarted = append(r.Restarted, b.name+" was replaced")
		case a.restarts > b.restarts:
			r.Restarted = append(r.Restarted, fmt.Sprintf("%s restarted %d times", b.name, a.restarts-b.restarts))
		}
	}
	for _, list := range []*[]string{&r.OutOfSync, &r.Gone, &r.New, &r.Replaced, &r.Deleted, &r.Orphaned, &r.Retracked, &r.Restarted, &r.Unknown} {
		slices.Sort(*list)
	}
	return r
}

// Kinds returns the lists that are not empty, by name.
func (r Report) Kinds() map[string][]string {
	kinds := map[string][]string{
		"outOfSync": r.OutOfSync, "gone": r.Gone, "new": r.New, "replaced": r.Replaced, "deleted": r.Deleted, "orphaned": r.Orphaned, "retracked": r.Retracked,
		"restarted": r.Restarted, "unknown": r.Unknown,
	}
	maps.DeleteFunc(kinds, func(_ string, list []string) bool { return len(list) == 0 })
	return kinds
}

// Changes reports whether anything changed, or may have.
func (r Report) Changes() bool {
	return len(r.Kinds()) > 0
}
