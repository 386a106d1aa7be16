package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/trust"
)

// Existing provides clusters that lab does not run: it attaches and releases them, and never creates, starts or deletes one. A cluster is attached while it has
// the lab's mark or a record, which outlives the estate, so that lab down also releases clusters that have left the estate.
type Existing struct {
	// Leaving makes attached clusters reachable by lab's copies of their kubeconfigs if the estate's were not agreed to.
	Leaving bool

	lab     string
	state   *state.Dir
	estate  map[string]lab.Cluster
	agreed  func(trust.Thing) bool
	dir     string // the estate's, base of relative paths
	connect func(*rest.Config) (kubernetes.Interface, error)
}

// NewExisting returns the existing clusters of the lab of dir and of its estate, which may be nil. Of the estate's clusters, it reaches those that were agreed to.
func NewExisting(dir *state.Dir, est *lab.Estate, agreed func(trust.Thing) bool) *Existing {
	e := &Existing{
		lab: dir.Lab, state: dir, estate: map[string]lab.Cluster{}, agreed: agreed,
		connect: func(cfg *rest.Config) (kubernetes.Interface, error) { return kubernetes.NewForConfig(cfg) },
	}
	if est == nil {
		return e
	}
	e.dir = est.Dir
	for _, c := range est.Clusters {
		if c.Provider == lab.ProviderExisting {
			e.estate[c.Name] = c
		}
	}
	return e
}

// attachLimit bounds the wait for a cluster to answer.
const attachLimit = time.Minute

// has reports whether the estate declares the cluster as existing, or it is attached.
func (e *Existing) has(name string) bool {
	_, wanted := e.estate[name]
	return wanted || e.state.Cluster(name).Attached
}

// Kubeconfig returns the path of lab's copy of a cluster's kubeconfig, which lab down uses for clusters that left the estate.
func (e *Existing) Kubeconfig(name string) string {
	return filepath.Join(e.state.Kubeconfigs(), name+".yaml")
}

// RESTConfig returns the client configuration of a cluster.
func (e *Existing) RESTConfig(name string) (*rest.Config, error) {
	access, err := e.access(name)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*access, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	cfg.UserAgent = "lab"
	return cfg, nil
}

func (e *Existing) client(name string) (kubernetes.Interface, error) {
	cfg, err := e.RESTConfig(name)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = answerLimit
	return e.connect(cfg)
}

// Observe returns the attached clusters.
func (e *Existing) Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error) {
	all, err := e.state.Attached()
	if err != nil {
		return nil, err
	}
	for name := range e.estate {
		all = append(all, name)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	var mu sync.Mutex
	var states []lab.ClusterState
	var asking errgroup.Group
	for _, name := range all {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		asking.Go(func() error {
			s, _ := e.inspect(ctx, name)
			if s.Exists {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, s)
			}
			return nil
		})
	}
	_ = asking.Wait()
	slices.SortFunc(states, func(a, b lab.ClusterState) int { return strings.Compare(a.Name, b.Name) })
	return states, ctx.Err()
}

// inspect returns the state of one cluster. A cluster that is not attached is reported as absent.
func (e *Existing) inspect(ctx context.Context, name string) (lab.ClusterState, error) {
	record := e.state.Cluster(name)
	s := lab.ClusterState{
		Name: name, Exists: record.Attached, Running: true, Attached: true, Made: lab.MadeWhole, Inputs: record.Inputs, Recorded: record.Attached && record.Whole,
		Fault: "its API does not answer",
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	client, err := e.client(name)
	if err != nil {
		s.Fault = "its kubeconfig cannot be loaded"
		if untrusted(err) {
			s.Fault, s.Running = Untrusted, false
		}
		return s, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return s, err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return s, err
	}
	m, err := markOf(ctx, client)
	if err != nil {
		return s, err
	}
	s.Answers, s.Fault, s.Kubernetes = true, "", version.GitVersion
	for _, n := range nodes.Items {
		ready, _ := nodeReady(&n, time.Time{})
		s.Ready = s.Ready || ready // other nodes are up to their owner
	}
	if m.lab == e.lab {
		s.Exists, s.Marked = true, true
		if !s.Recorded {
			s.Inputs = m.inputs
		}
	}
	return s, nil
}

// marked is the content of a cluster's mark.
type marked struct {
	lab, inputs string
	foreign     bool // a ConfigMap of that name is not a mark
}

func markOf(ctx context.Context, client kubernetes.Interface) (marked, error) {
	m, err := client.CoreV1().ConfigMaps(system).Get(ctx, markName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return marked{}, nil
	}
	if err != nil {
		return marked{}, err
	}
	return marked{lab: m.Labels[lab.LabelName], inputs: m.Data[markInputs], foreign: m.Labels[lab.LabelName] == ""}, nil
}

// Create attaches a cluster. It belongs to the lab once recorded, until Delete releases it. A cluster of another lab is refused.
func (e *Existing) Create(ctx context.Context, spec Spec, p lab.Progress) error {
	return e.attach(ctx, spec.Cluster.Name, orDiscard(p))
}

// Start waits until a cluster answers; only its owner can start it.
func (e *Existing) Start(ctx context.Context, name string, p lab.Progress) error {
	return e.attach(ctx, name, orDiscard(p))
}

func (e *Existing) attach(ctx context.Context, name string, p lab.Progress) error {
	if err := e.waitAnswering(ctx, name, p); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	r := e.state.Cluster(name)
	r.Attached = true
	if err := e.state.SaveCluster(name, r); err != nil {
		return err
	}
	return e.saveKubeconfig(name)
}

// waitAnswering waits until a cluster answers with a ready node, and returns permanent errors immediately.
func (e *Existing) waitAnswering(ctx context.Context, name string, p lab.Progress) error {
	if _, err := e.access(name); err != nil {
		return err // waiting does not help
	}
	within, cancel := context.WithTimeout(ctx, attachLimit)
	defer cancel()
	for {
		s, err := e.inspect(within, name)
		switch {
		case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
			return err
		case err == nil && s.Ready:
			return e.checkFree(within, name)
		case err == nil:
			err = errors.New("none of its nodes is ready")
		}
		p("waiting for its API: " + err.Error())
		if lab.Sleep(within, time.Second) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &lab.Error{
				Exit: lab.ExitTimeout, Code: "unreachable", Message: fmt.Sprintf("it was not ready within %s, last seen: %v", attachLimit, err),
				Cure: "see that kubectl get nodes works with its kubeconfig, and run lab up again",
			}
		}
	}
}

