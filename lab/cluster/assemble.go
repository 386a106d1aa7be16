package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/constants"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/exec"
)

// A cluster of one control plane on lab's own node image is set up by lab: kind makes the nodes and writes their configuration, and lab does what kind would
// do then. kind runs kubectl in the node for it four times, one command after the other, and has the API server prepare its schemas for that: of 16 s of
// processor time for a cluster 3 s go away, and of the time on two busy cores as much. A cancelled kubeadm ends at once, too. All else, upstream's node image
// with its network daemon and several control planes behind a load balancer, is left to kind altogether.

// assembles reports whether lab sets the cluster up itself.
func (k *Kind) assembles(ctx context.Context, cfg *v1alpha4.Cluster) (bool, error) {
	args := []string{"image", "inspect", "--format", `{{index .Config.Labels "` + lab.LabelInputs + `"}}`}
	controlPlanes := 0
	for _, n := range cfg.Nodes {
		args = append(args, n.Image)
		if n.Role == v1alpha4.ControlPlaneRole {
			controlPlanes++
		}
	}
	if controlPlanes != 1 {
		return false, nil
	}
	out, err := k.docker.Output(ctx, nil, args...)
	if docker.NotFound(err) { // kind pulls it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ours := !slices.Contains(strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), "")
	return ours, nil
}

// assemble turns configured nodes into a cluster.
func (k *Kind) assemble(ctx context.Context, name string, provider *kind.Provider, p lab.Progress) error {
	all, err := provider.ListInternalNodes(lab.KindName(k.lab, name))
	if err != nil {
		return err
	}
	first, err := nodeutils.BootstrapControlPlaneNode(all)
	if err != nil {
		return err
	}
	var storage bytes.Buffer
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p("starting control plane")
		init := first.CommandContext(groupCtx, "sh", "-c", kubeadmInit)
		return run(init.SetStdin(strings.NewReader(dnsPatch(len(all)))))
	})
	group.Go(func() error {
		return run(first.CommandContext(groupCtx, "cat", "/kind/manifests/default-storage.yaml").SetStdout(&storage))
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := k.writeKubeconfig(name); err != nil {
		return err
	}
	client, err := k.client(name)
	if err != nil {
		return err
	}
	group, groupCtx = errgroup.WithContext(ctx)
	group.Go(func() error { return k.createAll(groupCtx, name, &storage) })
	if len(all) == 1 {
		group.Go(func() error { return openToPods(groupCtx, client, first.String()) })
	} else {
		group.Go(func() error { return join(groupCtx, all, p) })
	}
	return group.Wait()
}

// patchesDir is where kubeadm finds changes to what it makes.
const (
	patchesDir  = "/kind/lab-patches"
	kubeadmInit = "mkdir -p " + patchesDir + " && cat >" + patchesDir + "/corednsdeployment+strategic.yaml && " +
		"exec kubeadm init --config=/kind/kubeadm.conf --skip-token-print </dev/null"
)

// dnsPatch makes the DNS servers be asked every 2 s whether they are ready, not every 10 s, as they never are when first asked; and has one where one node
// is all there is.
func dnsPatch(nodes int) string {
	patch := "spec: {template: {spec: {containers: [{name: coredns, readinessProbe: {periodSeconds: 2}}]}}}\n"
	if nodes == 1 {
		patch += "---\nspec: {replicas: 1}\n"
	}
	return patch
}

// run runs a command in a node and keeps what it printed for the error.
func run(cmd exec.Cmd) error { return explain(cmd.Run()) }

// openToPods lets a lone control plane run pods and be reached through load balancers, as kind does: kubeadm sets it apart for a cluster of many.
func openToPods(ctx context.Context, client kubernetes.Interface, node string) error {
	const patch = `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}},"spec":{"taints":null}}`
	err := retryAPI(ctx, func() error {
		_, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}

// join lets the workers join, all at once.
func join(ctx context.Context, all []nodes.Node, p lab.Progress) error {
	workers, err := nodeutils.SelectNodesByRole(all, constants.WorkerNodeRoleValue)
	if err != nil {
		return err
	}
	p(fmt.Sprintf("joining %d workers", len(workers)))
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range workers {
		group.Go(func() error { return run(n.CommandContext(ctx, "kubeadm", "join", "--config=/kind/kubeadm.conf")) })
	}
	return group.Wait()
}

var clusterWide = []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "StorageClass"}

// createAll creates the objects of a manifest in their order.
func (k *Kind) createAll(ctx context.Context, name string, manifest io.Reader) error {
	cfg, err := k.RESTConfig(name)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	docs := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		var o unstructured.Unstructured
		if err := docs.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("storage manifest: %w", err)
		}
		if len(o.Object) == 0 {
			continue
		}
		// The manifest is the node image's own: it has no kinds with an unusual plural, and few that are in no namespace, whatever it says.
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		namespace := o.GetNamespace()
		if slices.Contains(clusterWide, o.GetKind()) {
			namespace = ""
		}
		err := retryAPI(ctx, func() error {
			_, err := client.Resource(resource).Namespace(namespace).Create(ctx, &o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}