// checkFree returns an error if the cluster belongs to another lab, or its owner has a ConfigMap where the mark would be.
func (e *Existing) checkFree(ctx context.Context, name string) error {
	client, err := e.client(name)
	if err != nil {
		return err
	}
	m, err := markOf(ctx, client)
	switch {
	case err != nil:
		return err
	case m.foreign:
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "it has a configmap " + system + "/" + markName + " that is not lab's, where lab's mark would be",
			Cure: "rename or remove it there, or take the cluster out of the estate",
		}
	case m.lab == "" || m.lab == e.lab:
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "not_ours", Message: "it is a cluster of lab " + m.lab,
		Cure: "take it out of that lab's estate and run lab up --prune there; if there is no such lab: kubectl delete configmap " + lab.Quote(markName) + " --namespace " + lab.Quote(system),
	}
}

// saveKubeconfig copies a cluster's kubeconfig, for lab kubeconfig and for when the cluster leaves the estate.
func (e *Existing) saveKubeconfig(name string) error {
	access, err := e.access(name)
	if err != nil {
		return err
	}
	text, err := clientcmd.Write(*access)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(e.Kubeconfig(name)); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return writeKubeconfig(e.Kubeconfig(name), text)
}

// Load does nothing: the cluster pulls its images.
func (e *Existing) Load(context.Context, string, []lab.Image, lab.Progress) error { return nil }

// Mark marks a cluster as attached to the lab.
func (e *Existing) Mark(ctx context.Context, name, inputs string, _ []string) error {
	if err := e.checkFree(ctx, name); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	client, err := e.client(name)
	if err != nil {
		return err
	}
	m := corev1.ConfigMap(markName, system).WithLabels(map[string]string{lab.LabelName: e.lab, lab.LabelPart: "cluster"}).WithData(map[string]string{markInputs: inputs})
	if _, err := client.CoreV1().ConfigMaps(system).Apply(ctx, m, metav1.ApplyOptions{FieldManager: "lab", Force: true}); err != nil {
		return fmt.Errorf("cluster %s: mark: %w", name, err)
	}
	return e.Record(ctx, name, inputs)
}

// Record records that a cluster is attached.
func (e *Existing) Record(_ context.Context, name, inputs string) error {
	r := e.state.Cluster(name)
	r.Attached, r.Whole, r.Inputs = true, true, inputs
	if err := e.state.SaveCluster(name, r); err != nil {
		return err
	}
	return e.saveKubeconfig(name)
}

// Delete releases a cluster: it removes the mark, then lab's copy of the kubeconfig and the record. The cluster itself is unaffected.
func (e *Existing) Delete(ctx context.Context, name string) error {
	if !e.state.Cluster(name).Attached {
		if s, _ := e.inspect(ctx, name); !s.Exists {
			return nil
		}
	}
	client, err := e.client(name)
	if err != nil {
		return err
	}
	m, err := markOf(ctx, client)
	if err == nil && m.lab == e.lab {
		err = client.CoreV1().ConfigMaps(system).Delete(ctx, markName, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s: release: %w", name, err)
	}
	return e.Forget(name)
}

// Forget removes lab's files about a cluster without touching the cluster.
func (e *Existing) Forget(name string) error {
	return errors.Join(forgetKubeconfig(e.Kubeconfig(name)), e.state.ForgetCluster(name))
}
